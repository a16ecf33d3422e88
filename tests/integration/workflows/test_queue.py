"""`/api/queue`: all waiting gangs with positions and reasons, and the part of them that each reader may see."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.apps import apps
from django.db import transaction

from pools.database.transactions import database_time
from pools.domain.changes.pools import PatchPool
from pools.domain.changes.subpools import DeleteSubpool, ResizeSubpool
from pools.domain.people.roles import SYSTEM
from pools.models import Backend, Cohort, GpuQuota, GpuUsage, Node, Pool
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.priorities import Priority
from scheduling.models import Group, Task, Workflow
from scheduling.selectors.queue import admitted_specs, pending_queue, pending_queue_cache
from scheduling.selectors.queue.admitted_specs import AdmittedSpecCache, UnreadableSpec, read_admitted_specs
from scheduling.selectors.queue.pending_queue import PendingQueue, build_pending_queue, read_queue_token
from scheduling.selectors.queue.pending_queue_cache import PendingQueueCache
from scheduling.selectors.queue.visible_queue import list_waiting_gangs, waiting_gangs_of
from scheduling.selectors.work.workflows import get_full_workflow
from tests.support import world
from tests.support.world import admin_actor, apply_change, submit_workflow, workflow_file

TWO_GROUPS = """workflow:
  name: chain
  resources: {default: {gpu: 2}}
  groups:
  - name: first
    tasks: [{name: a, image: i, command: [sh], lead: true}]
  - name: second
    tasks: [{name: b, image: i, command: [sh], inputs: [{task: a}]}]
