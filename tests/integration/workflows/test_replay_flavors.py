"""The own history of a pool with quotas by GPU flavor, replayed: work may use the flavors that it could use then."""

from __future__ import annotations

from datetime import datetime
from itertools import groupby
from typing import Any

import pytest

from pools.database.transactions import database_time
from pools.domain.changes.backends import PutBackend
from pools.domain.changes.subpools import DeleteSubpool
from pools.domain.values.amounts import flavor_of, gpu_key, is_gpu
from pools.models import Backend, Node
from scheduling.domain.changes.workflows import EndStatus, EndWorkflow
from scheduling.domain.priorities import Priority
from scheduling.history.own.own_history import read_history
from scheduling.history.replay.history_clock import HistoryClock, first_difference
from scheduling.models import Task
from scheduling.selectors.queue.live_facts import read_live_facts
from tests.integration.workflows.recorded_story import replay
from tests.support import world
from tests.support.flavors import make_flavored_pool, submit_gpus

pytestmark = pytest.mark.django_db


def naive(at: datetime) -> str:
    return at.replace(tzinfo=None).isoformat()


def end(name: str) -> None:
    world.apply_change(EndWorkflow(name=name, status=EndStatus.COMPLETED))
    world.reconcile()


class Story:
    """In subpool a: `job-1` fills the quota of H100 and of A100 `job-2` half of it; `job-3` may use both and gets A100,
    `job-4` waits for H100 until `job-1` ends, LOW `job-5` and `job-6` of the pool borrow."""

    def __init__(self) -> None:
        make_flavored_pool()
        self.actor = world.admin_actor()
        self.begin = database_time()
        for gpus, flavors in ((8, ["h100"]), (4, ["a100"]), (4, []), (4, ["h100"])):
            submit_gpus(self.actor, gpus, *flavors)
            world.reconcile()
        for _ in range(2):
            submit_gpus(self.actor, 8, to="team", priority=Priority.LOW)
            world.reconcile()

    def history(self) -> Any:
        return read_history(Backend.objects.get(name="sim"), self.begin, database_time())

    def body(self, *changes: Any) -> dict[str, Any]:
        return {"since": naive(self.begin), "until": naive(database_time()), "changes": list(changes)}


@pytest.fixture
def story() -> Story:
    return Story()


def flavors_of(name: str) -> set[str]:
    return set(
        Task.objects.filter(group__workflow__name=name, start_time__isnull=False).values_list("flavor", flat=True)
    )


def test_the_facts_of_the_history_are_those_that_were_live(story: Story) -> None:
    """Queues, nodes, and the choices of each gang."""
    live = read_live_facts(Backend.objects.get(name="sim")).facts
    history = story.history()
    then = history.configurations[-1]
    assert {queue.name: queue.quota for queue in then.queues} == {queue.name: queue.quota for queue in live.queues}
    assert {node.name: node.resources for node in then.nodes} == {
        node.name: node.resources for node in live.nodes or ()
    }
    clock = HistoryClock(history)
    past = clock.run()
    found = {gang.name: gang for gang in clock._state.facts().gangs}
    assert past.steps
    for gang in live.gangs:
        mine = found[gang.name]
        assert [[task.request for task in tasks] for tasks in mine.choices] == [
            [task.request for task in tasks] for tasks in gang.choices
        ], gang.name
        assert [(task.request, task.node) for task in mine.tasks] == [(task.request, task.node) for task in gang.tasks]


def test_an_unchanged_replay_is_the_record(story: Story, admin: Any) -> None:
    assert (flavors_of("job-3"), flavors_of("job-4")) == ({"a100"}, set())
    end("job-1")
    assert flavors_of("job-4") == {"h100"}
    history = story.history()
    assert first_difference(history.steps, HistoryClock(history).run().steps) is None
    answer = replay(admin, story.body())
    assert (answer["identical"], answer["recorded"]) == (True, answer["on"])
    assert answer["on"]["teams"]["team--a"]["starts"] == 4


