"""The sums of work, quotas and capacity by key: stored hours and days, and the hours that are computed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pools.database.statements import execute_sql
from scheduling.domain.lists import Bucket, UsageKey
from scheduling.selectors.usage.answers import BACKEND_COLUMNS, SUM_COLUMNS, UsageQuestion, UsageRow
from scheduling.selectors.usage.computed_sums import COMPUTE, WORK_COLUMNS
from scheduling.selectors.usage.rows import (
    JOINS,
    VISIBLE,
    WAIT_KEYS,
    WITH_CAPACITY,
    RowKey,
    Rows,
    Slots,
    Sums,
    is_of_work_only,
    make_row,
    part_sql,
    start_second_sql,
    with_part,
)

_NO_QUOTA = "NULL::bigint AS quota, NULL::bigint AS idle, NULL::bigint AS lent"
_NO_WORK = ", ".join(f"NULL::bigint AS {column}" for column in WORK_COLUMNS)
_STORED = "hour >= %(stored_from)s AND hour < %(stored_until)s"
_STORED_BESIDE_DAYS = """
    (hour >= %(stored_from)s AND hour < %(days_from)s OR hour >= %(days_until)s AND hour < %(stored_until)s
        OR hour >= %(joined)s AND hour < %(joined)s::timestamptz + interval '1 day' AND hour >= %(days_from)s
            AND hour < %(days_until)s
        OR hour = ANY(%(hours_of_changed_days)s))
"""
_DAYS = """
    day >= %(days_from)s AND day < %(days_until)s AND day IS DISTINCT FROM %(joined)s
    AND day <> ALL(%(hours_of_changed_days)s)
"""
_WORK = f"hour, backend_id, leaf_id, flavor, user_id, priority, {', '.join(WORK_COLUMNS)}, {_NO_QUOTA}"
_LEAF = f"hour, backend_id, leaf_id, flavor, NULL::bigint AS user_id, NULL AS priority, {_NO_WORK}, quota, idle, lent"
_POOL = _LEAF.replace("leaf_id", "pool_id")

# What `VISIBLE` says of leaves, before they are joined: most readers and most filters want few of them.
_FEW_LEAVES = """
    (%(sees_all)s OR user_id = %(me)s OR leaf_id IN (
        SELECT leaf.id FROM pools_pool leaf JOIN pools_pool root ON root.id = COALESCE(leaf.parent_id, leaf.id)
        WHERE root.name = ANY(%(visible)s)))
    AND (NOT %(has_pools)s OR leaf_id IN (SELECT id FROM pools_pool WHERE name = ANY(%(pools)s)))