"""

A = "osmo-pool-ns-team--a"


def positions_of(answer: Any) -> list[tuple[str, int, int, int]]:
    """(workflow, position, position in its queue, ahead) of every entry."""
    return [
        (entry["workflow"], entry["position"], entry["position_in_queue"], entry["ahead"])
        for entry in answer["entries"]
    ]


def test_an_entry_has_every_key_and_the_numbers_are_gpus(alice: Any, reconcile_pool: Any) -> None:
    alice.submit("team--a", workflow_file("big", 28))
    reconcile_pool()
    alice.submit("team--a", workflow_file("next", 5), query="priority=HIGH")

    answer = alice.get("/api/queue")

    (entry,) = answer["entries"]
    assert answer["more_entries"] is False
    submitted = entry.pop("submit_time")
    assert entry.pop("waits_since") == submitted
    assert submitted.count(":") == 2
    assert entry == {
        "workflow": "next-1",
        "group": "train-group",
        "user": "alice",
        "backend": "sim",
        "pool": "team--a",
        "queue": A,
        "priority": "HIGH",
        "gpus": 5,
        "position": 1,
        "position_in_queue": 1,
        "ahead": 0,
        "reason": {
            "code": "over_quota",
            "short": "Too little free quota",
            "message": "It asks for 5 GPUs; the quota of team--a (30) leaves 2 GPUs: 3 GPUs missing.",
            "queue": A,
            "limit": "quota",
            "requested": 5,
            "free": 2,
            "missing": 3,
        },
        "unblock": ["Raise the quota of team--a by 3 GPUs, or end as much HIGH or NORMAL work in team--a (big-1)."],
        "holders": ["big-1"],
        "nodes": [],
        "unblock_needs_all": True,
        "reservation": None,
        "start": None,
    }


def test_positions_follow_priority_then_age_and_pages_follow_positions(alice: Any, reconcile_pool: Any) -> None:
    Backend.objects.update(offline=True)
    alice.submit("team", workflow_file("n"))
    alice.submit("team--a", workflow_file("l"), query="priority=LOW")
    alice.submit("team--a", workflow_file("h"), query="priority=HIGH")
    alice.submit("team--a", workflow_file("n"))
    reconcile_pool()

    whole = alice.get("/api/queue")
    in_subpool = [each for each in positions_of(whole) if each[0] in {"h-1", "n-2", "l-1"}]
    assert [name for name, *_ in in_subpool] == ["h-1", "n-2", "l-1"]
    assert [place for _, _, place, _ in in_subpool] == [1, 2, 3]
    assert [place for _, place, _, _ in positions_of(whole)] == [1, 2, 3, 4]
    assert {entry["reason"]["code"] for entry in whole["entries"]} == {"backend_offline"}
    assert {entry["unblock"][0] for entry in whole["entries"]} == {"Cluster sim is set online again."}

    first, second = alice.get("/api/queue", limit=3), alice.get("/api/queue", limit=3, offset=3)
    assert first["entries"] + second["entries"] == whole["entries"]
    assert (first["more_entries"], second["more_entries"]) == (True, False)
    assert positions_of(alice.get("/api/queue", pool="team--a")) == in_subpool
    assert positions_of(alice.get("/api/queue", pool="team")) == positions_of(whole)
    assert [name for name, *_ in positions_of(alice.get("/api/queue", pool="team--_shared"))] == ["n-1"]
    assert alice.get("/api/queue", pool="unknown") == {"entries": [], "more_entries": False}
    assert alice.get("/api/queue", user="bob") == {"entries": [], "more_entries": False}
    assert positions_of(alice.get("/api/queue", user="alice")) == positions_of(whole)
    assert [name for name, *_ in positions_of(alice.get("/api/queue", workflow=["h-1", "l-1", "gone-1"]))] == [
        "h-1",
        "l-1",
    ]
    assert alice.get("/api/queue", limit="many")["details"][0]["path"] == "limit"
    assert alice.status == 400


def test_work_of_others_is_counted_and_never_named(team: Any, caller: Any, reconcile_pool: Any) -> None:
    """Pools that share nodes: bob's work blocks olga's work, and neither may learn the other's names."""
    Node.objects.filter(name__in=["sim-n2", "sim-n3", "sim-n4"]).delete()
    world.make_pool("other", 100)
    bob, olga = caller("bob", "osmo-team-user"), caller("olga", "osmo-other-user")
    bob.submit("team", workflow_file("secret", 30))
    reconcile_pool()
    bob.submit("team", workflow_file("hidden", 3), query="priority=HIGH")
    olga.submit("other", workflow_file("mine", 4))

    answer = olga.get("/api/queue")

    assert [entry["workflow"] for entry in answer["entries"]] == ["mine-1"]
    entry = answer["entries"][0]
    assert entry["reason"]["code"] == "no_room"
    assert entry["unblock"] == ["2 GPUs more must be free on sim-n1 (1 of other users)."]
    text = json.dumps(answer) + json.dumps(olga.get("/api/workflow/mine-1"))
    assert "secret" not in text
    assert "hidden" not in text
    everything = caller("vera", "osmo-viewer").get("/api/queue")
    assert sorted(each["position"] for each in everything["entries"]) == [1, 2]
    of_mine = next(each for each in everything["entries"] if each["workflow"] == "mine-1")
    assert (of_mine["position"], of_mine["ahead"]) == (entry["position"], entry["ahead"])
    assert of_mine["unblock"] == ["2 GPUs more must be free on sim-n1 (secret-1)."]


def test_a_user_who_lost_the_role_still_sees_their_work(alice: Any, caller: Any, reconcile_pool: Any) -> None:
    Backend.objects.update(offline=True)
    alice.submit("team", workflow_file("w"))
    assert [name for name, *_ in positions_of(caller("alice").get("/api/queue"))] == ["w-1"]
    assert caller("stranger").get("/api/queue")["entries"] == []


def test_the_reason_of_a_gang_behind_other_groups(alice: Any, reconcile_pool: Any) -> None:
    alice.submit("team", TWO_GROUPS)
    reconcile_pool()

    (entry,) = alice.get("/api/queue")["entries"]

    assert (entry["group"], entry["gpus"], entry["position"]) == ("second", 2, 1)
    assert entry["reason"] == {
        "code": "waiting_for_groups",
        "short": "Earlier groups must end first",
        "message": "It starts when the groups before it have completed: first (RUNNING).",
        "queue": "osmo-pool-ns-team--_shared",
        "limit": None,
        "requested": None,
        "free": None,
        "missing": None,
    }
    assert entry["unblock"] == ["Group first, which is RUNNING, completes."]


