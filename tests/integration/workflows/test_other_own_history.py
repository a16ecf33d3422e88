"""Replays and advice from recorded history of pools that each test makes itself, unlike those of the shared story."""

from __future__ import annotations

from typing import Any

from pools.database.transactions import database_time
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.pools import PatchPool
from scheduling.domain.changes.workflows import EndStatus, EndWorkflow
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.integration.workflows.recorded_story import naive, replay
from tests.integration.workflows.test_own_advice import ADVISE, pool_named
from tests.support import world
from tests.support.world import apply_change, workflow_file


def test_a_change_of_gpus_leaves_other_resources_as_they_were(caller: Any, admin: Any) -> None:
    backend = world.make_backend(nodes=1, gpus=4)
    world.make_pool("team", 4, on=backend, a=1)
    begin, ann = database_time(), caller("ann", "osmo-team-user")
    ann.submit("team--a", workflow_file("w", 1).replace("{gpu: 1}", "{gpu: 1, cpu: 4, memory: 8Gi}"))
    reconcile_backend(backend.pk)
    body = {"since": naive(begin), "until": naive(database_time())}
    answer = replay(admin, {**body, "changes": [{"set": {"name": "team--a", "quota": 2}}]})
    assert answer["against"]["teams"]["team--a"]["starts"] == 1


def test_a_larger_quota_shows_whose_work_is_reclaimed(caller: Any, admin: Any) -> None:
    """Ann's second job waits for the quota of `a`; with a larger one, LOW work of Ben that borrows gives way to it."""
    backend = world.make_backend(nodes=1, gpus=4)
    world.make_pool("team", 4, on=backend, a=1, b=1)
    begin = database_time()
    ann, ben = caller("ann", "osmo-team-user"), caller("ben", "osmo-team-user")
    ben.submit("team--b", workflow_file("long", 3), query="priority=LOW")
    reconcile_backend(backend.pk)
    for name in ("first", "second"):
        ann.submit("team--a", workflow_file(name, 1))
        reconcile_backend(backend.pk)
    body = {"since": naive(begin), "until": naive(database_time())}
    answer = replay(admin, {**body, "changes": [{"set": {"name": "team--a", "quota": 3}}]})
    assert answer["identical"], answer
    assert answer["difference"]["teams"]["team--b"]["reclaims"] == 1
    assert answer["difference"]["teams"]["team--a"]["starts"] == 1
    assert {(row["user"], row["preemptions"]) for row in answer["people"]} == {("ben", 1)}


def test_guaranteed_work_is_not_delayed_for_the_waits_of_others(caller: Any, admin: Any) -> None:
    """`kept` needs its 3 GPUs at one time; LOW work of `greedy` would wait less without it."""
    backend = world.make_backend(nodes=1, gpus=4)
    world.make_pool("team", 4, on=backend, kept=3, greedy=1)
    begin, ann = database_time(), caller("ann", "osmo-team-user")
    ann.submit("team--greedy", workflow_file("one", 1))
    ann.submit("team--greedy", workflow_file("two", 1))
    ann.submit("team--kept", workflow_file("needs", 3))
    reconcile_backend(backend.pk)
    apply_change(EndWorkflow(name="one-1", status=EndStatus.COMPLETED))
    reconcile_backend(backend.pk)
    answer = replay(admin, {"since": naive(begin), "until": naive(database_time()), **ADVISE})
    pool = pool_named(answer, "team")
    assert (pool["proposal"], pool["exact"]) == (None, True)
    equal = next(rival for rival in pool["rivals"] if rival["name"] == "equal")
    assert (equal["allowed"], equal["guaranteed_later"]) == (False, {"team--kept": 1})
    assert "no other division was found" in " ".join(answer["sentences"])


def test_lending_limits_are_proposed_to_those_who_see_all_pools(caller: Any, admin: Any) -> None:
    """LOW work of `team` waits, because `other` lends nothing of its idle quota."""
    backend = world.make_backend(nodes=1, gpus=16)
    world.make_pool("team", 8, on=backend)
    world.make_pool("other", 8, on=backend)
    apply_change(PutCohort(name="corp", body={"quotas": []}))
    apply_change(PatchPool(name="team", patch={"cohort": "corp"}))
    apply_change(PatchPool(name="other", patch={"cohort": "corp", "lending_limit": 0}))
    begin, ann = database_time(), caller("ann", "osmo-team-user")
    ann.submit("team", workflow_file("fills", 8), query="priority=LOW")
    ann.submit("team", workflow_file("borrows", 4), query="priority=LOW")
    reconcile_backend(backend.pk)
    body = {"since": naive(begin), "until": naive(database_time()), **ADVISE}
    proposal = pool_named(replay(admin, body), "other")["proposal"]
    (change,) = proposal["changes"]
    assert (change["name"], change["key"], change["from"]) == ("other", "lending_limit", 0)
    assert change["to"] is None or change["to"] >= 4
    assert proposal["commands"][-1].endswith("osmo config update POOL other --dry-run")
    chief = replay(caller("chief", "osmo-other-admin"), body)
    assert chief["advice"]["pools"] == []
