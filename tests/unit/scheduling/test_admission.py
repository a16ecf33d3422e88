"""Two verdicts in tables: the admission of a submission (design, D6) and the start of a gang."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import UNLIMITED
from scheduling.domain.judgement.admission import (
    FlavorLimits,
    Gate,
    LeafFacts,
    TreeLimit,
    start_verdict,
    submission_verdict,
)
from scheduling.domain.priorities import Priority
from scheduling.domain.reason_codes import ReasonCode

HIGH, NORMAL, LOW = Priority.HIGH, Priority.NORMAL, Priority.LOW


def _leaf(pool: str, quota: float, maximum: float, **state: Any) -> LeafFacts:
    return LeafFacts(pool, {"default": FlavorLimits(quota, maximum)}, **state)


@pytest.mark.parametrize(
    ("quota", "maximum", "priority", "gang", "code"),
    [
        (10, UNLIMITED, HIGH, 10, None),
        (10, UNLIMITED, HIGH, 11, "above_quota"),
        (10, UNLIMITED, NORMAL, 11, "above_quota"),
        (10, UNLIMITED, LOW, 11, None),
        (10, 20, LOW, 20, None),
        (10, 20, LOW, 21, "above_maximum"),
        (10, 5, HIGH, 6, "above_maximum"),
        (0, UNLIMITED, HIGH, 0, None),
        (0, UNLIMITED, HIGH, 1, "above_quota"),
        (0, 0, LOW, 0, None),
        (0, 0, LOW, 1, "above_maximum"),
        (UNLIMITED, UNLIMITED, HIGH, 10**6, None),
        (UNLIMITED, 8, HIGH, 9, "above_maximum"),
    ],
)
def test_quota_and_maximum(quota: int, maximum: int, priority: Priority, gang: int, code: str | None) -> None:
    refusal = submission_verdict(
        _leaf("team", quota, maximum), priority=priority, gangs=[[{"default": gang}]], ignores_maintenance=False
    )

    assert (refusal.violations[0].code if refusal else None) == code
    if refusal:
        numbers = dict(refusal.violations[0].numbers)
        assert refusal.is_by_quota
        assert numbers["requested"] == gang > numbers["limit"]
        assert str(gang) in refusal.violations[0].message


@pytest.mark.parametrize(
    ("facts", "admin", "words"),
    [
        (_leaf("team--a", 10, UNLIMITED, state=SubpoolState.ACTIVE), False, None),
        (_leaf("team--a", 0, UNLIMITED, state=SubpoolState.DELETING), True, "DELETING"),
        (_leaf("team--a", 0, UNLIMITED, state=SubpoolState.ARCHIVED), True, "ARCHIVED"),
        (_leaf("team", 10, UNLIMITED, archived=True), True, "archived"),
        (_leaf("team", 10, UNLIMITED, maintenance=True), False, "MAINTENANCE"),
        (_leaf("team", 10, UNLIMITED, maintenance=True), True, None),
        (_leaf("team--a", 10, UNLIMITED, state=SubpoolState.ACTIVE, maintenance=True), False, "MAINTENANCE"),
    ],
)
def test_a_closed_pool_is_closed_to_every_priority(facts: LeafFacts, admin: bool, words: str | None) -> None:
    for priority in Priority:
        refusal = submission_verdict(facts, priority=priority, gangs=[[{"default": 1}]], ignores_maintenance=admin)
        if words is None:
            assert refusal is None
        else:
            assert refusal is not None
            assert not refusal.is_by_quota
            assert words in refusal.violations[0].message


@pytest.mark.parametrize(
    ("limit", "gang", "words"),
    [
        (TreeLimit(12, "team", "borrowing_limit", 4), 12, None),
        (TreeLimit(12, "team", "borrowing_limit", 4), 13, "the borrowing limit of team is 4"),
        (TreeLimit(0, "org", "quota", 0), 1, "everything under org"),
    ],
)
def test_a_gang_that_the_idle_tree_cannot_hold_is_refused(limit: TreeLimit, gang: int, words: str | None) -> None:
    facts = LeafFacts("team", {"default": FlavorLimits(10, UNLIMITED, limit)})
    refusal = submission_verdict(facts, priority=LOW, gangs=[[{"default": gang}]], ignores_maintenance=False)

    assert (refusal is None) == (words is None)
    if refusal is not None and words is not None:
        assert refusal.is_by_quota
        assert refusal.violations[0].code == "above_tree"
        assert words in refusal.violations[0].message
        assert dict(refusal.violations[0].numbers)["limit"] == limit.gpus


LEAF, POOL = Gate("team--_shared", 10, 8, UNLIMITED, 8), Gate("team", 100, 50, 60, 55)


@pytest.mark.parametrize(
    ("path", "priority", "gpus", "code", "free"),
    [
        ((LEAF, POOL), HIGH, 2, None, 0),
        ((LEAF, POOL), HIGH, 3, ReasonCode.OVER_QUOTA, 2),
        ((LEAF, POOL), LOW, 5, None, 0),
        ((LEAF, POOL), LOW, 6, ReasonCode.OVER_LIMIT, 5),
        ((Gate("a", 60, 0, UNLIMITED, 0), Gate("team", 100, 50, UNLIMITED, 50)), HIGH, 50, None, 0),
        ((Gate("a", 60, 0, UNLIMITED, 0), Gate("team", 100, 50, UNLIMITED, 50)), HIGH, 51, ReasonCode.OVER_QUOTA, 50),
        ((Gate("a", 10, 50, UNLIMITED, 50), Gate("team", 100, 50, UNLIMITED, 50)), HIGH, 1, ReasonCode.OVER_QUOTA, 0),
        ((Gate("a", 10, 50, UNLIMITED, 50), Gate("team", 100, 50, UNLIMITED, 50)), HIGH, 0, None, 0),
        ((Gate("a", UNLIMITED, 50, UNLIMITED, 50), Gate("team", UNLIMITED, 50, UNLIMITED, 50)), HIGH, 10**6, None, 0),
        ((Gate("a", 10, 0, UNLIMITED, 40), Gate("team", 10, 0, UNLIMITED, 40)), HIGH, 10, None, 0),
    ],
)
def test_start(path: tuple[Gate, ...], priority: Priority, gpus: int, code: ReasonCode | None, free: int) -> None:
    """LOW usage never blocks the quota of HIGH and NORMAL work; an exceeded quota has 0 free, not less."""
    wait = start_verdict(path, priority=priority, gpus=gpus)

    assert (wait.code if wait else None) == code
    if wait:
        assert (wait.requested, wait.free) == (gpus, free)


def test_priorities_are_kai_s() -> None:
    assert {priority: priority.priority_class_value for priority in Priority} == {HIGH: 125, NORMAL: 100, LOW: 50}
    assert [priority for priority in Priority if priority.is_preemptible] == [LOW]


TWO = LeafFacts("team", {"h100": FlavorLimits(8, 16), "a100": FlavorLimits(32, UNLIMITED)})


@pytest.mark.parametrize(
    ("priority", "needs", "codes"),
    [
        (NORMAL, [{"h100": 8}, {"a100": 8}], None),
        (NORMAL, [{"h100": 32}, {"a100": 32}], None),
        (NORMAL, [{"h100": 9}], ["above_quota"]),
        (NORMAL, [{"h100": 33}, {"a100": 33}], ["above_quota", "above_maximum"]),
        (LOW, [{"h100": 33}, {"a100": 33}], None),
        (LOW, [{"h100": 17}], ["above_maximum"]),
        (NORMAL, [{"h100": 4, "a100": 33}], ["above_quota"]),
        (NORMAL, [], ["unknown_flavor"]),
    ],
)
def test_a_gang_needs_one_flavor_that_could_hold_it(
    priority: Priority, needs: list[dict[str, int]], codes: list[str] | None
) -> None:
    refusal = submission_verdict(TWO, priority=priority, gangs=[needs], ignores_maintenance=False)

    assert (None if refusal is None else [fault.code for fault in refusal.violations]) == codes


def test_a_flavor_without_any_quota_is_no_amount_to_ask_for() -> None:
    leaf = LeafFacts("team", {"h100": FlavorLimits(0, 16), "a100": FlavorLimits(8, 16)})
    only = submission_verdict(leaf, priority=NORMAL, gangs=[[{"h100": 8}]], ignores_maintenance=False)
    assert only is not None
    assert only.message == (
        "The largest gang asks for 8 h100 GPUs at once, team guarantees NORMAL work none. "
        "Name another flavor, or submit with priority LOW, which may go over quota."
    )
    both = submission_verdict(leaf, priority=NORMAL, gangs=[[{"h100": 9}, {"a100": 9}]], ignores_maintenance=False)
    assert both is not None
    assert [fault.message for fault in both.violations] == [
        "a100: it asks for 9 GPUs at once, team guarantees NORMAL work 8. Ask for at most 8 at once.",
        "h100: it asks for 9 GPUs at once, team guarantees NORMAL work none.",
    ]


def test_a_refusal_counts_parts_of_shared_gpus_as_parts() -> None:
    leaf = LeafFacts("team", {"t4": FlavorLimits(8, 16), "h100": FlavorLimits(8, 16)}, parts={"t4"})
    only = submission_verdict(leaf, priority=NORMAL, gangs=[[{"t4": 9}]], ignores_maintenance=False)
    both = submission_verdict(leaf, priority=NORMAL, gangs=[[{"t4": 9}, {"h100": 9}]], ignores_maintenance=False)
    assert only is not None and both is not None
    assert only.message.startswith("The largest gang asks for 9 t4 parts of GPUs at once, team guarantees")
    assert [fault.message[:40] for fault in both.violations] == [
        "t4: it asks for 9 parts of GPUs at once,", "h100: it asks for 9 GPUs at once, team g"
    ]  # fmt: skip


def test_a_refusal_says_of_each_flavor_what_would_be_allowed_the_nearest_first() -> None:
    refusal = submission_verdict(TWO, priority=NORMAL, gangs=[[{"h100": 40}, {"a100": 40}]], ignores_maintenance=False)

    assert refusal is not None
    assert refusal.message == (
        "The largest gang fits in no GPU flavor of team. "
        "a100: it asks for 40 GPUs at once, team guarantees NORMAL work 32. Ask for at most 32 at once. "
        "h100: it asks for 40 GPUs at once, team may never hold more than 16. Ask for at most 16 at once. "
        "One of these is enough, or submit with priority LOW, which may go over quota."
    )
    assert [dict(fault.numbers)["flavor"] for fault in refusal.violations] == ["a100", "h100"]
    assert [dict(fault.numbers)["limit"] for fault in refusal.violations] == [32, 16]


def test_the_smaller_gangs_of_a_workflow_are_judged_too() -> None:
    gangs = [[{"a100": 32}], [{"h100": 9}]]
    refusal = submission_verdict(TWO, priority=NORMAL, gangs=gangs, ignores_maintenance=False)

    assert refusal is not None
    assert dict(refusal.violations[0].numbers)["requested"] == 9
