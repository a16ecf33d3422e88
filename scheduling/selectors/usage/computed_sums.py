"""The sums of the record of use, computed from state changes in one statement.

For slots of time (hours, or parts of hours) the statement finds what was promised, held, lent and idle. All times are
whole milliseconds since 1970 and all sums are GPU-milliseconds, so they are exact and add up.

All of it is by GPU flavor: what is said of a leaf below is true of each flavor of it, and what is said of a backend of
each flavor of its nodes. Without flavors all GPUs are `default`.

Within a leaf, at each moment, with its quota q, the GPUs g of HIGH and NORMAL work and w of LOW work:

* guaranteed = min(g, q); all of g where the quota is unlimited or the subpool drains
* LOW inside the quota = min(w, q - guaranteed); all of w where the quota is unlimited
* over quota = the rest of g + w
* unused = q - guaranteed - LOW inside

Within a backend, at each moment, with the capacity C (at least what is held):

* GPUs that work holds in another flavor than that of their node count in the flavor of the work
* offline = GPUs of nodes that are away, as far as nothing holds them; free = C - held - offline
* borrowed = over quota, as far as it exceeds the online capacity that no quota claims
* idle quota = min(free, unused - borrowed); unallocated = free - idle quota

Most leaves of a large installation are quiet in a slot: they hold no work, and their quota does not change. Their sums
are products, and need no walk through their moments.

Within one slot, borrowed GPU-time is lent by the leaves in proportion to their unused quota, and belongs to work over
quota in proportion. Remainders of the division are spread by running totals, so every sum is exact. The leaves of a
pool follow each other in these totals. So the quiet subpools of a pool may count as one leaf, with the pool's negative
number, and the sums of the pool do not change by a millisecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pools.domain.values.amounts import DEFAULT_FLAVOR
from scheduling.domain.reason_codes import WaitCause
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES
from scheduling.models.usage_triggers import OPEN_QUOTA
from scheduling.selectors.usage.parts import counts_parts

_ACTIVE = ", ".join(f"'{status}'" for status in sorted(ACTIVE_WORKFLOW_STATUSES))


def _ms(column: str) -> str:
    return f"floor(extract(epoch FROM {column}) * 1000)::bigint"


_NEVER = 2**62
_SPAN = f"{_ms('since')} AS a, COALESCE({_ms('until')}, {_NEVER}) AS b"
_IS_WHOLE = "(since <= %(begin)s AND (until IS NULL OR until >= %(end)s))"
_IN_WINDOW = "since < %(end)s AND (until IS NULL OR until > %(begin)s)"

# Subpools without work whose quota does not change are one leaf, except in pools of which each subpool is wanted.
_IS_TOGETHER = f"""
    ({_IS_WHOLE} AND pool_id NOT IN (SELECT leaf FROM held) AND parent_id IN (SELECT pool_id FROM whole_root))
