"""What a preview showed, compared with what happened."""

from __future__ import annotations

import pytest

from scheduling.domain.engine.steps import StepAction
from scheduling.domain.judgement.shown_effects import WorkEffect, effect_of_steps, judge_effect

SHOWN, OTHER = WorkEffect(("low",), ("new",)), WorkEffect((), ("new",))


def test_the_effect_of_steps_is_who_loses_and_which_waiting_work_starts() -> None:
    steps = [
        (StepAction.RECLAIM, "low"), (StepAction.START, "new"), (StepAction.PREEMPT, "a"), (StepAction.MOVE, "b"),
        (StepAction.START, "elastic"), (StepAction.PREEMPT, "a"),
    ]  # fmt: skip
    assert effect_of_steps(steps, {"new", "waits"}) == WorkEffect(("a", "low"), ("new",))


@pytest.mark.parametrize(
    ("found", "as_planned", "then", "outcome", "reason"),
    [
        (SHOWN, True, None, "kept", ""),
        (SHOWN, False, None, "kept", ""),
        (None, True, None, "withdrawn", "changed"),
        (OTHER, False, None, "withdrawn", "changed"),
        (OTHER, True, SHOWN, "withdrawn", "time"),
        (OTHER, True, OTHER, "broken", ""),
        (OTHER, True, None, "broken", ""),
        (WorkEffect(), True, None, "broken", ""),
    ],
)
def test_the_verdict(
    found: WorkEffect | None, as_planned: bool, then: WorkEffect | None, outcome: str, reason: str
) -> None:
    verdict = judge_effect(SHOWN, found, as_planned=as_planned, then=then)
    assert (verdict.outcome, verdict.found, verdict.reason) == (outcome, found, reason)
