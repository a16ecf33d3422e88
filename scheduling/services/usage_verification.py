"""Verification of the record of use: its spans are those of the audit trail, and its hourly sums are those that the
attempts, quotas and nodes give, and its daily sums are those of the hours."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from pools.database.statements import execute_sql
from pools.services.changes.verify import LedgerDifference
from scheduling.models import LateUsage, UsageProgress
from scheduling.selectors.usage.answers import HOUR, start_of_day, start_of_hour
from scheduling.selectors.usage.computed_sums import (
    COMPUTE,
    EVERY_LEAF,
    OWN_ROWS,
    SPAN_COLUMNS,
    SPANS_FROM_AUDIT,
    SUMS_OF_DAYS,
    SUMS_OF_POOLS,
    WORK_COLUMNS,
)
from scheduling.selectors.usage.parts import part_values, read_part_times

WINDOW = timedelta(days=2)
"""The newest closed hours, which are computed again; older hours no longer change."""

_SUMS = {
    "scheduling_backendusagehour": ("new_backend", "hour, backend_id, flavor, capacity, offline, unallocated"),
    "scheduling_leafusagehour": ("new_leaf", "hour, backend_id, leaf_id, flavor, quota, idle, lent"),
    "scheduling_workusagehour": (
        "new_work",
        f"hour, backend_id, leaf_id, flavor, user_id, priority, {', '.join(WORK_COLUMNS)}",
    ),
}
_REPAIR = "osmo-admin usage rebuild computes the record again"


def find_usage_differences(now: datetime) -> Iterator[LedgerDifference]:
    """The differences of the record of use, in the snapshot of the caller."""
    yield from _find_span_differences(now)
    yield from _find_sum_differences(now)


def _find_span_differences(now: datetime) -> Iterator[LedgerDifference]:
    oldest = start_of_hour(now - timedelta(days=settings.OSMO.usage_retention_days))
    for table, source in SPANS_FROM_AUDIT.items():
        columns = SPAN_COLUMNS[table]
        kept = f"SELECT {columns} FROM {table} WHERE {OWN_ROWS[table]} AND (until IS NULL OR until >= %(oldest)s)"
        truth = f"SELECT {columns} FROM ({source}) span WHERE until IS NULL OR until >= %(oldest)s"
        wrong, missing = execute_sql(
            f"SELECT (SELECT count(*) FROM ({kept} EXCEPT {truth}) wrong),"
            f" (SELECT count(*) FROM ({truth} EXCEPT {kept}) missing)",
            {"oldest": oldest},
        ).fetchone()
        if wrong or missing:
            yield LedgerDifference(
                "usage",
                f"{table}: {wrong} rows are not in the audit trail, and {missing} of its rows are missing; {_REPAIR}.",
            )


def _find_sum_differences(now: datetime) -> Iterator[LedgerDifference]:
    closed = UsageProgress.objects.filter(pk=1).values_list("closed_until", flat=True).first()
    late = LateUsage.objects.order_by("since").values_list("since", flat=True).first()
    if closed is None:
        return
    until = closed if late is None else min(closed, start_of_hour(late))
    begin = start_of_hour(now - WINDOW)
    hours = [begin + number * HOUR for number in range(max(0, (until - begin) // HOUR))]
    if not hours:
        return
    window = {"begin": begin, "end": until}
    slots = {"begins": hours, "ends": [hour + HOUR for hour in hours]}
    values = EVERY_LEAF | part_values(read_part_times()) | window | slots
    for table, (source, columns) in _SUMS.items():
        stored = f"SELECT {columns} FROM {table} WHERE hour >= %(begin)s AND hour < %(end)s"
        yield from _compare(table, f"WITH {COMPUTE}", stored, f"SELECT {columns} FROM {source}", values)
    of_pools = (
        "SELECT hour, backend_id, pool_id, flavor, quota, idle, lent FROM scheduling_poolusagehour"
        " WHERE hour >= %(begin)s AND hour < %(end)s"
    )
    yield from _compare("scheduling_poolusagehour", "WITH", of_pools, SUMS_OF_POOLS, window)
    days = {"begin": start_of_day(begin), "end": start_of_day(until)}
    for table, (columns, source) in SUMS_OF_DAYS.items():
        stored = f"SELECT {columns} FROM {table} WHERE day >= %(begin)s AND day < %(end)s"
        yield from _compare(table, "WITH", stored, source, days)


def _compare(table: str, begin: str, stored: str, computed: str, values: dict[str, Any]) -> Iterator[LedgerDifference]:
    """The sums of a table, whose first column is their time, with the computed ones. `begin` is the beginning of the
    statement with the common table expressions of `computed`."""
    more = "," if begin != "WITH" else ""
    count, first = execute_sql(
        f"""
        {begin}{more} stored AS ({stored}), computed AS ({computed}),
        different (time) AS (
            (SELECT * FROM stored EXCEPT SELECT * FROM computed)
            UNION (SELECT * FROM computed EXCEPT SELECT * FROM stored)
        )
        SELECT count(*), min(time) FROM different
        """,
        values,
    ).fetchone()
    if count:
        yield LedgerDifference(
            "usage", f"{table}: {count} sums since {first:%Y-%m-%d %H:%M} UTC differ from a recount; {_REPAIR}."
        )