"""
EVERY_LEAF: dict[str, Any] = {"may_join_leaves": False, "detailed": []}
"""Parameters for the sums of each leaf."""


def _share(total: str, weight: str, partition: str, order: str) -> str:
    """The part of `total` for a row with this weight; the parts of a partition add up to the total."""
    upto = f"sum({weight}) OVER (PARTITION BY {partition} ORDER BY {order} ROWS UNBOUNDED PRECEDING)"
    whole = f"NULLIF(sum({weight}) OVER (PARTITION BY {partition}), 0)"
    return f"COALESCE(div({total} * {upto}, {whole}) - div({total} * ({upto} - {weight}), {whole}), 0)::bigint"


_CAUSES = ", ".join(
    f"COALESCE(sum(waiting) FILTER (WHERE cause = '{cause}'), 0)::bigint AS waiting_{cause}" for cause in WaitCause
)
_CAUSE_COLUMNS = [f"waiting_{cause}" for cause in WaitCause]
_ZERO_CAUSES = ", ".join(f"0::bigint AS {column}" for column in _CAUSE_COLUMNS)
_HELD_COLUMNS = ["guaranteed", "low_inside", "over_quota", "borrowed"]
_ZERO_HELD = ", ".join(f"0::bigint AS {column}" for column in _HELD_COLUMNS)

FLAVOR = f"COALESCE(NULLIF(task.flavor, ''), '{DEFAULT_FLAVOR}')"
"""SQL: the flavor in which an attempt counts; it is empty in a pool without flavors."""


# Of a gang in a pool with several flavors: the only one that its tasks name, else the one that it prefers if all that
# it may use count parts of shared GPUs, else none. Tasks, quotas and the audit trail say so, and the sums of a closed
# hour stay as they are.
_FLAVOR_OF_WAIT = f"""
    SELECT COALESCE(
        (
            SELECT min(named)::jsonb ->> 0 FROM (
                SELECT task.gpu_flavors::text AS named FROM scheduling_task task
                WHERE task.group_id = piece.group_id AND task.gpu_count > 0
            ) task
            HAVING min(named) = max(named) AND jsonb_array_length(min(named)::jsonb) = 1
        ),
        (
            SELECT (array_agg(flavor ORDER BY place, flavor))[1] FROM (
                SELECT permitted.flavor, min(permitted.place) AS place
                FROM (
                    SELECT DISTINCT gpu_flavors FROM scheduling_task
                    WHERE group_id = piece.group_id AND gpu_count > 0 AND cardinality(%(part_backends)s::bigint[]) > 0
                ) task CROSS JOIN LATERAL (
                    SELECT * FROM jsonb_array_elements_text(task.gpu_flavors) WITH ORDINALITY AS named (flavor, place)
                    UNION ALL
                    SELECT * FROM unnest(pool_flavor.flavors) WITH ORDINALITY AS own (flavor, place)
                    WHERE task.gpu_flavors = '[]'
                ) permitted
                GROUP BY permitted.flavor
            ) permitted
            HAVING bool_and({counts_parts("root.backend_id", "permitted.flavor", "piece.slot")})
        ),
        ''
    ) AS flavor
