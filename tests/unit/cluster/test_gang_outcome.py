"""The outcome of a gang from the ends of its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from scheduling.domain.cluster.pods.gang_outcome import GangMember, GangOutcome, decide_outcome, gang_status
from scheduling.domain.statuses import TaskStatus as S

TREE = {
    "min_sub_group": 1,
    "sub_groups": [{"name": "a", "min_member": 1}, {"name": "b", "min_member": 2}],
}


def follows(
    *members: GangMember,
    tree: Mapping[str, Any] | None = None,
    ignores: bool = True,
    before: frozenset[str] = frozenset(),
) -> GangOutcome:
    return decide_outcome(members, tree=tree, ignores_nonlead=ignores, already_ended=before)


def lead(status: S, **more: Any) -> GangMember:
    return GangMember("lead", status, lead=True, **more)


def other(status: S, name: str = "other", **more: Any) -> GangMember:
    return GangMember(name, status, **more)


def test_nothing_follows_while_all_run() -> None:
    assert follows(lead(S.RUNNING), other(S.INITIALIZING)) == GangOutcome()


@pytest.mark.parametrize("end", [S.COMPLETED, S.FAILED, S.FAILED_IMAGE_PULL, S.FAILED_EVICTED])
def test_the_leads_end_is_the_gangs(end: S) -> None:
    found = follows(lead(end, message="words"), other(S.RUNNING))
    assert (found.verdict, found.final_statuses) == (end, {"lead": end})
    assert found.message == ("" if end is S.COMPLETED else "lead: words")


@pytest.mark.parametrize("end", [S.COMPLETED, S.FAILED])
def test_others_may_end_as_they_like(end: S) -> None:
    found = follows(lead(S.RUNNING), other(end))
    assert (found.verdict, found.final_statuses) == (None, {"other": end})


def test_unless_every_status_counts() -> None:
    assert follows(lead(S.RUNNING), other(S.FAILED_EVICTED, message="m"), ignores=False).verdict is S.FAILED_EVICTED
    assert follows(lead(S.COMPLETED), other(S.RUNNING), ignores=False).verdict is None
    done = follows(lead(S.COMPLETED), other(S.COMPLETED), ignores=False, before=frozenset({"lead"}))
    assert (done.verdict, done.final_statuses) == (S.COMPLETED, {"other": S.COMPLETED})


def test_a_known_end_is_not_reported_again_but_counts() -> None:
    found = follows(lead(S.RUNNING), other(S.FAILED), before=frozenset({"other"}))
    assert found == GangOutcome()
    assert follows(lead(S.RUNNING), other(S.FAILED), before=frozenset({"other"}), ignores=False).verdict is S.FAILED


def test_exit_actions_have_the_last_word() -> None:
    assert follows(lead(S.FAILED, exit_action="COMPLETE")).verdict is S.COMPLETED
    assert follows(lead(S.COMPLETED, exit_action="FAIL")).verdict is S.FAILED
    assert follows(lead(S.FAILED_EVICTED, exit_action="FAIL")).verdict is S.FAILED_EVICTED


def test_another_attempt_if_retries_are_allowed() -> None:
    found = follows(lead(S.FAILED, exit_action="RESCHEDULE", may_retry=True), other(S.RUNNING))
    assert found == GangOutcome({"lead": S.RESCHEDULED}, tasks_to_retry=frozenset({"lead"}))
    assert follows(lead(S.FAILED, exit_action="RESCHEDULE"), other(S.RUNNING)).verdict is S.FAILED


def test_a_gang_that_counts_every_status_begins_together_again() -> None:
    retried = other(S.FAILED, exit_action="RESCHEDULE", may_retry=True)
    found = follows(lead(S.RUNNING), retried, other(S.COMPLETED, "done"), ignores=False, before=frozenset({"done"}))
    assert (found.tasks_to_retry, found.tasks_to_restart, found.verdict) == ({"other"}, {"lead"}, None)


def test_a_failure_together_with_a_retry_fails() -> None:
    retried = other(S.FAILED, exit_action="RESCHEDULE", may_retry=True)
    assert follows(lead(S.FAILED), retried).verdict is S.FAILED


def elastic(*statuses: S) -> GangOutcome:
    names = [("a-0", "a"), ("b-0", "b"), ("b-1", "b")]
    members = [GangMember(name, status, sub_group=leaf) for (name, leaf), status in zip(names, statuses, strict=True)]
    return follows(*members, tree=TREE, ignores=False)


def test_a_replica_that_never_ran_was_not_needed() -> None:
    assert elastic(S.COMPLETED, S.SCHEDULING, S.SCHEDULING).verdict is S.COMPLETED
    assert elastic(S.SCHEDULING, S.COMPLETED, S.SCHEDULING).verdict is None
    assert elastic(S.COMPLETED, S.RUNNING, S.RUNNING).verdict is None
    assert elastic(S.COMPLETED, S.COMPLETED, S.COMPLETED).verdict is S.COMPLETED
    assert elastic(S.SCHEDULING, S.SCHEDULING, S.SCHEDULING).verdict is None


@pytest.mark.parametrize("end", [S.FAILED_BACKEND_ERROR, S.FAILED_EVICTED])
def test_a_lost_pod_beyond_the_minimum_is_replaced(end: S) -> None:
    found = elastic(S.RUNNING, end, S.RUNNING)
    assert found == GangOutcome({"b-0": end}, tasks_to_retry=frozenset({"b-0"}))
    assert elastic(S.COMPLETED, end, end).verdict is S.COMPLETED, "nothing runs, and what has completed is enough"
    assert elastic(end, S.RUNNING, S.SCHEDULING).verdict is end, "one of two is not the minimum of b"
    assert elastic(end, S.RUNNING, S.RUNNING).tasks_to_retry == {"a-0"}, "b alone is enough"
    assert elastic(end, S.RUNNING, end).verdict is end


def test_a_pod_that_stays_away_does_not_end_the_gang_later() -> None:
    members = [
        GangMember("a-0", S.RUNNING, sub_group="a"),
        GangMember("b-0", S.FAILED_EVICTED, sub_group="b"),
        GangMember("b-1", S.COMPLETED, sub_group="b"),
    ]
    assert follows(*members, tree=TREE, ignores=False, before=frozenset({"b-0"})).verdict is None
    lost = replace(members[0], status=S.FAILED_BACKEND_ERROR)
    assert follows(lost, *members[1:], tree=TREE, ignores=False, before=frozenset({"b-0", "b-1"})).verdict is not None


@pytest.mark.parametrize(
    ("change", "ends", "retried"),
    [
        ({"may_replace": False}, S.FAILED_EVICTED, set()),
        ({"exit_action": "FAIL"}, S.FAILED_EVICTED, set()),
        ({"exit_action": "COMPLETE"}, S.COMPLETED, set()),
        ({"exit_action": "RESCHEDULE", "may_retry": True}, S.FAILED_EVICTED, {"b-0"}),
    ],
)
def test_exit_actions_of_a_lost_surplus_pod_are_for_it_alone(
    change: dict[str, Any], ends: S, retried: set[str]
) -> None:
    lost = replace(GangMember("b-0", S.FAILED_EVICTED, sub_group="b"), **change)
    rest = [GangMember("a-0", S.RUNNING, sub_group="a"), GangMember("b-1", S.RUNNING, sub_group="b")]
    found = follows(lost, *rest, tree=TREE, ignores=False)
    assert found == GangOutcome({"b-0": ends}, tasks_to_retry=frozenset(retried))


@pytest.mark.parametrize("end", [S.FAILED, S.FAILED_IMAGE_PULL, S.FAILED_START_ERROR, S.FAILED_START_TIMEOUT])
def test_every_other_end_of_an_optional_pod_is_a_failure_of_the_work(end: S) -> None:
    assert elastic(S.RUNNING, end, S.RUNNING).verdict is end


def test_a_lost_lead_ends_the_gang() -> None:
    lead_lost = GangMember("b-0", S.FAILED_BACKEND_ERROR, lead=True, sub_group="b")
    assert follows(lead_lost, GangMember("a-0", S.RUNNING, sub_group="a"), tree=TREE).verdict is not None


@pytest.mark.parametrize(
    ("tasks", "status"),
    [
        ([S.SCHEDULING, S.SCHEDULING], S.SCHEDULING),
        ([S.SCHEDULING, S.INITIALIZING], S.INITIALIZING),
        ([S.INITIALIZING, S.RUNNING], S.RUNNING),
        ([S.COMPLETED, S.SCHEDULING], S.SCHEDULING),
    ],
)
def test_the_status_of_a_gang(tasks: list[S], status: S) -> None:
    assert gang_status(tasks) is status
