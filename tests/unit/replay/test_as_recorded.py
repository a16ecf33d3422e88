"""Which part of its plan a cycle of the record did."""

from __future__ import annotations

from scheduling.domain.engine.steps import Step, StepAction
from scheduling.history.replay.as_recorded import done_units
from scheduling.history.replay.history import RecordedStep


def step(action, gang, *nodes, beneficiary=None):
    return Step(1, action, gang, ("task",), beneficiary, "", nodes)


def recorded(action, gang, *nodes):
    return RecordedStep(7, action.value, gang, ("task",), nodes)


TWICE = [
    step(StepAction.START, "small", "n1"),
    step(StepAction.PREEMPT, "small", beneficiary="large"),
    step(StepAction.START, "large", "n1"),
    step(StepAction.START, "small", "n2"),
]
"""A plan of three units that starts a gang, takes it back, and starts it again elsewhere."""


def test_a_gang_that_a_plan_starts_twice_has_started_once_where_the_process_died_before():
    done = done_units(TWICE, [recorded(StepAction.START, "small", "n1")], 3)
    assert done == TWICE[:1]


def test_a_start_on_the_same_node_again_is_another_unit():
    again = [*TWICE[:3], step(StepAction.START, "small", "n1")]
    first = [recorded(StepAction.START, "small", "n1")]
    rest = [recorded(StepAction.PREEMPT, "small"), recorded(StepAction.START, "large", "n1")]
    assert done_units(again, first, 3) == again[:1]
    assert done_units(again, [*first, *rest], 3) == again[:3]
    assert done_units(again, [*first, *rest, *first], 3) == again


def test_another_plan_is_followed_whole():
    assert done_units(TWICE, [], 2) == TWICE