"""

# A workflow starts in the flavor of its first attempt. Without flavors nothing is read.
_EVENT_FLAVOR = f"""COALESCE(event.flavor, CASE
    WHEN NOT event.is_start OR COALESCE(pool_flavor.flavor, '{DEFAULT_FLAVOR}') = '{DEFAULT_FLAVOR}'
        THEN '{DEFAULT_FLAVOR}'
    ELSE COALESCE((
        SELECT {FLAVOR} FROM scheduling_group part JOIN scheduling_task task ON task.group_id = part.uuid
        WHERE part.workflow_id = work.uuid AND task.start_time = work.start_time AND task.gpu_count > 0
        ORDER BY part.position, task.position LIMIT 1
    ), '') END)"""

WORK_COLUMNS = [*_HELD_COLUMNS, *_CAUSE_COLUMNS, "workflows", "preemptions"]

COMPUTE = f"""
slot AS (
    SELECT begins AS slot, {_ms("begins")} AS a, {_ms("ends")} AS b
    FROM unnest(%(begins)s::timestamptz[], %(ends)s::timestamptz[]) AS given (begins, ends)
),
root_span AS MATERIALIZED (
    SELECT id, pool_id, backend_id, flavor, quota, is_unlimited, {_IS_WHOLE} AS is_whole, {_SPAN}
    FROM scheduling_quotaspan WHERE {_IN_WINDOW} AND parent_id IS NULL
),
root_time AS MATERIALIZED (SELECT DISTINCT pool_id, backend_id, is_whole, a, b FROM root_span),
attempt AS MATERIALIZED (
    SELECT task.gpu_count, task.group_id, {FLAVOR} AS flavor, task.node_name, {_ms("task.start_time")} AS a,
        {_NEVER} AS b
    FROM scheduling_task task
    WHERE task.status = 'RUNNING' AND task.gpu_count > 0 AND task.start_time < %(end)s AND task.end_time IS NULL
    UNION ALL
    SELECT task.gpu_count, task.group_id, {FLAVOR}, task.node_name, {_ms("task.start_time")}, {_ms("task.end_time")}
    FROM scheduling_task task
    WHERE task.end_time > %(begin)s AND task.gpu_count > 0 AND task.start_time < %(end)s
),
held AS MATERIALIZED (
    SELECT slot.slot, COALESCE(span.backend_id, root.backend_id) AS backend, work.root_pool_id AS pool,
        work.pool_id AS leaf, work.submitted_by_id AS holder, work.priority, work.uuid AS workflow,
        attempt.gpu_count AS gpus, attempt.flavor, attempt.node_name,
        GREATEST(attempt.a, slot.a) AS a, LEAST(attempt.b, slot.b) AS b
    FROM attempt
    JOIN scheduling_group part ON part.uuid = attempt.group_id
    JOIN scheduling_workflow work ON work.uuid = part.workflow_id
    JOIN pools_pool root ON root.id = work.root_pool_id
    JOIN slot ON slot.a < attempt.b AND attempt.a < slot.b
    LEFT JOIN root_time span ON span.pool_id = work.root_pool_id AND span.a <= attempt.a AND attempt.a < span.b
),
whole_root AS MATERIALIZED (
    SELECT pool_id, backend_id FROM root_time WHERE is_whole AND %(may_join_leaves)s
        AND pool_id NOT IN (SELECT COALESCE(parent_id, id) FROM pools_pool WHERE name = ANY(%(detailed)s))
),
together AS MATERIALIZED (
    SELECT root.backend_id, root.pool_id, part.flavor, part.quota
    FROM (
        SELECT parent_id, flavor, sum(quota)::bigint AS quota FROM scheduling_quotaspan
        WHERE parent_id IS NOT NULL AND {_IS_TOGETHER} GROUP BY parent_id, flavor
    ) part
    JOIN whole_root root ON root.pool_id = part.parent_id
),
subpool_span AS MATERIALIZED (
    SELECT root.backend_id, part.pool_id, part.parent_id, part.flavor, part.quota, part.is_draining,
        GREATEST(part.a, root.a) AS a, LEAST(part.b, root.b) AS b
    FROM (
        SELECT pool_id, parent_id, flavor, quota, is_draining, {_SPAN} FROM scheduling_quotaspan
        WHERE {_IN_WINDOW} AND parent_id IS NOT NULL AND NOT {_IS_TOGETHER}
    ) part
    JOIN root_time root ON root.pool_id = part.parent_id AND root.a < part.b AND part.a < root.b
),
leaf_part AS MATERIALIZED (
    SELECT slot.slot, backend_id AS backend, pool_id AS pool, pool_id AS leaf, flavor, quota AS q,
        is_unlimited::int AS u, 0 AS d, GREATEST(span.a, slot.a) AS a, LEAST(span.b, slot.b) AS b
    FROM root_span span JOIN slot ON slot.a < span.b AND span.a < slot.b
    UNION ALL
    SELECT slot.slot, backend_id, parent_id, pool_id, flavor, quota, 0, is_draining::int, GREATEST(part.a, slot.a),
        LEAST(part.b, slot.b)
    FROM subpool_span part JOIN slot ON slot.a < part.b AND part.a < slot.b
    UNION ALL
    SELECT slot.slot, backend_id, parent_id, parent_id, flavor, -quota, 0, 0, GREATEST(part.a, slot.a),
        LEAST(part.b, slot.b)
    FROM subpool_span part JOIN slot ON slot.a < part.b AND part.a < slot.b WHERE quota > 0
    UNION ALL
    SELECT slot.slot, backend_id, pool_id, pool_id, flavor, -quota, 0, 0, slot.a, slot.b
    FROM together CROSS JOIN slot WHERE quota > 0
),
quiet_leaf AS MATERIALIZED (
    SELECT slot, backend, pool, leaf, flavor, GREATEST(sum(q)::bigint, 0) AS q, min(a) AS a, min(b) AS b
    FROM leaf_part part
    WHERE NOT EXISTS (
        SELECT FROM held WHERE (held.slot, held.backend, held.leaf, held.flavor)
            = (part.slot, part.backend, part.leaf, part.flavor)
    )
    GROUP BY slot, backend, pool, leaf, flavor HAVING min(a) = max(a) AND min(b) = max(b)
    UNION ALL
    SELECT slot.slot, backend_id, pool_id, -pool_id, flavor, quota, slot.a, slot.b FROM together CROSS JOIN slot
),
leaf_piece AS (
    SELECT slot, backend, pool, leaf, flavor, q, u, d, 0 AS g, 0 AS w, a, b FROM leaf_part part
    WHERE NOT EXISTS (
        SELECT FROM quiet_leaf AS quiet
        WHERE (quiet.slot, quiet.backend, quiet.leaf, quiet.flavor)
            = (part.slot, part.backend, part.leaf, part.flavor)
    )
    UNION ALL
    SELECT slot, backend, pool, leaf, flavor, 0, 0, 0, CASE WHEN priority = 'LOW' THEN 0 ELSE gpus END,
        CASE WHEN priority = 'LOW' THEN gpus ELSE 0 END, a, b
    FROM held
),
leaf_event AS (
    SELECT slot, backend, pool, leaf, flavor, at, sum(q) AS q, sum(u) AS u, sum(d) AS d, sum(g) AS g, sum(w) AS w
    FROM (
        SELECT slot, backend, pool, leaf, flavor, a AS at, q, u, d, g, w FROM leaf_piece WHERE b > a
        UNION ALL
        SELECT slot, backend, pool, leaf, flavor, b, -q, -u, -d, -g, -w FROM leaf_piece WHERE b > a
    ) change
    GROUP BY slot, backend, pool, leaf, flavor, at
),
leaf_sum AS (
    SELECT slot, backend, pool, leaf, flavor, at, COALESCE(lead(at) OVER leaf_time - at, 0) AS ms,
        GREATEST(sum(q) OVER leaf_time, 0) AS q, sum(u) OVER leaf_time AS u, sum(d) OVER leaf_time AS d,
        sum(g) OVER leaf_time AS g, sum(w) OVER leaf_time AS w
    FROM leaf_event WINDOW leaf_time AS (PARTITION BY slot, backend, flavor, leaf ORDER BY at)
),
leaf_guaranteed AS (
    SELECT *, CASE WHEN u > 0 OR d > 0 THEN g ELSE LEAST(g, q) END AS guaranteed FROM leaf_sum
),
leaf_inside AS (
    SELECT *, CASE WHEN u > 0 THEN w ELSE LEAST(w, GREATEST(q - guaranteed, 0)) END AS inside FROM leaf_guaranteed
),
leaf_state AS MATERIALIZED (
    SELECT *, g + w - guaranteed - inside AS over, GREATEST(q - guaranteed - inside, 0) AS unused FROM leaf_inside
),
leaf_total AS MATERIALIZED (
    SELECT slot, backend, pool, leaf, flavor, sum(q * ms) AS quota, sum(g * ms) AS high, sum(w * ms) AS low,
        sum(guaranteed * ms) AS guaranteed, sum(inside * ms) AS inside, sum(over * ms) AS over,
        sum(unused * ms) AS unused
    FROM leaf_state GROUP BY slot, backend, pool, leaf, flavor
    UNION ALL
    SELECT slot, backend, pool, leaf, flavor, q * (b - a), 0, 0, 0, 0, 0, q * (b - a) FROM quiet_leaf
),
node_range AS (
    SELECT node_id, backend_id, flavor, gpus, GREATEST(a, (SELECT min(a) FROM slot)) AS a,
        LEAST(b, (SELECT max(b) FROM slot)) AS b
    FROM (SELECT node_id, backend_id, flavor, gpus, {_SPAN} FROM scheduling_nodespan WHERE {_IN_WINDOW}) span
),
away AS (
    SELECT backend_id, node_id, range_agg(int8range(a, b)) AS times
    FROM (SELECT backend_id, node_id, {_SPAN} FROM scheduling_offlinespan WHERE {_IN_WINDOW}) span
    WHERE b > a GROUP BY backend_id, node_id
),
node_away AS (
    SELECT node.backend_id, node.flavor, node.gpus, int8multirange(int8range(node.a, node.b))
        * (COALESCE(whole.times, int8multirange()) + COALESCE(own.times, int8multirange())) AS times
    FROM node_range node
    LEFT JOIN away whole ON whole.backend_id = node.backend_id AND whole.node_id IS NULL
    LEFT JOIN away own ON own.backend_id = node.backend_id AND own.node_id = node.node_id
    WHERE node.b > node.a AND (whole.times IS NOT NULL OR own.times IS NOT NULL)
),
moved AS MATERIALIZED (
    SELECT held.slot, held.backend, node.flavor AS of_node, held.flavor, held.gpus, GREATEST(held.a, node.a) AS a,
        LEAST(held.b, node.b) AS b
    FROM held
    JOIN pools_node AS known ON known.backend_id = held.backend AND known.name = held.node_name
    JOIN node_range node ON node.node_id = known.id AND node.flavor <> held.flavor AND node.a < held.b
        AND held.a < node.b
    WHERE EXISTS (SELECT FROM node_range WHERE flavor <> '{DEFAULT_FLAVOR}')
        OR EXISTS (SELECT FROM held WHERE flavor <> '{DEFAULT_FLAVOR}')
),
backend_piece AS (
    SELECT slot, backend, of_node AS flavor, -gpus AS c, 0::bigint AS o, a, b FROM moved
    UNION ALL
    SELECT slot, backend, flavor, gpus, 0, a, b FROM moved
    UNION ALL
    SELECT slot.slot, backend_id AS backend, flavor, gpus AS c, 0::bigint AS o, GREATEST(node.a, slot.a) AS a,
        LEAST(node.b, slot.b) AS b
    FROM node_range node JOIN slot ON slot.a < node.b AND node.a < slot.b
    UNION ALL
    SELECT slot.slot, backend_id, flavor, 0, gpus, GREATEST(lower(piece), slot.a), LEAST(upper(piece), slot.b)
    FROM node_away CROSS JOIN LATERAL unnest(times) AS piece
    JOIN slot ON slot.a < upper(piece) AND lower(piece) < slot.b
),
backend_event AS (
    SELECT slot, backend, flavor, at, sum(c) AS c, sum(o) AS o, sum(held) AS held, sum(over) AS over,
        sum(unused) AS unused
    FROM (
        SELECT slot, backend, flavor, a AS at, c, o, 0 AS held, 0 AS over, 0 AS unused FROM backend_piece WHERE b > a
        UNION ALL
        SELECT slot, backend, flavor, b, -c, -o, 0, 0, 0 FROM backend_piece WHERE b > a
        UNION ALL
        SELECT slot, backend, flavor, at, 0, 0, g + w - lag(g + w, 1, 0) OVER leaf_time,
            over - lag(over, 1, 0) OVER leaf_time, unused - lag(unused, 1, 0) OVER leaf_time
        FROM leaf_state WINDOW leaf_time AS (PARTITION BY slot, backend, flavor, leaf ORDER BY at)
        UNION ALL
        SELECT slot, backend, flavor, a, 0, 0, 0, 0, q FROM quiet_leaf WHERE b > a
        UNION ALL
        SELECT slot, backend, flavor, b, 0, 0, 0, 0, -q FROM quiet_leaf WHERE b > a
    ) change
    GROUP BY slot, backend, flavor, at
),
backend_sum AS (
    SELECT slot, backend, flavor, COALESCE(lead(at) OVER backend_time - at, 0) AS ms,
        sum(held) OVER backend_time AS held, GREATEST(sum(c) OVER backend_time, sum(held) OVER backend_time) AS c,
        sum(o) OVER backend_time AS o,
        sum(over) OVER backend_time AS over, sum(unused) OVER backend_time AS unused
    FROM backend_event WINDOW backend_time AS (PARTITION BY slot, backend, flavor ORDER BY at)
),
backend_offline AS (SELECT *, LEAST(o, c - held) AS away FROM backend_sum),
backend_borrowed AS (
    SELECT *, GREATEST(over - GREATEST(c - away - (held - over) - unused, 0), 0) AS borrowed FROM backend_offline
),
backend_state AS (SELECT *, LEAST(c - held - away, unused - borrowed) AS idle FROM backend_borrowed),
backend_total AS MATERIALIZED (
    SELECT slot, backend, flavor, sum(c * ms) AS capacity, sum(away * ms) AS offline, sum(borrowed * ms) AS borrowed,
        sum(idle * ms) AS idle, sum((c - held - away - idle) * ms) AS unallocated, sum(unused * ms) AS unused
    FROM backend_state GROUP BY slot, backend, flavor
),
leaf_lent AS (
    SELECT leaf.*, total.idle AS idle_total, total.idle + total.borrowed = total.unused AS is_all_idle,
        {
    _share("total.borrowed", "leaf.unused", "leaf.slot, leaf.backend, leaf.flavor", "leaf.pool, leaf.leaf")
} AS lent,
        {
    _share("total.borrowed", "leaf.over", "leaf.slot, leaf.backend, leaf.flavor", "leaf.pool, leaf.leaf")
} AS borrowed
    FROM leaf_total leaf JOIN backend_total total USING (slot, backend, flavor) WHERE total.borrowed > 0
    UNION ALL
    SELECT leaf.*, total.idle, total.idle = total.unused, 0, 0
    FROM leaf_total leaf JOIN backend_total total USING (slot, backend, flavor) WHERE total.borrowed = 0
),
leaf_hour AS MATERIALIZED (
    SELECT *, {_share("idle_total", "(unused - lent)", "slot, backend, flavor", "pool, leaf")} AS idle FROM leaf_lent
    WHERE idle_total > 0 AND NOT is_all_idle
    UNION ALL
    SELECT *, CASE WHEN is_all_idle THEN (unused - lent)::bigint ELSE 0 END FROM leaf_lent
    WHERE idle_total = 0 OR is_all_idle
),
holder AS (
    SELECT slot, backend, leaf, flavor, holder, priority, priority = 'LOW' AS is_low, sum(gpus * (b - a)) AS used
    FROM held WHERE b > a GROUP BY slot, backend, leaf, flavor, holder, priority
),
holder_inside AS (
    SELECT holder.*, leaf.borrowed AS leaf_borrowed,
        {
    _share(
        "CASE WHEN is_low THEN leaf.inside ELSE leaf.guaranteed END",
        "holder.used",
        "holder.slot, holder.backend, holder.flavor, holder.leaf, holder.is_low",
        "holder.holder, holder.priority",
    )
} AS inside
    FROM holder JOIN leaf_hour leaf USING (slot, backend, leaf, flavor)
),
holder_held AS (
    SELECT *, used - inside AS over,
        {_share("leaf_borrowed", "(used - inside)", "slot, backend, flavor, leaf", "holder, priority")} AS borrowed
    FROM holder_inside
),
wait AS (
    SELECT wait.*, work.pool_id AS leaf, work.root_pool_id AS pool, work.submitted_by_id AS holder, work.priority
    FROM (
        SELECT group_id, workflow_id, gpus, {_SPAN} FROM scheduling_waitspan
        WHERE until > %(begin)s AND since < %(end)s
    ) wait JOIN scheduling_workflow work ON work.uuid = wait.workflow_id
    UNION ALL
    SELECT part.uuid, part.workflow_id, part.gpus, {_ms("part.ready_at")}, {_NEVER}, work.pool_id, work.root_pool_id,
        work.submitted_by_id, work.priority
    FROM scheduling_workflow work JOIN scheduling_group part ON part.workflow_id = work.uuid
    WHERE work.status IN ({_ACTIVE}) AND part.start_time IS NULL AND part.end_time IS NULL AND part.ready_at < %(end)s
),
wait_piece AS (
    SELECT group_id, workflow_id, leaf, pool, holder, priority, gpus, cause, from_ms AS a,
        LEAST(COALESCE(lead(from_ms) OVER (PARTITION BY group_id, wait.a ORDER BY from_ms, place), wait.b), wait.b) AS b
    FROM wait CROSS JOIN LATERAL (
        SELECT '{WaitCause.ORDER}' AS cause, wait.a AS from_ms, 0 AS place
        UNION ALL
        SELECT cause, GREATEST({_ms("since")}, wait.a), id FROM scheduling_waitcausechange change
        WHERE change.group_id = wait.group_id AND {_ms("since")} >= wait.a AND {_ms("since")} < wait.b
    ) change
),
pool_flavor AS MATERIALIZED (
    SELECT slot, pool, CASE WHEN min(flavor) = max(flavor) THEN min(flavor) ELSE '' END AS flavor,
        array_agg(flavor ORDER BY place) AS flavors
    FROM (
        SELECT slot.slot, pool_id AS pool, flavor, max(span.id) AS place
        FROM root_span span JOIN slot ON slot.a < span.b AND span.a < slot.b GROUP BY slot.slot, pool_id, flavor
    ) own
    GROUP BY slot, pool
),
waited_piece AS (
    SELECT piece.slot, workflow_id, root.backend_id AS backend, leaf,
        COALESCE(NULLIF(pool_flavor.flavor, ''), named.flavor, '{DEFAULT_FLAVOR}') AS flavor, holder, priority, cause,
        waiting
    FROM (
        SELECT slot, workflow_id, group_id, leaf, pool, holder, priority, cause,
            gpus * (LEAST(piece.b, slot.b) - GREATEST(piece.a, slot.a)) AS waiting
        FROM wait_piece piece JOIN slot ON slot.a < piece.b AND piece.a < slot.b
    ) piece
    JOIN pools_pool root ON root.id = piece.pool
    LEFT JOIN pool_flavor USING (slot, pool)
    LEFT JOIN LATERAL ({_FLAVOR_OF_WAIT}) named ON pool_flavor.flavor = ''
),
waited AS (
    SELECT slot, backend, leaf, flavor, holder, priority, {_CAUSES} FROM waited_piece GROUP BY 1, 2, 3, 4, 5, 6
),
event AS (
    SELECT DISTINCT work.uuid, {_ms("work.start_time")} AS at, true AS is_start, NULL AS flavor
    FROM scheduling_waitspan wait JOIN scheduling_workflow work ON work.uuid = wait.workflow_id
    WHERE wait.started AND wait.until >= %(begin)s AND wait.until < %(end)s AND work.start_time = wait.until
    UNION ALL
    SELECT part.workflow_id, {_ms("task.end_time")}, false, max({FLAVOR}) FILTER (WHERE task.gpu_count > 0)
    FROM scheduling_task task JOIN scheduling_group part ON part.uuid = task.group_id
    WHERE task.status = 'FAILED_PREEMPTED' AND task.start_time IS NOT NULL
        AND task.end_time >= %(begin)s AND task.end_time < %(end)s
    GROUP BY part.workflow_id, part.uuid, task.end_time
),
counted_event AS (
    SELECT slot.slot, event.uuid AS workflow_id, root.backend_id AS backend, work.pool_id AS leaf,
        {_EVENT_FLAVOR} AS flavor, work.submitted_by_id AS holder, work.priority, event.is_start
    FROM event
    JOIN slot ON slot.a <= event.at AND event.at < slot.b
    JOIN scheduling_workflow work ON work.uuid = event.uuid
    JOIN pools_pool root ON root.id = work.root_pool_id
    LEFT JOIN pool_flavor ON pool_flavor.slot = slot.slot AND pool_flavor.pool = root.id
),
counted AS (
    SELECT slot, backend, leaf, flavor, holder, priority, count(*) FILTER (WHERE is_start) AS workflows,
        count(*) FILTER (WHERE NOT is_start) AS preemptions
    FROM counted_event GROUP BY 1, 2, 3, 4, 5, 6
),
new_backend AS (
    SELECT slot AS hour, backend AS backend_id, flavor, capacity::bigint, offline::bigint, unallocated::bigint
    FROM backend_total WHERE capacity > 0
),
new_leaf AS (
    SELECT slot AS hour, backend AS backend_id, abs(leaf) AS leaf_id, flavor, quota::bigint, idle, lent
    FROM leaf_hour WHERE quota > 0
),
new_work AS (
    SELECT slot AS hour, backend AS backend_id, leaf AS leaf_id, flavor, holder AS user_id, priority,
        {", ".join(f"sum({column})::bigint AS {column}" for column in WORK_COLUMNS)}
    FROM (
        SELECT slot, backend, leaf, flavor, holder, priority, CASE WHEN is_low THEN 0 ELSE inside END AS guaranteed,
            CASE WHEN is_low THEN inside ELSE 0 END AS low_inside, over AS over_quota, borrowed,
            {_ZERO_CAUSES}, 0::bigint AS workflows, 0::bigint AS preemptions
        FROM holder_held
        UNION ALL
        SELECT slot, backend, leaf, flavor, holder, priority, {_ZERO_HELD}, {
    ", ".join(_CAUSE_COLUMNS)
}, 0, 0 FROM waited
        UNION ALL
        SELECT slot, backend, leaf, flavor, holder, priority, {_ZERO_HELD}, {_ZERO_CAUSES}, workflows, preemptions
        FROM counted
    ) part
    GROUP BY slot, backend, leaf, flavor, holder, priority
)
"""
"""Common table expressions whose last three are `new_backend`, `new_leaf` and `new_work`, with the columns of the
models of hourly sums. Parameters: `begins` and `ends` of the slots, which do not overlap, the whole window from `begin`
to `end`, those of :func:`usage_parts.part_values`, and `may_join_leaves`: whether `new_leaf` may have one row for
several subpools of a pool, with the id of the pool, except in the pools of the leaves or pools named `detailed`."""

STORE = f"""
WITH {COMPUTE},
stored_backend AS (
    INSERT INTO scheduling_backendusagehour (hour, backend_id, flavor, capacity, offline, unallocated)
    SELECT hour, backend_id, flavor, capacity, offline, unallocated FROM new_backend
),
stored_leaf AS (
    INSERT INTO scheduling_leafusagehour (hour, backend_id, leaf_id, flavor, quota, idle, lent)
    SELECT hour, backend_id, leaf_id, flavor, quota, idle, lent FROM new_leaf
)
INSERT INTO scheduling_workusagehour (hour, backend_id, leaf_id, flavor, user_id, priority, {", ".join(WORK_COLUMNS)})
SELECT hour, backend_id, leaf_id, flavor, user_id, priority, {", ".join(WORK_COLUMNS)} FROM new_work
"""
"""Computes the sums of whole hours and writes them."""

_SUMMED = {
    "scheduling_backendusageday": (
        "scheduling_backendusagehour", ["backend_id", "flavor"], ["capacity", "offline", "unallocated"],
    ),
    "scheduling_leafusageday": (
        "scheduling_leafusagehour", ["backend_id", "leaf_id", "flavor"], ["quota", "idle", "lent"],
    ),
    "scheduling_poolusageday": (
        "scheduling_poolusagehour", ["backend_id", "pool_id", "flavor"], ["quota", "idle", "lent"],
    ),
    "scheduling_workusageday": (
        "scheduling_workusagehour", ["backend_id", "leaf_id", "flavor", "user_id", "priority"], WORK_COLUMNS,
    ),
}  # fmt: skip


def _summed_hours(table: str, keys: Sequence[str], sums: Sequence[str]) -> str:
    day, totals = "date_trunc('day', hour, 'UTC')", ", ".join(f"sum({column})::bigint AS {column}" for column in sums)
    return f"""
        SELECT {day} AS day, {", ".join(keys)}, {totals} FROM {table}
        WHERE hour >= %(begin)s AND hour < %(end)s GROUP BY {day}, {", ".join(keys)}
    """


SUMS_OF_DAYS = {
    table: (", ".join(["day", *keys, *sums]), _summed_hours(hours, keys, sums))
    for table, (hours, keys, sums) in _SUMMED.items()
}
"""By table of daily sums: its columns, and SQL that adds up the stored hours from `begin` to `end`, two starts of
days."""

SUMS_OF_POOLS = """
    SELECT hour, entry.backend_id, COALESCE(leaf.parent_id, entry.leaf_id) AS pool_id, flavor,
        sum(quota)::bigint AS quota, sum(idle)::bigint AS idle, sum(lent)::bigint AS lent
    FROM scheduling_leafusagehour entry LEFT JOIN pools_pool leaf ON leaf.id = entry.leaf_id
    WHERE hour >= %(begin)s AND hour < %(end)s
    GROUP BY hour, entry.backend_id, COALESCE(leaf.parent_id, entry.leaf_id), flavor
