"""Promised starts: the certain latest starts that people have seen, and whether they came true.

A promise stands until the gang has started or its time is over, which is a minute of grace after the latest start.
Before the latest start it may be withdrawn, because the gang ended or its bound is another one. In the minute of grace
only two things withdraw it: the end of the gang, and that its reservation has gone, as when it may not start any more.
A later bound does not: work that takes the place of the gang at the very moment at which that becomes free breaks the
promise. After the minute the promise is kept or broken.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

GRACE = timedelta(minutes=1)
"""A gang that starts at most this much later has started in time: the work before it ends at the tick of its
backend."""


class PromiseOutcome(StrEnum):
    """What has become of a promise."""

    OPEN = "open"
    KEPT = "kept"
    BROKEN = "broken"
    WITHDRAWN = "withdrawn"


class WithdrawalReason(StrEnum):
    """Why a promise was withdrawn: the gang ended without a start; its bound is later or no longer certain, because
    settings, nodes or work changed; or its start reservation has gone."""

    ENDED = "ended"
    CHANGED = "changed"
    NO_RESERVATION = "no_reservation"


@dataclass(frozen=True, slots=True)
class WaitEnd:
    """The end of the wait of a gang: by its start, or by its own end."""

    at: datetime
    is_start: bool


@dataclass(frozen=True, slots=True)
class PromiseVerdict:
    """The outcome, and the latest start that is promised then, which only moves earlier. `ended_at`: when an outcome
    other than `OPEN` came; `reason`: of a withdrawal, else empty."""

    outcome: PromiseOutcome
    latest_start: datetime
    ended_at: datetime | None = None
    reason: WithdrawalReason | str = ""


def judge_promise(
    latest_start: datetime, *, wait_end: WaitEnd | None, bound: datetime | None, has_reservation: bool, now: datetime
) -> PromiseVerdict:
    """What becomes of an open promise. `wait_end`: None while the gang waits; `bound`: its certain latest start as of
    now, None without one."""
    if wait_end is not None:
        if wait_end.is_start:
            outcome = PromiseOutcome.KEPT if wait_end.at <= latest_start + GRACE else PromiseOutcome.BROKEN
            return PromiseVerdict(outcome, latest_start, wait_end.at)
        if wait_end.at > latest_start + GRACE:
            return PromiseVerdict(PromiseOutcome.BROKEN, latest_start, wait_end.at)
        return PromiseVerdict(PromiseOutcome.WITHDRAWN, latest_start, wait_end.at, WithdrawalReason.ENDED)
    if now > latest_start + GRACE:
        return PromiseVerdict(PromiseOutcome.BROKEN, latest_start, now)
    if not has_reservation:
        return PromiseVerdict(PromiseOutcome.WITHDRAWN, latest_start, now, WithdrawalReason.NO_RESERVATION)
    if now > latest_start:
        return PromiseVerdict(PromiseOutcome.OPEN, latest_start)
    if bound is None or bound > latest_start:
        return PromiseVerdict(PromiseOutcome.WITHDRAWN, latest_start, now, WithdrawalReason.CHANGED)
    return PromiseVerdict(PromiseOutcome.OPEN, bound)
