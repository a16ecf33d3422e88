"""What becomes of a promised start: kept, broken or withdrawn, however late the check comes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scheduling.domain.promised_starts import (
    GRACE,
    PromiseOutcome,
    PromiseVerdict,
    WaitEnd,
    WithdrawalReason,
    judge_promise,
)

T0 = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
LATEST = 1000
GRACE_SECONDS = GRACE.total_seconds()


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


@pytest.mark.parametrize("now", [0, LATEST, LATEST + 10**6])
@pytest.mark.parametrize(
    ("end", "is_start", "outcome", "reason"),
    [
        (10, True, PromiseOutcome.KEPT, ""),
        (LATEST + GRACE_SECONDS, True, PromiseOutcome.KEPT, ""),
        (LATEST + GRACE_SECONDS + 1, True, PromiseOutcome.BROKEN, ""),
        (LATEST, False, PromiseOutcome.WITHDRAWN, WithdrawalReason.ENDED),
        (LATEST + 1, False, PromiseOutcome.WITHDRAWN, WithdrawalReason.ENDED),
        (LATEST + GRACE_SECONDS, False, PromiseOutcome.WITHDRAWN, WithdrawalReason.ENDED),
        (LATEST + GRACE_SECONDS + 1, False, PromiseOutcome.BROKEN, ""),
    ],
)
def test_the_end_of_the_wait_decides(now: int, end: float, is_start: bool, outcome: str, reason: str) -> None:
    verdict = judge_promise(
        at(LATEST), wait_end=WaitEnd(at(end), is_start), bound=None, has_reservation=False, now=at(now)
    )
    assert verdict == PromiseVerdict(PromiseOutcome(outcome), at(LATEST), at(end), reason)


@pytest.mark.parametrize(
    ("now", "bound", "has_reservation", "expected"),
    [
        (10, LATEST, True, (PromiseOutcome.OPEN, LATEST, None, "")),
        (10, 900, True, (PromiseOutcome.OPEN, 900, None, "")),
        (10, LATEST + 1, True, (PromiseOutcome.WITHDRAWN, LATEST, 10, WithdrawalReason.CHANGED)),
        (10, None, True, (PromiseOutcome.WITHDRAWN, LATEST, 10, WithdrawalReason.CHANGED)),
        (10, None, False, (PromiseOutcome.WITHDRAWN, LATEST, 10, WithdrawalReason.NO_RESERVATION)),
        (LATEST, None, False, (PromiseOutcome.WITHDRAWN, LATEST, LATEST, WithdrawalReason.NO_RESERVATION)),
        # What ends the work before it may take a moment. In this moment a later bound tells what is to be found.
        (LATEST + 1, LATEST + 900, True, (PromiseOutcome.OPEN, LATEST, None, "")),
        (LATEST + 1, None, True, (PromiseOutcome.OPEN, LATEST, None, "")),
        # But a gang that may not start any more is promised nothing.
        (LATEST + 1, None, False, (PromiseOutcome.WITHDRAWN, LATEST, LATEST + 1, WithdrawalReason.NO_RESERVATION)),
        (
            LATEST + GRACE_SECONDS,
            None,
            False,
            (PromiseOutcome.WITHDRAWN, LATEST, LATEST + GRACE_SECONDS, WithdrawalReason.NO_RESERVATION),
        ),
        (LATEST + GRACE_SECONDS, LATEST, True, (PromiseOutcome.OPEN, LATEST, None, "")),
        (LATEST + GRACE_SECONDS + 1, None, False, (PromiseOutcome.BROKEN, LATEST, LATEST + GRACE_SECONDS + 1, "")),
        (LATEST + GRACE_SECONDS + 1, 10**6, True, (PromiseOutcome.BROKEN, LATEST, LATEST + GRACE_SECONDS + 1, "")),
    ],
)
def test_while_the_gang_waits(
    now: float, bound: int | None, has_reservation: bool, expected: tuple[PromiseOutcome, int, float | None, str]
) -> None:
    outcome, latest, ended, reason = expected
    verdict = judge_promise(
        at(LATEST),
        wait_end=None,
        bound=None if bound is None else at(bound),
        has_reservation=has_reservation,
        now=at(now),
    )
    assert verdict == PromiseVerdict(outcome, at(latest), None if ended is None else at(ended), reason)
