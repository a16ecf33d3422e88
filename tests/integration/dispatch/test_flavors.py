"""Work of a pool with quotas by GPU flavor on a cluster: one flavor is chosen before the dispatch, and its pods go to
nodes of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from pools.domain.changes.pools import PatchPool
from pools.models import Backend, FlavorUsage, Node
from scheduling.domain.cluster.pods.flavor_nodes import flavor_terms
from scheduling.domain.priorities import Priority
from scheduling.history.forecast.futures import sample_waits
from scheduling.history.starts.forecast_facts import read_forecast_facts
from scheduling.models import Decision, Group, Task, Workflow
from scheduling.selectors.queue.visible_queue import list_waiting_gangs
from scheduling.selectors.what_if.live_question import answer_live_question
from scheduling.selectors.work.decisions import read_flavor_starts
from scheduling.services.kubernetes.dispatching import other_flavors
from scheduling.services.kubernetes.dispatching.other_flavors import try_other_flavors
from scheduling.services.verify import verify
from scheduling.services.workflows.attempts import TaskAttempts
from tests.integration.dispatch.test_nodes import add_node
from tests.support import world
from tests.support.agent_harness import AgentHarness, find_group
from tests.support.kube_server import with_a_real_one


def kind_label(harness: AgentHarness, kind: str) -> str:
    """The value of the label of a flavor: nodes belong to a whole cluster, which other tests use too."""
    return f"{kind}-{harness.backend.namespace}"


def give_flavors(harness: AgentHarness, **quotas: int) -> None:
    """Two nodes of 8 GPUs of each kind, and these quotas of the pool, in its order of preference."""
    kinds = {kind: {"gpu.product": kind_label(harness, kind)} for kind in ("h100", "a100")}
    named = [{"name": kind, "node_labels": labels} for kind, labels in kinds.items()]
    Backend.objects.filter(pk=harness.backend.pk).update(flavors=named)
    for kind, labels in kinds.items():
        for number in range(2):
            add_node(harness, f"{kind_label(harness, kind)}-{number}", labels=labels)
    flavors = {flavor: {"guarantee": gpus} for flavor, gpus in quotas.items()}
    world.apply_change(PatchPool(name=harness.pool.name, patch={"resources": {"flavors": flavors}}))
    harness.pool.refresh_from_db()
    harness.run_agent()


def gang(gpus: int, *flavors: str, tasks: int = 1) -> str:
    named = f", gpu_flavors: [{', '.join(flavors)}]" if flavors else ""
    lines = [
        f"workflow:\n  name: job\n  resources: {{r: {{gpu: {gpus}{named}}}}}\n  groups:\n  - name: gang\n    tasks:"
    ]
    for number in range(tasks):
        lead = ", lead: true" if not number else ""
        lines.append(f"    - {{name: t{number}, image: i, command: [c], resource: r{lead}}}")
    return "\n".join(lines) + "\n"


def flavors_of_tasks(work: Workflow) -> list[str]:
    return list(Task.objects.filter(group__workflow=work).order_by("position").values_list("flavor", flat=True))


def affinity_of(pod: dict[str, Any]) -> list[dict[str, Any]]:
    rule = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [each for term in rule["nodeSelectorTerms"] for each in term["matchExpressions"]]


@with_a_real_one("harness")
def test_a_gang_gets_one_flavor_and_its_pods_the_nodes_of_it(harness: AgentHarness) -> None:
    give_flavors(harness, h100=8, a100=16)
    first, second = harness.submit(gang(4, tasks=2)), harness.submit(gang(4, tasks=2))
    harness.run_agent()

    assert flavors_of_tasks(first) == ["h100", "h100"]
    assert flavors_of_tasks(second) == ["a100", "a100"]
    for work, kind in ((first, "h100"), (second, "a100")):
        for pod in harness.list_pods(work):
            assert {"key": "gpu.product", "operator": "In", "values": [kind_label(harness, kind)]} in affinity_of(pod)

    harness.run_pods(*harness.list_pods(first))
    harness.run_agent()
    assert [row.message for row in Decision.objects.order_by("id")] == [
        f"{first.name} starts in {first.pool.name} with 8 h100 GPUs."
    ]
    usage = {row.flavor: (row.used, row.committed) for row in FlavorUsage.objects.all()}
    assert usage == {"h100": (8, 16), "a100": (0, 8)}  # until it starts, the second could still need either
    assert verify() == []


def test_work_that_no_flavor_lets_start_waits_here_and_hears_about_each(harness: AgentHarness) -> None:
    give_flavors(harness, a100=8, h100=8)
    for _ in range(2):
        harness.submit(gang(6))
    harness.run_agent()
    waits = harness.submit(gang(4))
    harness.run_agent()

    assert flavors_of_tasks(waits) == [""]
    assert harness.list_pods(waits) == []
    reason = find_group(waits).waiting_reason
    assert reason is not None
    assert reason["message"] == (
        "a100: it asks for 4 a100 GPUs; the quota of team--_shared (8) leaves 2; h100: it asks for 4 h100 GPUs; the "
        "quota of team--_shared (8) leaves 2. It is dispatched when enough GPUs are free. One of the flavors is enough."
    )
    assert (reason["flavor"], reason["missing"]) == ("a100", 2)


def test_admission_is_repeated_after_a_crash_without_another_choice(harness: AgentHarness) -> None:
    give_flavors(harness, h100=8, a100=16)
    work = harness.submit(gang(8))
    harness.run_agent()
    harness.run_agent()
    harness.agent = harness.new_agent()
    harness.run_agent()
    assert flavors_of_tasks(work) == ["h100"]
    assert len(harness.list_pods(work)) == 1


def test_free_gpus_on_several_nodes_are_no_room_for_one_task(fake_harness: AgentHarness) -> None:
    """On the fake cluster, where a test may bind pods to nodes."""
    give_flavors(fake_harness, h100=16, a100=16)
    fill_first_nodes(fake_harness, gpus=2)
    work = fake_harness.submit(gang(8))
    low = fake_harness.submit(gang(8), priority=Priority.LOW)
    fake_harness.run_agent()
    assert flavors_of_tasks(work) == flavors_of_tasks(low) == ["a100"]
    fake_harness.run_pods(*fake_harness.list_pods(work))
    fake_harness.run_agent()
    [start] = read_flavor_starts(work).values()
    assert (
        start.message == f"{work.name} starts in team with 8 a100 GPUs; h100 comes before, but no node had room for it."
    )


def fill_first_nodes(harness: AgentHarness, *, gpus: int, priority: Priority = Priority.NORMAL) -> None:
    """Work on both nodes of the first flavor, bound by the scheduler of the cluster."""
    other = harness.submit(gang(gpus, "h100", tasks=2), priority=priority)
    harness.run_agent()
    for number, pod in enumerate(harness.list_pods(other)):
        harness.bind_pod(pod, f"{kind_label(harness, 'h100')}-{number}")
    harness.run_pods(*harness.list_pods(other))
    harness.run_agent()


def set_switch(harness: AgentHarness, **switch: str) -> None:
    world.apply_change(PatchPool(name=harness.pool.name, patch=switch))


@pytest.mark.parametrize(
    ("switch", "priority", "flavor"),
    [
        ("next", Priority.NORMAL, "a100"),
        ("preempt", Priority.NORMAL, "h100"),
        ("preempt", Priority.LOW, "a100"),  # LOW work makes no room for LOW work of its leaf
    ],
)
def test_room_that_low_work_would_leave(
    fake_harness: AgentHarness, switch: str, priority: Priority, flavor: str
) -> None:
    """LOW work holds all nodes of the first flavor; the cluster takes them back for work inside the quota."""
    give_flavors(fake_harness, h100=16, a100=16)
    fill_first_nodes(fake_harness, gpus=8, priority=Priority.LOW)
    set_switch(fake_harness, when_can_preempt=switch)
    work = fake_harness.submit(gang(8), priority=priority)
    fake_harness.run_agent()
    assert flavors_of_tasks(work) == [flavor]
    if priority is Priority.NORMAL:
        passed = find_group(work).passed_flavors
        assert passed == ([] if flavor == "h100" else [["h100", "other work would have had to leave"]])
        [waits], _ = list_waiting_gangs(world.admin_actor(), workflows=[work.name], limit=5)
        before = "" if flavor == "h100" else "; h100 comes before, but other work would have had to leave"
        assert waits.reason.message.endswith(f"It was sent to nodes of {flavor}{before}.")


@pytest.mark.parametrize(("switch", "flavor"), [("borrow", "h100"), ("next", "a100")])
def test_low_work_borrows_the_first_flavor_or_tries_the_next(
    fake_harness: AgentHarness, switch: str, flavor: str
) -> None:
    give_flavors(fake_harness, h100=8, a100=16)
    set_switch(fake_harness, when_can_borrow=switch)
    first, work = (fake_harness.submit(gang(8), priority=Priority.LOW) for _ in range(2))
    fake_harness.run_agent()
    assert (flavors_of_tasks(first), flavors_of_tasks(work)) == (["h100"], [flavor])
    passed = find_group(work).passed_flavors
    assert passed == ([] if flavor == "h100" else [["h100", "it would have borrowed there"]])


def test_work_of_another_flavor_passes_a_gang_that_comes_first(fake_harness: AgentHarness) -> None:
    """The setting `hold_after`: the gang waits for h100; work that may use a100 too is sent there."""
    give_flavors(fake_harness, h100=16, a100=16)
    fill_first_nodes(fake_harness, gpus=4)
    first = fake_harness.submit(gang(8, "h100"))
    fake_harness.run_agent()
    Group.objects.filter(workflow=first).update(ready_at=timezone.now() - timedelta(hours=2))
    set_switch(fake_harness, hold_after=3600)
    same, either = fake_harness.submit(gang(1, "h100")), fake_harness.submit(gang(1))
    fake_harness.run_agent()
    assert (flavors_of_tasks(same), flavors_of_tasks(either)) == ([""], ["a100"])
    reason = find_group(same).waiting_reason
    assert reason is not None and reason["code"] == "held_back"
    assert find_group(either).passed_flavors == [["h100", "another gang comes first there"]]


def test_forecasts_and_questions_know_the_flavors_in_which_another_gang_comes_first(
    fake_harness: AgentHarness,
) -> None:
    """Four H100 are free on each node, and another gang comes first there; all A100 are used."""
    give_flavors(fake_harness, h100=16, a100=16)
    fill_first_nodes(fake_harness, gpus=4)
    first = fake_harness.submit(gang(8, "h100"))
    full = fake_harness.submit(gang(8, "a100", tasks=2))
    fake_harness.run_agent()
    fake_harness.run_pods(*fake_harness.list_pods(full))
    Group.objects.filter(workflow=first).update(ready_at=timezone.now() - timedelta(hours=2))
    set_switch(fake_harness, hold_after=3600)
    either = fake_harness.submit(gang(4))
    fake_harness.run_agent()
    assert flavors_of_tasks(either) == [""]
    reason = find_group(either).waiting_reason
    assert reason is not None
    assert "a100: " in reason["message"]
    assert "; h100: another gang comes first there. " in reason["message"]
    assert reason["message"].endswith("One of the flavors is enough.")

    facts = read_forecast_facts(fake_harness.backend)
    assert facts is not None
    assert facts.present.held == {either.name: {"h100": (first.name,)}}
    (waits,) = sample_waits(facts.present, facts.waiting, [1])
    assert waits[either.name] >= waits[first.name]

    submit = {"submit": {"name": "new", "queue": "team", "tasks": [{"name": "t", "resources": {"gpu": 4}}]}}
    for ended, state in (([], "pending"), ([{"finish": [first.name]}], "running")):
        question = {"live": True, "changes": [submit, *ended]}
        found = answer_live_question(world.admin_actor(), question)["workloads"]
        assert [found[name]["state"] for name in (either.name, "new")] == [state] * 2


def test_gangs_that_have_no_nodes_yet_use_up_the_room(fake_harness: AgentHarness) -> None:
    give_flavors(fake_harness, h100=16, a100=16)
    works = []
    for _ in range(3):
        works.append(fake_harness.submit(gang(6), priority=Priority.LOW))
        fake_harness.run_agent()
    assert [flavors_of_tasks(work) for work in works] == [["h100"], ["h100"], ["a100"]]


def test_a_gang_without_room_is_sent_again_in_a_flavor_with_room(
    fake_harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is free when it is sent; then nodes of the second flavor get free."""
    give_flavors(fake_harness, h100=16, a100=16)
    fill_first_nodes(fake_harness, gpus=8)
    second = [f"{kind_label(fake_harness, 'a100')}-{number}" for number in range(2)]
    Node.objects.filter(name__in=second).update(gpus=0)
    work = fake_harness.submit(gang(4, tasks=2), priority=Priority.LOW)
    fake_harness.run_agent()
    assert flavors_of_tasks(work) == ["h100", "h100"]
    first_pods = {pod["metadata"]["uid"] for pod in fake_harness.list_pods(work)}
    waits_since = find_group(work).ready_at

    Node.objects.filter(name__in=second).update(gpus=0)  # the agent wrote what the cluster has
    monkeypatch.setattr(other_flavors, "PATIENCE", timedelta())
    assert try_other_flavors(fake_harness.backend) == 0, "no flavor has room"
    Node.objects.filter(name__in=second).update(gpus=8)
    monkeypatch.setattr(other_flavors, "PATIENCE", timedelta(minutes=1))
    assert try_other_flavors(fake_harness.backend) == 0, "the cluster may still place it"
    monkeypatch.setattr(other_flavors, "PATIENCE", timedelta())
    assert try_other_flavors(fake_harness.backend) == 1
    assert try_other_flavors(fake_harness.backend) == 0

    fake_harness.run_agent()
    attempts = Task.objects.filter(group__workflow=work).order_by("position", "retry_id")
    assert list(attempts.values_list("name", "retry_id", "status", "flavor")) == [
        ("t0", 0, "RESCHEDULED", "h100"), ("t0", 1, "SCHEDULING", "a100"),
        ("t1", 0, "RESCHEDULED", "h100"), ("t1", 1, "SCHEDULING", "a100"),
    ]  # fmt: skip
    pods = fake_harness.list_pods(work)
    assert len(pods) == 2
    assert not first_pods & {pod["metadata"]["uid"] for pod in pods}
    assert find_group(work).ready_at == waits_since
    assert TaskAttempts([find_group(work).pk], now=timezone.now()).count_reschedules(attempts[1]) == 0
    assert try_other_flavors(fake_harness.backend) == 0
    assert verify() == []