"""


def entries_sql(slots: Slots, *, by_day: bool = False, by_leaf: bool = False) -> str:
    """SQL of the sums of work and of quotas, as the CTE `entry`, and of backends, as the CTE `capacity`; with `by_day`
    full days are one `hour`; without `by_leaf` the quotas of a pool are one `leaf_id`, the pool itself."""
    quotas, columns_of_quotas = ("leafusage", _LEAF) if by_leaf else ("poolusage", _POOL)
    columns = ", ".join(BACKEND_COLUMNS)
    is_split = by_day and slots.days_from < slots.days_until
    stored = _STORED_BESIDE_DAYS if is_split else _STORED
    entries = [
        f"SELECT {_WORK} FROM scheduling_workusagehour WHERE {stored}",
        f"SELECT {columns_of_quotas} FROM scheduling_{quotas}hour WHERE {stored}",
    ]
    capacities = [f"SELECT hour, backend_id, flavor, {columns} FROM scheduling_backendusagehour WHERE {stored}"]
    if is_split:
        entries += [
            f"SELECT {_WORK} FROM (SELECT *, day AS hour FROM scheduling_workusageday WHERE {_DAYS}) work",
            f"SELECT {columns_of_quotas} FROM (SELECT *, day AS hour FROM scheduling_{quotas}day WHERE {_DAYS}) quota",
        ]
        capacities.append(f"SELECT day, backend_id, flavor, {columns} FROM scheduling_backendusageday WHERE {_DAYS}")
    if slots.computed:
        entries += [f"SELECT {_WORK} FROM new_work", f"SELECT {_LEAF} FROM new_leaf"]
        capacities.append(f"SELECT hour, backend_id, flavor, {columns} FROM new_backend")
    computed = f"{COMPUTE}," if slots.computed else ""
    return f"WITH {computed} entry AS ({' UNION ALL '.join(entries)}), capacity AS ({' UNION ALL '.join(capacities)})"


def read_sums(
    questions: Sequence[UsageQuestion], slots: Slots, values: dict[str, Any], *, sees_capacity: bool, by_leaf: bool
) -> list[tuple[Rows, dict[RowKey, Sums]]]:
    """For each question its rows of work and quotas (none by workflow), and the capacities by start and backend, or
    flavor."""
    kinds = [(at, question) for at, question in enumerate(questions) if question.by is not UsageKey.WORKFLOW]
    keys = "".join(f", {WAIT_KEYS[question.by]} AS key_{at}" for at, question in kinds)
    summed = ", ".join(f"sum({column})::bigint" for column in SUM_COLUMNS)
    capacities = ", ".join(f"sum(capacity.{column})::bigint" for column in BACKEND_COLUMNS)
    part = part_sql(values)
    source = f"(SELECT entry.*, {part} AS part FROM entry WHERE {_FEW_LEAVES})"
    by_day = all(question.bucket is not Bucket.HOUR for question in questions)
    if values["sees_all"] and by_day:
        # Fewer rows to join. What other readers see of their own work depends on the hour.
        totals = ", ".join(f"sum({column})::bigint AS {column}" for column in SUM_COLUMNS)
        source = f"""(
            SELECT date_trunc('day', hour, 'UTC') AS hour, backend_id, leaf_id, flavor, user_id, priority,
                {part} AS part, {totals}
            FROM entry WHERE {_FEW_LEAVES} GROUP BY 1, 2, 3, 4, 5, 6, 7
        )"""
    nothing = ", ".join("NULL::bigint" for _ in SUM_COLUMNS[len(BACKEND_COLUMNS) :])
    parts = [
        f"""
        SELECT {at}, false, {start_second_sql(question, "hour")}, key_{at}, part, {summed} FROM visible
        {"WHERE user_id IS NOT NULL" if is_of_work_only(question) else ""} GROUP BY 3, 4, 5
        """
        for at, question in kinds
    ]
    if sees_capacity:
        parts += [
            f"""
            SELECT {at}, true, {start_second_sql(question, "capacity.hour")},
                {"capacity.flavor" if question.by is UsageKey.FLAVOR else "backend.name"},
                {part_sql(values, "capacity")}, {capacities}, {nothing}
            FROM capacity LEFT JOIN pools_backend backend ON backend.id = capacity.backend_id GROUP BY 3, 4, 5
            """
            for at, question in enumerate(questions)
        ]
    found: list[tuple[Rows, dict[RowKey, Sums]]] = [({}, {}) for _ in questions]
    if not parts:
        return found
    sums_of_keys = execute_sql(
        f"""
        {entries_sql(slots, by_day=by_day, by_leaf=by_leaf)}, visible AS (
            SELECT entry.hour, entry.user_id, entry.part,
                {", ".join(f"entry.{column}" for column in SUM_COLUMNS)}{keys}
            FROM {source} entry {JOINS} WHERE {VISIBLE}
        )
        {" UNION ALL ".join(parts)}
        """,
        values,
    )
    starts: dict[int, datetime] = {}
    for at, is_capacity, second, subject, part, *sums in sums_of_keys:
        rows, capacity = found[at]
        key = with_part(questions[at], subject, part)
        start = starts.get(second) or starts.setdefault(second, datetime.fromtimestamp(second, UTC))
        if is_capacity:
            capacity[start, key, part] = dict(zip(BACKEND_COLUMNS, sums, strict=False))
            continue
        if key is None and questions[at].by is UsageKey.FLAVOR and not any(sums):
            continue  # work that did not wait
        of_work_only = is_of_work_only(questions[at])
        counted = WORK_COLUMNS if of_work_only else SUM_COLUMNS
        named = dict(zip(SUM_COLUMNS, sums, strict=True))
        rows[start, key, part] = make_row(start, key, {column: named[column] or 0 for column in counted}, part)
    return found


def add_capacity(question: UsageQuestion, capacities: dict[RowKey, Sums], rows: Rows, totals: UsageRow) -> None:
    """The capacity of backends, what was offline and what nobody used: in rows by backend or flavor, and in the
    totals."""
    totals.sums |= dict.fromkeys(BACKEND_COLUMNS, 0)
    for (start, name, part), found in capacities.items():
        for column, value in found.items():
            if not part:
                totals.sums[column] = (totals.sums[column] or 0) + value
        if question.by in WITH_CAPACITY:
            zero = dict.fromkeys(SUM_COLUMNS, 0)
            rows.setdefault((start, name, part), make_row(start, name, zero, part)).sums.update(found)
