"""From a plan of ours and the decisions that were seen to the differences."""

from __future__ import annotations

import pytest

from scheduling.domain.observed.differences import (
    MAX_NAMED,
    DifferenceKind,
    OurPlan,
    SeenDecision,
    Wait,
    find_differences,
    find_left_waiting,
    planned_since,
)

OVER = Wait("over_quota", "It asks for 4 GPUs, team has 1 of 2 free.")


def start(gang: str, gpus: int = 4) -> SeenDecision:
    return SeenDecision(gang, is_start=True, gpus=gpus)


def loss(gang: str, gpus: int = 4) -> SeenDecision:
    return SeenDecision(gang, is_start=False, gpus=gpus)


@pytest.mark.parametrize(
    ("seen", "ours", "found"),
    [
        ([], OurPlan(), []),
        ([start("a")], OurPlan(starts={"a": "a starts."}), []),
        ([start("a")], OurPlan(starts={"a": "", "b": ""}), []),
        ([loss("a")], OurPlan(evictions={"a": "", "b": ""}), []),
        ([start("a")], OurPlan(waits={"a": OVER}), [("started", "a", "over_quota", ())]),
        ([start("a")], OurPlan(starts={"b": ""}, waits={"a": OVER}), [("started", "a", "over_quota", ("b",))]),
        (
            [start("a"), start("b")],
            OurPlan(starts={"b": ""}, waits={"a": OVER}),
            [("started", "a", "over_quota", ())],
        ),
        ([start("a")], OurPlan(), [("started", "a", "", ())]),
        ([loss("a")], OurPlan(), [("preempted", "a", "", ())]),
        ([loss("a")], OurPlan(evictions={"b": ""}), [("preempted", "a", "", ("b",))]),
    ],
)
def test_the_table(seen: list[SeenDecision], ours: OurPlan, found: list[tuple[object, ...]]) -> None:
    assert [(each.kind, each.gang, each.rule, each.instead) for each in find_differences(seen, ours)] == found


def test_a_difference_says_what_ours_would_have_done() -> None:
    ours = OurPlan(starts={f"b{number}": "" for number in range(MAX_NAMED + 2)}, waits={"a": OVER})
    started, lost = find_differences([start("a"), loss("c", 1)], ours)
    assert started.message == (
        "It started with 4 GPUs. Ours would have kept it waiting: It asks for 4 GPUs, team has 1 of 2 free. "
        "Ours would have started b0, b1, b2, b3, b4 and 2 more instead."
    )
    assert lost.message == "It lost 1 GPU. Ours would have preempted nobody."


def test_work_counts_as_left_waiting_after_a_while() -> None:
    """A scheduler needs time for its own decision, and a plan that changes its mind does not count."""
    ours = OurPlan(starts={"a": "a starts in team with 4 GPUs."})
    since = planned_since({}, ours.starts, 100.0)
    assert find_left_waiting({"a": 4}, ours, since, 159.0, patience=60) == []
    (found,) = find_left_waiting({"a": 4}, ours, planned_since(since, ours.starts, 130.0), 160.0, patience=60)
    assert (found.kind, found.gpus) == (DifferenceKind.LEFT_WAITING, 4)
    assert found.message == "It waits. Ours would have started it 60 seconds ago: a starts in team with 4 GPUs."
    assert planned_since(planned_since(since, (), 130.0), ours.starts, 140.0) == {"a": 140.0}
    assert find_left_waiting({"a": 4}, OurPlan(), since, 999.0, patience=60) == []