def test_the_reason_in_maintenance_and_in_a_drain(alice: Any, reconcile_pool: Any) -> None:
    """Maintenance refuses new work only: waiting work there waits for the same reasons as elsewhere (design, D6)."""
    alice.submit("team--a", workflow_file("big", 30))
    reconcile_pool()
    alice.submit("team--a", workflow_file("w", 4))
    Pool.objects.filter(name="team").update(enable_maintenance=True)
    (entry,) = alice.get("/api/queue")["entries"]
    assert (entry["reason"]["code"], entry["reason"]["missing"]) == ("over_quota", 4)
    apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    (entry,) = alice.get("/api/queue")["entries"]
    assert (entry["workflow"], entry["reason"]["code"], entry["reason"]["missing"]) == ("w-1", "over_quota", 4)


def test_work_that_waits_for_the_quota_of_a_draining_subpool_can_start(alice: Any, reconcile_pool: Any) -> None:
    """The remainder is smaller until the drain ends: that is no reason for *never*."""
    apply_change(PatchPool(name="team", patch={"resources": {"gpu": {"guarantee": 34}}}))
    alice.submit("team--a", workflow_file("big", 30))
    reconcile_pool()
    apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    alice.submit("team", workflow_file("w", 20))
    (entry,) = alice.get("/api/queue")["entries"]
    assert (entry["reason"]["code"], entry["reason"]["free"], entry["reason"]["missing"]) == ("over_quota", 4, 16)
    assert not any("Never" in line for line in entry["unblock"])
    grows = "The quota of the remainder of pool team grows to 34 GPUs by itself, when subpools return theirs."
    assert entry["unblock"][0].startswith(grows)


def test_work_that_waits_for_the_end_of_a_temporary_quota_can_start(alice: Any, reconcile_pool: Any) -> None:
    apply_change(PatchPool(name="team", patch={"resources": {"gpu": {"guarantee": 50}}}))
    alice.submit("team", workflow_file("first", 15))
    reconcile_pool()
    alice.submit("team", workflow_file("w", 20))
    later = database_time() + timedelta(days=1)
    apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=35, until=later))
    (entry,) = alice.get("/api/queue")["entries"]
    assert (entry["reason"]["code"], entry["reason"]["free"], entry["reason"]["missing"]) == ("over_quota", 0, 20)
    assert not any("Never" in line for line in entry["unblock"])


def test_on_a_cluster_we_explain_the_quota_and_not_the_nodes(alice: Any) -> None:
    Backend.objects.update(kind=Backend.Kind.KUBERNETES)
    Node.objects.all().delete()
    alice.submit("team--a", workflow_file("w", 4))
    (entry,) = alice.get("/api/queue")["entries"]
    assert (entry["reason"]["code"], entry["unblock"]) == (
        "waiting_for_cluster",
        ["The cluster has free capacity for it."],
    )
    Pool.objects.filter(name="team--a").update(last_quota=3)
    (entry,) = alice.get("/api/queue")["entries"]
    assert entry["reason"]["code"] == "never_fits"


def test_every_change_is_seen_at_once(alice: Any, admin: Any, reconcile_pool: Any) -> None:
    def codes() -> list[str]:
        return [entry["reason"]["code"] for entry in alice.get("/api/queue")["entries"]]

    assert codes() == []
    alice.submit("team--a", workflow_file("w", 20))
    assert codes() == ["next_pass"]
    Backend.objects.update(offline=True)
    assert codes() == ["backend_offline"]
    Backend.objects.update(offline=False)
    apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=4))
    assert codes() == ["never_fits"]
    apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=30))
    Node.objects.update(gpus=10)
    assert codes() == ["never_fits"]
    Node.objects.update(gpus=32)
    reconcile_pool()
    assert codes() == []
    alice.submit("team--a", workflow_file("w", 20))
    assert codes() == ["over_quota"]
    admin.post("/api/workflow/w-1/end", {"status": "COMPLETED"})
    assert codes() == ["next_pass"]
    alice.post("/api/workflow/w-2/cancel")
    assert codes() == []


def test_an_unchanged_queue_is_not_built_again(
    alice: Any, reconcile_pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Backend] = []
    build = pending_queue_cache.build_pending_queue
    monkeypatch.setattr(
        pending_queue_cache, "build_pending_queue", lambda backend: (built.append(backend), build(backend))[1]
    )
    alice.submit("team--a", workflow_file("w", 20))
    before = alice.get("/api/queue")
    assert len(built) == 1
    assert alice.get("/api/queue") == before
    assert alice.get("/api/workflow/w-1")["reason"] == before["entries"][0]["reason"]
    assert len(built) == 1
    effect = alice.post("/api/workflow/w-1/cancel", query="dry_run=True")
    assert effect["after"]["reason"] is None
    assert alice.get("/api/queue") == before, "a dry run leaves nothing in the cache"
    alice.submit("team--a", workflow_file("w", 20))
    built.clear()
    assert len(alice.get("/api/queue")["entries"]) == 2
    assert len(built) == 1