def test_a_gang_stays_in_its_flavor_while_that_has_room_or_the_quota_of_others_is_used(
    fake_harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_flavors, "PATIENCE", timedelta())
    give_flavors(fake_harness, h100=16, a100=4)
    first = fake_harness.submit(gang(8))
    fake_harness.run_agent()
    assert try_other_flavors(fake_harness.backend) == 0
    assert flavors_of_tasks(first) == ["h100"]
    Node.objects.filter(name__startswith=kind_label(fake_harness, "h100")).update(gpus=0)
    assert try_other_flavors(fake_harness.backend) == 0, "8 GPUs are above its quota of a100"
    assert flavors_of_tasks(first) == ["h100"]


def test_work_that_was_sent_before_the_pool_had_flavors_stays_where_it_is(
    fake_harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pods may go to every node."""
    monkeypatch.setattr(other_flavors, "PATIENCE", timedelta())
    work = fake_harness.submit(gang(4))
    fake_harness.run_agent()
    give_flavors(fake_harness, h100=8, a100=16)
    assert try_other_flavors(fake_harness.backend) == 0
    assert flavors_of_tasks(work) == [""]


def test_a_pool_without_flavors_sends_pods_as_before(harness: AgentHarness) -> None:
    work = harness.submit(gang(4))
    harness.run_agent()
    [pod] = harness.list_pods(work)
    assert [each["key"] for each in affinity_of(pod)] == ["osmo.platform", "osmo.platform"]
    assert flavor_terms((), "default") == [[]]