"""
"""The sums of the hours of pools, from those of their leaves."""

_ENTRIES = """
    SELECT id, time, after AS image, (COALESCE(after, before) ->> 'id')::bigint AS subject
    FROM pools_auditentry WHERE split_part(object, '/', 1) = '{kind}'
"""
_UNTIL = "lead(time) OVER (PARTITION BY subject ORDER BY id)"

SPANS_FROM_AUDIT = {
    "scheduling_quotaspan": f"""
        SELECT quota.*, since, until FROM (
            SELECT image, time AS since, {_UNTIL} AS until FROM ({_ENTRIES.format(kind="pool")}) entry
        ) entry CROSS JOIN LATERAL ({OPEN_QUOTA}) quota WHERE image IS NOT NULL
    """,
    "scheduling_nodespan": f"""
        SELECT subject AS node_id, (image ->> 'backend_id')::bigint AS backend_id,
            COALESCE(image ->> 'flavor', '{DEFAULT_FLAVOR}') AS flavor, (image ->> 'gpus')::bigint AS gpus,
            since, until
        FROM (SELECT subject, image, time AS since, {_UNTIL} AS until FROM ({_ENTRIES.format(kind="node")}) entry) entry
        WHERE image IS NOT NULL
    """,
    "scheduling_offlinespan": f"""
        SELECT subject AS backend_id, NULL::bigint AS node_id, since, until
        FROM (SELECT subject, image, time AS since, {_UNTIL} AS until FROM ({_ENTRIES.format(kind="backend")}) entry)
            entry
        WHERE (image ->> 'offline')::boolean
    """,
}
"""By table of spans: SQL that derives its rows from the audit trail, as the triggers write them."""

SPAN_COLUMNS = {
    "scheduling_quotaspan": "pool_id, parent_id, backend_id, flavor, quota, is_unlimited, is_draining, since, until",
    "scheduling_nodespan": "node_id, backend_id, flavor, gpus, since, until",
    "scheduling_offlinespan": "backend_id, node_id, since, until",
}

OWN_ROWS = {
    "scheduling_quotaspan": "TRUE",
    "scheduling_nodespan": "TRUE",
    "scheduling_offlinespan": "node_id IS NULL",
}
"""The rows of each table that follow the audit trail; the others follow the state of nodes."""
