"""Rows of the record of use, and the SQL of their keys, their time and who may see them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pools.domain.names import SEPARATOR, SHARED_QUEUE
from scheduling.domain.lists import UsageKey
from scheduling.selectors.usage.answers import (
    BACKEND_COLUMNS,
    DAY,
    HOUR,
    SUM_COLUMNS,
    UsageQuestion,
    UsageRow,
    start_of_day,
)
from scheduling.selectors.usage.computed_sums import WORK_COLUMNS
from scheduling.selectors.usage.parts import counts_parts

KEYS = {
    UsageKey.POOL: "root.name",
    UsageKey.SUBPOOL: f"CASE WHEN leaf.parent_id IS NULL THEN leaf.name || '{SEPARATOR}{SHARED_QUEUE}' "
    "ELSE leaf.name END",
    UsageKey.COHORT: "cohort.name",
    UsageKey.USER: "person.username",
    UsageKey.PRIORITY: "entry.priority",
    UsageKey.BACKEND: "backend.name",
    UsageKey.FLAVOR: "NULLIF(entry.flavor, '')",
}
WAIT_KEYS = KEYS | {UsageKey.WORKFLOW: "entry.name"}
WITH_CAPACITY = {UsageKey.BACKEND, UsageKey.FLAVOR}
_OF_WORK_ONLY = {UsageKey.USER, UsageKey.PRIORITY}
JOINS = """
    LEFT JOIN pools_pool leaf ON leaf.id = entry.leaf_id
    LEFT JOIN pools_pool root ON root.id = COALESCE(leaf.parent_id, leaf.id)
    LEFT JOIN pools_cohort cohort ON cohort.id = root.cohort_id
    LEFT JOIN pools_backend backend ON backend.id = entry.backend_id
    LEFT JOIN pools_user person ON person.id = entry.user_id
"""
VISIBLE = """
    (%(sees_all)s OR root.name = ANY(%(visible)s)
        OR entry.user_id = %(me)s AND entry.hour >= date_trunc('hour', (
            SELECT date_joined FROM pools_user WHERE id = %(me)s), 'UTC'))
    AND (NOT %(has_pools)s OR leaf.name = ANY(%(pools)s))
    AND (NOT %(has_users)s OR person.username = ANY(%(users)s))
"""

RowKey = tuple[datetime, str | None, str]
"""The start of a row, its key, and its flavor of parts."""
Rows = dict[RowKey, UsageRow]
Sums = dict[str, int]


@dataclass(frozen=True, slots=True)
class Slots:
    """The window as stored full hours [`stored_from`, `stored_until`) and computed slots. `joined` is the day in which
    the reader's account was made: of own work in other pools only its later hours are visible."""

    stored_from: datetime
    stored_until: datetime
    computed: list[tuple[datetime, datetime]] = field(default_factory=list)
    joined: datetime | None = None

    @property
    def days_from(self) -> datetime:
        """The first full day of the stored hours."""
        day = start_of_day(self.stored_from)
        return day if day == self.stored_from else day + DAY

    @property
    def days_until(self) -> datetime:
        """The end of the last full day of the stored hours; not after `days_from` without one."""
        return start_of_day(self.stored_until)

    @property
    def whole(self) -> list[tuple[datetime, datetime]]:
        """Every hour of the window, computed or stored."""
        hours = (self.stored_until - self.stored_from) // HOUR
        stored = [(self.stored_from + number * HOUR, self.stored_from + (number + 1) * HOUR) for number in range(hours)]
        return [*self.computed, *stored]


def with_part(question: UsageQuestion, key: str | None, part: str) -> str | None:
    """The key of a row from what it is about: parts of shared GPUs are never in the row of whole ones."""
    return f"{key or ''}/{part}" if part and question.by is not UsageKey.FLAVOR else key


def start_second_sql(question: UsageQuestion, column: str) -> str:
    """SQL of the start of a row in seconds since 1970: many rows have few starts, and a time is slow to read."""
    return f"extract(epoch FROM date_trunc('{question.bucket}', {column}, 'UTC'))::bigint"


def is_of_work_only(question: UsageQuestion) -> bool:
    """Whether its rows have no quota, because they are about people."""
    return question.by in _OF_WORK_ONLY or bool(question.users)


def make_row(start: datetime, key: str | None, sums: dict[str, int], part: str = "") -> UsageRow:
    empty: dict[str, int | None] = dict.fromkeys((*SUM_COLUMNS, *BACKEND_COLUMNS))
    return UsageRow(start, key, {**empty, **sums}, part=part)


_COUNTS = ("workflows", "preemptions")
"""What is no time of GPUs."""


def add_up(start: datetime, rows: Iterable[UsageRow]) -> UsageRow:
    """The sums of whole GPUs, and the work of all rows."""
    sums: dict[str, int] = dict.fromkeys(WORK_COLUMNS, 0)
    for row in rows:
        for column, value in row.sums.items():
            if value is not None and (not row.part or column in _COUNTS):
                sums[column] = sums.get(column, 0) + value
    return make_row(start, None, sums)


def flavor_column_sql(question: UsageQuestion, values: dict[str, Any], flavor: str) -> str:
    """SQL of the column `flavor` of entries, where the rows need it."""
    return f"{flavor} AS flavor," if question.by is UsageKey.FLAVOR or values["part_backends"] else ""


def part_sql(values: dict[str, Any], table: str = "entry") -> str:
    """SQL of the flavor of an entry, or of another table with a backend and a flavor, that counts parts of shared GPUs;
    empty for whole GPUs."""
    if not values["part_backends"]:
        return "''"
    is_part = counts_parts(f"{table}.backend_id", f"{table}.flavor", f"{table}.hour")
    return f"CASE WHEN {is_part} THEN {table}.flavor ELSE '' END"
