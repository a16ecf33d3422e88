"""Forecasts of starts in words that promise nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

STARTS_NOW = "It can start in the next pass, as things stand."


def start_sentence(start: dict[str, Any] | None) -> str | None:
    """`Half of such jobs start by 15:40, nine of ten by 18:10.`, in local time; None without a forecast."""
    if start is None:
        return None
    if start.get("never"):
        return str(start["never"])
    if _is_now(start):
        return STARTS_NOW
    if not start.get("p50"):
        return "Fewer than half of such jobs start in the sampled futures."
    ninth = f", nine of ten by {_short(start['p90'])}" if start.get("p90") else ""
    return f"Half of such jobs start by {_short(start['p50'])}{ninth}."


def start_cell(start: dict[str, Any] | None) -> str | None:
    """The middle time for a table, `now` where it can start; None without one."""
    if start is None:
        return None
    if start.get("never"):
        return "none sampled"
    return "now" if _is_now(start) else _short(start.get("p50"))


def late_start_cell(start: dict[str, Any] | None) -> str | None:
    """The time by which nine of ten start, for a table."""
    return None if start is None or _is_now(start) else _short(start.get("p90"))


def start_facts(start: dict[str, Any] | None) -> list[tuple[str, Any]]:
    """The sentence as a line of facts; none without a forecast."""
    sentence = start_sentence(start)
    return [] if sentence is None else [("Start", sentence)]


def _is_now(start: dict[str, Any]) -> bool:
    return start.get("p90") is not None and start["p90"] == start.get("made_at")


def _short(timestamp: str | None) -> str | None:
    """The local time of day, with the date on another day than today."""
    if not timestamp:
        return None
    local = datetime.fromisoformat(timestamp).replace(tzinfo=UTC).astimezone()
    is_today = local.date() == datetime.now(UTC).astimezone().date()
    return f"{local:%H:%M}" if is_today else f"{local:%Y-%m-%d %H:%M}"
