"""The record of use by workflow: its rows are not kept as hourly sums, so they are computed for every hour."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from pools.database.statements import execute_sql
from scheduling.domain.reason_codes import WaitCause
from scheduling.selectors.usage.answers import WAITING, UsageQuestion
from scheduling.selectors.usage.computed_sums import COMPUTE, EVERY_LEAF, WORK_COLUMNS
from scheduling.selectors.usage.rows import JOINS, VISIBLE, Rows, Slots, make_row, part_sql, with_part
from scheduling.selectors.usage.sums import entries_sql

MAX_WORKFLOW_WINDOW = timedelta(days=31)
"""The longest window by workflow: its rows are not kept as hourly sums."""

_Kind = tuple[datetime, int, str, bool]
"""An hour, a leaf, a GPU flavor, and whether the work is LOW."""

_WORKFLOW_COUNTS = (*WAITING, "workflows", "preemptions")


def read_by_workflow(question: UsageQuestion, slots: Slots, values: dict[str, Any]) -> Rows:
    """The work of each workflow. What its leaf held inside the quota of a flavor in an hour is shared by the workflows
    of the same kind (LOW, or HIGH and NORMAL) in proportion to their use, so the sums are those of the other keys."""
    inside: defaultdict[_Kind, int] = defaultdict(int)
    borrowed: defaultdict[_Kind, int] = defaultdict(int)
    rows = execute_sql(
        f"""
        {entries_sql(slots)}
        SELECT hour, leaf_id, flavor, priority = 'LOW', sum(guaranteed + low_inside)::bigint, sum(borrowed)::bigint
        FROM entry WHERE user_id IS NOT NULL GROUP BY 1, 2, 3, 4
        """,
        values,
    )
    for hour, leaf, flavor, is_low, kept, lent in rows:
        kind = hour, leaf, flavor, is_low
        inside[kind], borrowed[kind] = kept, lent
    every = slots.whole
    if not every:
        return {}
    whole = {
        "begins": [begin for begin, _ in every],
        "ends": [end for _, end in every],
        "begin": min(begin for begin, _ in every),
        "end": max(end for _, end in every),
    }
    causes = ", ".join(f"COALESCE(sum(waiting) FILTER (WHERE cause = '{cause}'), 0)::bigint" for cause in WaitCause)
    found = execute_sql(
        f"""
        WITH {COMPUTE}, amount AS (
            SELECT slot, workflow, flavor, gpus * (b - a) AS used, 0::bigint AS waiting, NULL AS cause, 0 AS start,
                0 AS lost
            FROM held WHERE b > a
            UNION ALL
            SELECT slot, workflow_id, flavor, 0, waiting, cause, 0, 0 FROM waited_piece
            UNION ALL
            SELECT slot, workflow_id, flavor, 0, 0, NULL, is_start::int, (NOT is_start)::int FROM counted_event
        ), entry AS (
            SELECT slot AS hour, work.name, work.pool_id AS leaf_id, root.backend_id, work.priority,
                work.submitted_by_id AS user_id, amount.flavor, sum(used)::bigint AS used, {causes},
                sum(amount.start)::bigint AS workflows, sum(lost)::bigint AS preemptions
            FROM amount JOIN scheduling_workflow work ON work.uuid = amount.workflow
            JOIN pools_pool root ON root.id = work.root_pool_id
            GROUP BY slot, work.uuid, root.backend_id, amount.flavor
        )
        SELECT entry.*, date_trunc('{question.bucket}', entry.hour, 'UTC'), {part_sql(values)}, {VISIBLE}
        FROM entry {JOINS} ORDER BY entry.hour, entry.name, entry.flavor
        """,
        values | EVERY_LEAF | whole,
    ).fetchall()
    return _share_out(question, found, inside, borrowed)


def _share_out(
    question: UsageQuestion,
    found: Sequence[Sequence[Any]],
    inside: dict[_Kind, int],
    borrowed: dict[_Kind, int],
) -> Rows:
    used_by: defaultdict[_Kind, int] = defaultdict(int)
    for hour, _, leaf, _, priority, _, flavor, used, *_ in found:
        used_by[hour, leaf, flavor, priority == "LOW"] += used
    before: defaultdict[_Kind, tuple[int, int]] = defaultdict(lambda: (0, 0))
    rows: Rows = {}
    for hour, name, leaf, _, priority, _, flavor, used, *counts, start, part, is_visible in found:
        kind = hour, leaf, flavor, priority == "LOW"
        upto, over_upto = before[kind]
        kept = _part(inside[kind], upto, used, used_by[kind])
        over = used - kept
        lent = _part(borrowed[kind], over_upto, over, used_by[kind] - inside[kind])
        before[kind] = upto + used, over_upto + over
        if not is_visible:
            continue
        named = with_part(question, name, part)
        row = rows.setdefault((start, named, part), make_row(start, named, dict.fromkeys(WORK_COLUMNS, 0), part))
        column = "low_inside" if priority == "LOW" else "guaranteed"
        for key, value in [
            (column, kept),
            ("over_quota", over),
            ("borrowed", lent),
            *zip(_WORKFLOW_COUNTS, counts, strict=True),
        ]:
            row.sums[key] = (row.sums[key] or 0) + value
    return {key: row for key, row in rows.items() if any(row.sums.values())}


def _part(total: int, upto: int, weight: int, whole: int) -> int:
    """The part of a total for a weight after `upto`; the parts of all weights add up to the total."""
    return total * (upto + weight) // whole - total * upto // whole if whole else 0
