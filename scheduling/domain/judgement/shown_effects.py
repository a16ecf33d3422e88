"""Previews of changes, and whether they came true: what a preview said of waiting and running work is compared with
what the next full cycle after the change did.

The comparison means something only if the cycle saw what the preview had seen and the change itself, and nothing else.
Otherwise the row is withdrawn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from scheduling.domain.engine.steps import StepAction
from scheduling.domain.promised_starts import PromiseOutcome

EVICTING_ACTIONS = frozenset({StepAction.RECLAIM, StepAction.PREEMPT})


class EffectWithdrawal(StrEnum):
    """Why an effect was withdrawn: something else changed between the preview and the end of the cycle; or the clock
    alone made the difference, as when a waiting gang became old enough for a reservation; or nobody can judge, because
    the scheduler of a cluster decides there, at a time of its own."""

    CHANGED = "changed"
    TIME = "time"
    NOT_JUDGED = "not_judged"


@dataclass(frozen=True, slots=True)
class WorkEffect:
    """What a cycle does: the gangs that lose tasks to others, and the waiting gangs that start, by the ids of their
    groups, in order."""

    lost: tuple[str, ...] = ()
    started: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EffectVerdict:
    """The outcome of a shown effect. `found` is what happened; None where it was not looked at. `reason`: of a
    withdrawal, else empty."""

    outcome: PromiseOutcome
    found: WorkEffect | None = None
    reason: EffectWithdrawal | str = ""


def effect_of_steps(steps: Iterable[tuple[str, str]], waiting: Collection[str]) -> WorkEffect:
    """The effect of steps, each an action and the id of a group. `waiting`: the groups that waited before them."""
    lost, started = set[str](), set[str]()
    for action, group in steps:
        if action in EVICTING_ACTIONS:
            lost.add(group)
        elif action == StepAction.START and group in waiting:
            started.add(group)
    return WorkEffect(tuple(sorted(lost)), tuple(sorted(started)))


def judge_effect(
    shown: WorkEffect, found: WorkEffect | None, *, as_planned: bool = True, then: WorkEffect | None = None
) -> EffectVerdict:
    """What becomes of a shown effect in the first full cycle after the change. `found`: what the cycle did; None if it
    saw more than the change. `as_planned`: nothing came between its plan and what it did. `then`: what the same cycle
    would have done at the time of the preview; None where no clock is read."""
    if found is None:
        return EffectVerdict(PromiseOutcome.WITHDRAWN, None, EffectWithdrawal.CHANGED)
    if found == shown:
        return EffectVerdict(PromiseOutcome.KEPT, found)
    if not as_planned:
        return EffectVerdict(PromiseOutcome.WITHDRAWN, found, EffectWithdrawal.CHANGED)
    if then == shown:
        return EffectVerdict(PromiseOutcome.WITHDRAWN, found, EffectWithdrawal.TIME)
    return EffectVerdict(PromiseOutcome.BROKEN, found)
