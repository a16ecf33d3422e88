"""How long work waited, and what it lost, by the keys of the record of use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pools.database.statements import execute_sql
from scheduling.selectors.usage.answers import SUM_COLUMNS, LostShare, UsageQuestion, UsageRow
from scheduling.selectors.usage.computed_sums import FLAVOR, WORK_COLUMNS
from scheduling.selectors.usage.rows import (
    JOINS,
    VISIBLE,
    WAIT_KEYS,
    Rows,
    flavor_column_sql,
    is_of_work_only,
    make_row,
    part_sql,
    with_part,
)

_FLAVOR_OF_START = f"""(
    SELECT {FLAVOR} FROM scheduling_task task
    WHERE task.group_id = wait.group_id AND task.start_time = wait.until AND task.gpu_count > 0
    ORDER BY task.position LIMIT 1
)"""
_FLAVOR_OF_RECEIPT = f"(SELECT {FLAVOR} FROM scheduling_task task WHERE task.uuid = receipt.task_id)"
_SEES_TAKER = "%(sees_all)s OR taker_root.name = ANY(%(visible)s) OR entry.taker_user_id = %(me)s"


def add_waits(
    question: UsageQuestion,
    values: dict[str, Any],
    rows: Rows,
    totals: UsageRow,
) -> None:
    """The median and the 90th percentile of the waits that ended with a start in each row, and in all rows."""
    found = execute_sql(
        f"""
        WITH entry AS (
            SELECT work.name, work.pool_id AS leaf_id, root.backend_id, work.submitted_by_id AS user_id,
                {flavor_column_sql(question, values, _FLAVOR_OF_START)} work.priority, wait.until AS hour,
                extract(epoch FROM wait.until - wait.since)::float AS seconds
            FROM scheduling_waitspan wait JOIN scheduling_workflow work ON work.uuid = wait.workflow_id
            JOIN pools_pool root ON root.id = work.root_pool_id
            WHERE wait.started AND wait.until >= %(since)s AND wait.until < %(until)s
        ), visible AS (
            SELECT date_trunc('{question.bucket}', entry.hour, 'UTC') AS start,
                {WAIT_KEYS[question.by]} AS key, {part_sql(values)} AS part, seconds
            FROM entry {JOINS} WHERE {VISIBLE}
        )
        SELECT grouping(start), start, key, part, percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY seconds)
        FROM visible GROUP BY GROUPING SETS ((start, key, part), ())
        """,
        values,
    )
    for is_total, start, key, part, percentiles in found:
        row = totals if is_total else rows.get((start, with_part(question, key, part), part))
        if row is not None and percentiles is not None:
            row.wait_p50, row.wait_p90 = percentiles


def _lost(flavor: str = "") -> str:
    """SQL of the receipts of the window; their sums are what was lost, in the whole and in every part."""
    return f"""
    entry AS (
        SELECT work.name, work.pool_id AS leaf_id, why.backend_id, work.submitted_by_id AS user_id, work.priority,
            {flavor} why.time AS hour, why.cause, taker.pool_id AS taker_leaf_id,
            taker.submitted_by_id AS taker_user_id, receipt.lost_gpu_ms AS lost
        FROM scheduling_interruption why JOIN scheduling_receipt receipt ON receipt.interruption_id = why.id
        JOIN scheduling_workflow work ON work.uuid = why.workflow_id
        LEFT JOIN scheduling_workflow taker ON taker.uuid = why.for_workflow_id
        WHERE why.time >= %(since)s AND why.time < %(until)s
    )
    """


def add_lost(
    question: UsageQuestion,
    values: dict[str, Any],
    rows: Rows,
    totals: UsageRow,
) -> None:
    """What was lost, in each row and in all. A row that has nothing else is added."""
    found = execute_sql(
        f"""
        WITH {_lost(flavor_column_sql(question, values, _FLAVOR_OF_RECEIPT))}, visible AS (
            SELECT date_trunc('{question.bucket}', entry.hour, 'UTC') AS start,
                {WAIT_KEYS[question.by]} AS key, {part_sql(values)} AS part, lost
            FROM entry {JOINS} WHERE {VISIBLE}
        )
        SELECT start, key, part, sum(lost)::bigint FROM visible GROUP BY start, key, part
        """,
        values,
    )
    for start, subject, part, lost in found:
        counted = WORK_COLUMNS if is_of_work_only(question) else SUM_COLUMNS
        key = with_part(question, subject, part)
        row = rows.setdefault((start, key, part), make_row(start, key, dict.fromkeys(counted, 0), part))
        row.lost += lost
        totals.lost += 0 if part else lost


def read_losses(values: dict[str, Any]) -> Iterator[LostShare]:
    """What was lost by pool, cause and taker. Only those who may see its work see the pool of the taker."""
    rows = execute_sql(
        f"""
        WITH {_lost(f"{_FLAVOR_OF_RECEIPT} AS flavor," if values["part_backends"] else "")}
        SELECT root.name, entry.cause,
            CASE WHEN {_SEES_TAKER} THEN COALESCE(taker_root.name, '') ELSE '' END AS taker,
            taker_root.id IS NOT NULL AND NOT ({_SEES_TAKER}) AS is_hidden,
            count(*), sum(lost)::bigint, {part_sql(values)}
        FROM entry {JOINS}
        LEFT JOIN pools_pool taker_leaf ON taker_leaf.id = entry.taker_leaf_id
        LEFT JOIN pools_pool taker_root ON taker_root.id = COALESCE(taker_leaf.parent_id, taker_leaf.id)
        WHERE {VISIBLE} GROUP BY 1, 2, 3, 4, 7 ORDER BY 6 DESC, 1, 2, 3, 4, 7
        """,
        values,
    )
    for each in rows:
        yield LostShare(*each)