def test_a_change_of_any_row_of_the_queue_is_seen(team: Pool) -> None:
    lender = world.make_pool("lender", 8, on=world.make_backend("far", namespace="far"))
    Pool.objects.filter(pk__in=[team.pk, lender.pk]).update(cohort=Cohort.objects.create(name="both"))
    Pool.objects.filter(pk=team.pk).update(config={"gpu_quota_namespace": "team-a"})
    GpuQuota.objects.create(namespace="team-a", spec={"total": {"maxWorkers": 2}})
    submit_workflow(admin_actor(), "team", 1)
    cache = PendingQueueCache()
    changes: dict[str, Callable[[], object]] = {
        "backend": lambda: Backend.objects.update(auto_end=True),
        "node": lambda: Node.objects.update(gpus=31),
        "guarantee": lambda: Pool.objects.filter(name="team").update(guarantee=99),
        "quota": lambda: Pool.objects.filter(name="team--a").update(last_quota=29),
        "cohort": lambda: Cohort.objects.update(weight=2),
        "lender": lambda: Pool.objects.filter(name="lender").update(guarantee=9),
        "lender's work": lambda: world.make_reservation("lender", 1),
        "GPU quota": lambda: GpuQuota.objects.update(spec={"total": {"maxWorkers": 3}}),
        "GPU usage": lambda: GpuUsage.objects.create(namespace="team-a"),
        "group": lambda: Group.objects.update(waiting_reason={"code": "x"}),
        "task": lambda: Task.objects.update(pod_ip="10.0.0.1"),
        "submission": lambda: submit_workflow(admin_actor(), "team", 1),
        "cancellation": lambda: apply_change(CancelWorkflow(name="job-1"), actor=admin_actor()),
    }
    for name, change in changes.items():
        before, token = cache.get(team.backend), read_queue_token(team.backend)
        assert cache.get(team.backend) is before
        change()
        assert read_queue_token(team.backend) != token, name
        assert cache.get(team.backend) is not before, name


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[PendingQueueCache]:
    """An empty cache in place of the app's; ids of backends begin anew in these tests."""
    fresh = PendingQueueCache()
    monkeypatch.setattr(apps.get_app_config("scheduling"), "pending_queues", fresh)
    yield fresh
    fresh.close(60)


