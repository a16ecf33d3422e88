"""Forecasts of starts in the words of the pages, in local time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from osmo_admin.cli.base.tables import Shown
from scheduling.domain.start_words import UNKNOWN, StartTimes, start_about, start_about_sentence


def start_sentence(start: dict[str, Any] | None, reservation: dict[str, Any] | None = None) -> str | None:
    """`It probably starts about 15:40.`; None without a forecast."""
    return start_about_sentence(_times(start, reservation), _now()) or None


def start_cell(start: dict[str, Any] | None, reservation: dict[str, Any] | None = None) -> Shown | None:
    """The words for a table, the time that they are about in a file; None where they name none."""
    times = _times(start, reservation)
    if times is None:
        return None
    now = _now()
    words, named = start_about(times, now), times.named(now)
    if words == UNKNOWN:
        return None
    return Shown(words, named and named.isoformat(timespec="seconds"))


def start_facts(start: dict[str, Any] | None, reservation: dict[str, Any] | None = None) -> list[tuple[str, Any]]:
    """The sentence as a line of facts; none without a forecast."""
    sentence = start_sentence(start, reservation)
    return [("Start", sentence)] if sentence else []


def _times(start: dict[str, Any] | None, reservation: dict[str, Any] | None) -> StartTimes | None:
    latest = reservation["latest_start"] if reservation and reservation.get("is_certain") else None
    if start is None:
        return None if latest is None else StartTimes(latest=_time(latest))
    made_at, p10, p50, p90 = (_time(start.get(key)) for key in ("made_at", "p10", "p50", "p90"))
    record = start.get("record") or {"like": 0, "in_time": 0}
    return StartTimes(made_at, p10, p50, p90, start.get("never"), _time(latest), record["like"], record["in_time"])


def _now() -> datetime:
    return datetime.now(UTC).astimezone()


def _time(timestamp: str | None) -> datetime | None:
    return None if not timestamp else datetime.fromisoformat(timestamp).replace(tzinfo=UTC)
