"""Queues of other clusters in the same cohort tree: their work holds quota, but uses none of our nodes."""

from __future__ import annotations

from dataclasses import replace

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import NORMAL
from scheduling.domain.engine.outcome import waiting_reasons
from tests.unit.engine.sample_clusters import GPU, cohort, facts, gang, queue, running_gangs, step_pairs


def outside(name, quota=0, **more):
    return replace(queue(name, quota, "corp", **more), is_external=True)


def elsewhere(name, where, gpus=1, **more):
    """Work that runs on another cluster: it uses quota, and it can run on none of our nodes."""
    found = gang(name, where, gpus=gpus, on="*", **more)
    return replace(found, tasks=tuple(replace(task, allowed_nodes=frozenset()) for task in found.tasks))


CORP = (cohort("corp"),)


def test_a_lender_reclaims_quota_borrowed_on_another_cluster():
    work = [elsewhere("theirs", "there", 2), gang("ours", "here", NORMAL, gpus=2)]
    after = run_cycle(facts([queue("here", 2, "corp"), outside("there")], work, {"n": 4}, cohorts=CORP))
    assert step_pairs(after) == [("reclaim", "theirs"), ("start", "ours")]
    assert running_gangs(after) == {"ours"}
    assert after.has_converged


def test_only_the_requested_quota_is_reclaimed_and_nodes_are_ignored():
    work = [elsewhere(f"theirs{n}", "there", 1, at=n) for n in range(3)]
    work.append(gang("ours", "here", NORMAL, gpus=2, at=9))
    after = run_cycle(facts([queue("here", 3, "corp"), outside("there")], work, {"n": 2, "m": 1}, cohorts=CORP))
    assert step_pairs(after) == [("reclaim", "theirs2"), ("reclaim", "theirs1"), ("start", "ours")]
    assert running_gangs(after) == {"theirs0", "ours"}
    assert [free[0] for free in after.world.nodes.free] == [1, 0], "m has its GPU, n gave both"


def test_an_external_victim_waits_for_its_own_cluster():
    """It can run on none of our nodes, so they do not decide when it starts again."""
    work = [elsewhere("theirs", "there", 2), gang("ours", "here", NORMAL, gpus=2)]
    after = run_cycle(facts([queue("here", 2, "corp"), outside("there")], work, {"n": 4}, cohorts=CORP))
    reason = waiting_reasons(after.world)["theirs"]
    assert (reason.code, reason.is_permanent, reason.queue) == ("elsewhere", False, "there")


def test_unlisted_external_usage_cannot_be_reclaimed():
    given = facts([queue("here", 2, "corp"), outside("there")], [gang("ours", "here", NORMAL, gpus=2)], {"n": 4})
    held = {"there": {GPU: 2}}
    assert step_pairs(run_cycle(replace(given, cohorts=CORP, usage=held))) == []
    assert step_pairs(run_cycle(replace(given, cohorts=CORP, usage={"there": {GPU: 0}}))) == [("start", "ours")]


def test_external_queues_start_nothing():
    after = run_cycle(facts([outside("there", 4)], [gang("w", "there")], {"n": 4}, cohorts=CORP))
    assert step_pairs(after) == []


def test_external_queues_get_no_share_of_our_nodes():
    alone = run_cycle(facts([queue("here", 2, "corp"), queue("us", 2)], [], {"n": 8}, cohorts=CORP, demand=DEMAND))
    both = run_cycle(
        facts(
            [queue("here", 2, "corp"), queue("us", 2), outside("there", 6)],
            [elsewhere("theirs", "there", 6)],
            {"n": 8},
            cohorts=CORP,
            demand=DEMAND,
        )
    )
    for name in ("here", "us"):
        assert both.world.queue_of[name].fair == alone.world.queue_of[name].fair == [4]


DEMAND = {"here": {GPU: 8}, "us": {GPU: 8}}


def test_an_unneeded_victim_returns_to_its_node():
    work = [elsewhere("large", "there", 2, at=1), elsewhere("small", "there", 1, at=2)]
    work.append(gang("ours", "here", NORMAL, gpus=2, at=3))
    after = run_cycle(facts([queue("here", 3, "corp"), outside("there")], work, {"n": 2}, cohorts=CORP))
    assert step_pairs(after) == [("reclaim", "large"), ("start", "ours")]
    assert running_gangs(after) == {"small", "ours"}