@pytest.fixture
def large(ledger: None, cache: PendingQueueCache, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """A backend on which two gangs wait, which is a large queue here; the cached queue does not expire by itself."""
    monkeypatch.setattr(pending_queue, "LARGE_QUEUE", 2)
    monkeypatch.setattr(pending_queue_cache, "MIN_LARGE_LIFETIME", 3600.0)
    backend = world.make_backend(nodes=1, gpus=1)
    world.make_pool("team", 100, on=backend)
    for _ in range(2):
        submit_workflow(admin_actor(), "team", 1)
    assert len(cache.get(backend).gangs) == 2
    return backend


@pytest.mark.django_db(transaction=True)
def test_of_a_large_queue_the_gangs_are_current_and_their_reasons_some_seconds_old(large: Backend) -> None:
    late = submit_workflow(admin_actor(), "team", 1, priority=Priority.HIGH)
    apply_change(CancelWorkflow(name="job-1"), actor=admin_actor())

    entries, more = list_waiting_gangs(SYSTEM, limit=10)
    assert [(gang.workflow, gang.position, gang.position_in_queue, gang.reason.code) for gang in entries] == [
        ("job-2", 2, 2, "next_pass"),
        ("job-3", 3, 3, "not_placed_yet"),
    ]
    assert not more
    waiting = waiting_gangs_of(SYSTEM, get_full_workflow(SYSTEM, late.name))
    assert [(gang.position, gang.reason.code) for gang in waiting.values()] == [(3, "not_placed_yet")]
    assert entries[1].unblock == ("Ask again in a moment.",)


@pytest.mark.django_db(transaction=True)
def test_a_large_queue_is_refreshed_in_the_background(
    large: Backend, cache: PendingQueueCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    with transaction.atomic():
        submit_workflow(admin_actor(), "team", 1, priority=Priority.HIGH)
        assert len(cache.get(large).gangs) == 3, "a dry run sees its own change"
        transaction.set_rollback(True)
    before = cache.get(large)
    assert len(before.gangs) == 2
    submit_workflow(admin_actor(), "team", 1, priority=Priority.HIGH)
    cache.expire(large)
    with monkeypatch.context() as patch:
        patch.setattr(pending_queue_cache, "build_pending_queue", lambda _: 1 / 0)
        assert cache.get(large) is before
        cache._entry(large).join(60)
    assert cache.get(large) is before, "a queue that cannot be built leaves the old one"
    cache._entry(large).join(60)
    assert [gang.priority for gang in cache.get(large).gangs] == ["HIGH", "NORMAL", "NORMAL"]

    submit_workflow(admin_actor(), "team", 1)
    cache.close()
    cache.expire(large)
    for _ in range(2):
        assert len(cache.get(large).gangs) == 3, "a closed cache starts no refresh"
        cache._entry(large).join(60)


@pytest.mark.django_db(transaction=True)
def test_a_reader_of_one_workflow_does_not_wait_for_the_first_large_queue(
    large: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = Event()

    def build_slowly(backend: Backend) -> PendingQueue:
        assert go_on.wait(60)
        return build_pending_queue(backend)

    cache = PendingQueueCache()
    monkeypatch.setattr(apps.get_app_config("scheduling"), "pending_queues", cache)
    monkeypatch.setattr(pending_queue, "LARGE_QUEUE", 1)
    monkeypatch.setattr(pending_queue_cache, "build_pending_queue", build_slowly)
    workflow = get_full_workflow(SYSTEM, "job-1")

    for _ in range(2):
        (gang,) = waiting_gangs_of(SYSTEM, workflow).values()
        assert (gang.position, gang.position_in_queue, gang.reason.code) == (2, 2, "not_placed_yet")
    go_on.set()
    cache._entry(large).join(60)

    (gang,) = waiting_gangs_of(SYSTEM, workflow).values()
    assert (gang.position, gang.reason.code) == (1, "next_pass")


def test_the_cache_of_specifications_drops_the_oldest(monkeypatch: pytest.MonkeyPatch, alice: Any) -> None:
    monkeypatch.setattr(admitted_specs, "MAX_CACHED_SPECS", 1)
    monkeypatch.setattr(apps.get_app_config("scheduling"), "admitted_specs", AdmittedSpecCache())
    cache = apps.get_app_config("scheduling").admitted_specs
    first, second = (submit_workflow(admin_actor(), "team", 1).pk for _ in range(2))
    specs = read_admitted_specs([first])
    assert cache.find([first, second]) == specs
    assert read_admitted_specs([first])[first] is specs[first]
    read_admitted_specs([second])
    assert list(cache.find([first, second])) == [second]
    Workflow.objects.filter(pk=first).update(spec="workflow: [")
    assert isinstance(read_admitted_specs([first])[first], UnreadableSpec)
    assert cache.find([first]) == {}, "what cannot be read is not cached"


def test_the_answer_about_a_workflow_contains_its_reason(alice: Any, reconcile_pool: Any) -> None:
    alice.submit("team--a", workflow_file("big", 28))
    reconcile_pool()
    alice.submit("team--a", workflow_file("w", 5))
    answer = alice.get("/api/workflow/w-1")
    (entry,) = alice.get("/api/queue")["entries"]
    assert answer["reason"] == entry["reason"]
    assert answer["groups"][0]["waiting"] == {
        key: entry[key]
        for key in (
            "position", "position_in_queue", "ahead", "reason", "unblock", "holders", "nodes",
            "unblock_needs_all", "reservation", "start",
        )
    }  # fmt: skip
    runs = alice.get("/api/workflow/big-1")
    assert (runs["reason"], runs["groups"][0]["waiting"]) == (None, None)
    alice.post("/api/workflow/w-1/cancel")
    assert alice.get("/api/workflow/w-1")["reason"] is None
