"""The waits and the use of teams in a replay as bars: as they were and with the changes, or recorded and replayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pools.domain.numbers import REPLAY_NUMBERS, NamedNumber

MAX_TEAMS = 8
KEYS = ("wait_mean_s", "used_gpu_h")


@dataclass(frozen=True, slots=True)
class Bar:
    """A number and its length in percent of the longest bar of the picture."""

    value: float
    percent: float


@dataclass(frozen=True, slots=True)
class TeamBars:
    """One team: the number before and after; None where there is nothing to compare."""

    team: str
    was: Bar
    would: Bar | None


@dataclass(frozen=True, slots=True)
class BarPicture:
    """One number of the teams with the largest ones. `left_out` counts the others."""

    number: NamedNumber
    teams: Sequence[TeamBars]
    left_out: int


@dataclass(frozen=True, slots=True)
class ComparedTeams:
    """The numbers of teams that an answer compares, and their words. Answers of former versions have no record."""

    before: Mapping[str, Any]
    after: Mapping[str, Any] | None
    before_words: str = "as it was"
    after_words: str = "with the changes"


def compared_teams(answer: Mapping[str, Any]) -> ComparedTeams:
    """What was and would have been; without changes, what was recorded and replayed."""
    if answer["against"] is not None:
        return ComparedTeams(answer["on"]["teams"], answer["against"]["teams"])
    if answer.get("recorded") is None:
        return ComparedTeams(answer["on"]["teams"], None)
    return ComparedTeams(answer["recorded"]["teams"], answer["on"]["teams"], "as recorded", "replayed")


def compare_bars(answer: Mapping[str, Any]) -> list[BarPicture]:
    """The pictures of an answer of a replay; a number that is 0 for all teams has none."""
    compared = compared_teams(answer)
    on, against = compared.before, compared.after
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
