"""Sentences about what was said of the future, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pools.domain.values.counting import counted
from pools.domain.values.durations import minute_text
from scheduling.domain.judgement.shown_effects import EffectWithdrawal
from scheduling.domain.promised_starts import PromiseOutcome, WithdrawalReason

_WITHDRAWN_START = {
    WithdrawalReason.ENDED: "it ended before",
    WithdrawalReason.CHANGED: "settings, nodes or work changed",
    WithdrawalReason.NO_RESERVATION: "its start reservation has gone",
}
_WITHDRAWN_EFFECT = {
    EffectWithdrawal.CHANGED: "not compared: something else changed too",
    EffectWithdrawal.TIME: "not compared: the clock alone made the difference",
    EffectWithdrawal.NOT_JUDGED: "not compared: the cluster decides",
}


def start_found(outcome: PromiseOutcome, reason: str, ended_at: datetime | None) -> str:
    """What came of a promised start; empty while it is open."""
    if outcome is PromiseOutcome.KEPT and ended_at is not None:
        return f"started {minute_text(ended_at)}"
    if outcome is PromiseOutcome.BROKEN:
        return "had not started by then"
    return _WITHDRAWN_START[WithdrawalReason(reason)] if reason else ""


def start_said(latest_start: datetime) -> str:
    """What a promised start said."""
    return f"starts by {minute_text(latest_start)}"


def effect_found(
    outcome: PromiseOutcome, reason: str, lost: Sequence[str] | None, started: Sequence[str] | None
) -> str:
    """What came of the effect of a preview; empty while it is open."""
    if reason:
        return _WITHDRAWN_EFFECT[EffectWithdrawal(reason)]
    return "" if outcome is PromiseOutcome.OPEN else effect_words(lost or (), started or ())


def effect_words(lost: Sequence[str], started: Sequence[str]) -> str:
    """How many gangs lose GPUs, and how many start."""
    parts = [counted(len(lost), "gang loses GPUs", "gangs lose GPUs")] if lost else []
    parts += [counted(len(started), "gang starts", "gangs start")] if started else []
    return ", ".join(parts) or "no gang starts or loses GPUs"
