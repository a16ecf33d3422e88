"""Tables of replays for people: the numbers of teams, under the names that pages have too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from osmo_admin.cli.base.tables import Table, build_table
from pools.domain.names import readable_name
from pools.domain.numbers import GPU_HOURS, REPLAY_NUMBERS
from pools.domain.values.durations import span_text
from scheduling.domain.list_columns import TEAM_COLUMNS


def team_table(teams: Mapping[str, Mapping[str, Any]], columns: Sequence[str]) -> Table:
    """These numbers of each team. The first one in GPU-hours says the unit, for all of them."""
    rows = [(readable_name(name), *(format_number(key, team[key]) for key in columns)) for name, team in teams.items()]
    with_unit = next(key for key in columns if REPLAY_NUMBERS[key].unit == GPU_HOURS)
    numbers = [REPLAY_NUMBERS[key] for key in columns]
    heads = [each.heading if each is REPLAY_NUMBERS[with_unit] else each.label for each in numbers]
    return build_table((TEAM_COLUMNS["team"].heading, *heads), rows)


def format_number(key: str, value: Any) -> str | None:
    """A number of a replay: a time as `3 min 7 s`, a count as it is, others with two decimals."""
    if REPLAY_NUMBERS[key].unit == "s":
        return format_seconds(value)
    return str(value) if isinstance(value, int) else format_decimal(value)


def format_decimal(value: float | None) -> str | None:
    """With two decimals."""
    return None if value is None else f"{value:,.2f}"


def format_seconds(seconds: float | None, *, is_signed: bool = False) -> str | None:
    """As `3 min 7 s`; a difference can be negative, and begins with a sign where `is_signed`."""
    return None if seconds is None else span_text(seconds, is_signed=is_signed)