def test_another_quota_of_one_flavor_changes_waits_of_that_flavor(story: Story, admin: Any) -> None:
    end("job-1")
    answer = replay(admin, story.body({"set": {"name": "team--a", "quota": {"h100/gpu": 16}}}))
    assert answer["difference"]["better"] == ["team--a"]
    other = replay(admin, story.body({"set": {"name": "team--a", "quota": {"a100/gpu": 12}}}))
    assert other["difference"]["better"] == []
    refused = replay(admin, story.body({"set": {"name": "team--a", "quota": 12}}))
    assert "h100/gpu: …" in str(refused)


def test_a_draining_subpool_keeps_what_its_work_needs_of_each_flavor(story: Story, admin: Any) -> None:
    world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    world.reconcile()
    end("job-1")
    end("job-2")
    history = story.history()
    draining = {name: dict(quotas) for each in history.configurations for name, quotas in each.draining.items()}
    assert draining == {"osmo-pool-default-team--a": {gpu_key("h100"): 8, gpu_key("a100"): 8}}
    assert replay(admin, story.body())["identical"]


def test_work_that_ran_at_the_beginning_has_its_flavor(story: Story, admin: Any) -> None:
    story.begin = database_time()
    end("job-1")
    answer = replay(admin, story.body())
    assert (answer["identical"], answer["steps"]) == (True, 1)


def relabel(**flavors: str) -> None:
    """These nodes have another flavor from now on."""
    rows = {name: flavors.get(name, has) for name, has in Node.objects.values_list("name", "flavor")}
    nodes = [{"name": name, "gpus": 8, "labels": {"gpu": flavor}} for name, flavor in rows.items()]
    world.apply_change(PutBackend(name="sim", body={"nodes": nodes}))
    world.reconcile()


def test_nodes_that_changed_their_flavor_have_in_a_replay_what_they_had_then(story: Story, admin: Any) -> None:
    """The node of `job-1` and a free node of A100 change their flavor while work runs and waits; then they change
    back. What runs stays counted where it was admitted, also in the replay."""
    [held] = Task.objects.filter(group__workflow__name="job-1").values_list("node_name", flat=True)
    used = set(Task.objects.exclude(node_name="").values_list("node_name", flat=True))
    free = next(f"a{i}" for i in range(4) if f"a{i}" not in used)
    relabel(**{held: "a100", free: "h100"})
    submit_gpus(story.actor, 8, "h100", to="team", priority=Priority.LOW)
    world.reconcile()
    end("job-1")
    submit_gpus(story.actor, 4, "a100")
    world.reconcile()
    relabel(**{held: "h100", free: "a100"})
    end("job-2")
    history = story.history()
    nodes = [{node.name: node.resources for node in each.nodes} for each in history.configurations]
    kinds = [next(flavor_of(key) for key in each[held] if is_gpu(key)) for each in nodes]
    assert [kind for kind, _ in groupby(kinds)] == ["h100", "a100", "h100"]
    assert first_difference(history.steps, HistoryClock(history).run().steps) is None
    answer = replay(admin, story.body())
    assert (answer["identical"], answer["recorded"]) == (True, answer["on"])


def test_the_advisor_moves_each_flavor_alone(admin: Any) -> None:
    """Work of `a` waits for H100 of its quota, while the remainder of the pool has 8 H100 that nobody uses; A100 is
    enough everywhere."""
    make_flavored_pool()
    actor, begin = world.admin_actor(), database_time()
    for gpus, flavor in ((8, "h100"), (8, "h100"), (4, "a100")):
        submit_gpus(actor, gpus, flavor)
        world.reconcile()
    end("job-1")
    answer = replay(admin, {"since": naive(begin), "until": naive(database_time()), "advise": True, "tries": 40})
    pools = {pool["flavor"]: pool for pool in answer["advice"]["pools"]}
    assert answer["identical"]
    assert {flavor: pool["quota"] for flavor, pool in pools.items()} == {"h100": 16, "a100": 32}
    assert pools["a100"]["proposal"] is None
    proposal = pools["h100"]["proposal"]
    changes = {change["name"]: (change["from"], change["to"]) for change in proposal["changes"]}
    assert changes == {"team--_shared": (8, 0), "team--a": (8, 16)}
    assert any("team a --quotas h100=16" in command for command in proposal["commands"])
    simulated = admin.post("/api/simulate", {"live": True, "changes": proposal["what_if"]})
    assert admin.status == 200, simulated
