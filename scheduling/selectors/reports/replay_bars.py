"""The waits and the use of teams in a replay as bars, as they were and as they would have been."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pools.domain.numbers import REPLAY_NUMBERS, NamedNumber

MAX_TEAMS = 12
KEYS = ("wait_mean_s", "used_gpu_h")


@dataclass(frozen=True, slots=True)
class Bar:
    """A number and its length in percent of the longest bar of the picture."""

    value: float
    percent: float


@dataclass(frozen=True, slots=True)
class TeamBars:
    """One team: the number as it was, and as it would have been; None without a change to compare."""

    team: str
    was: Bar
    would: Bar | None


@dataclass(frozen=True, slots=True)
class BarPicture:
    """One number of the teams with the largest ones. `left_out` counts the others."""

    number: NamedNumber
    teams: Sequence[TeamBars]
    left_out: int


def compare_bars(answer: Mapping[str, Any]) -> list[BarPicture]:
    """The pictures of an answer of a replay; a number that is 0 for all teams has none."""
    on, against = answer["on"]["teams"], (answer["against"] or {}).get("teams")
    found = []
    for key in KEYS:
        rows = [(name, _value(on[name], key), _value(against[name], key) if against else None) for name in on]
        most = max((max(was, would or 0) for _, was, would in rows), default=0)
        if not most:
            continue
        rows.sort(key=lambda row: (-max(row[1], row[2] or 0), row[0]))
        teams = [
            TeamBars(name, Bar(was, _percent(was, most)), None if would is None else Bar(would, _percent(would, most)))
            for name, was, would in rows[:MAX_TEAMS]
        ]
        found.append(BarPicture(REPLAY_NUMBERS[key], teams, max(0, len(rows) - MAX_TEAMS)))
    return found


def _value(row: Mapping[str, Any], key: str) -> float:
    return float(row[key] or 0)


def _percent(value: float, most: float) -> float:
    return round(100 * value / most, 1)
