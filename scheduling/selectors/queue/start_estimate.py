"""The estimate of a start without computing a forecast: the kept forecast of the last gang before it in its queue."""

from __future__ import annotations

from pools.database.prepared import read_rows
from pools.models import Pool
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, WorkflowStatus
from scheduling.selectors.queue.visible_queue import GangStart

MOST_NODES, MOST_LIVE = 64, 100
"""The largest cluster whose state is read for each dry run: nodes, and workflows that have not ended."""
MOST_READ = 50

_LIVE = ", ".join(f"'{status}'" for status in sorted(ACTIVE_WORKFLOW_STATUSES))

_IS_SMALL_SQL = f"""
    SELECT (SELECT count(*) FROM (SELECT FROM pools_node WHERE backend_id = %s LIMIT {MOST_NODES + 1}) node)
            <= {MOST_NODES}
        AND (
            SELECT count(*) FROM (
                SELECT FROM scheduling_workflow work JOIN pools_pool root ON root.id = work.root_pool_id
                WHERE root.backend_id = %s AND work.status IN ({_LIVE}) LIMIT {MOST_LIVE + 1}
            ) live
        ) <= {MOST_LIVE}
"""

# Only recent work is read, so that a queue with a long history and nothing pending costs nothing.
_LAST_BEFORE_SQL = f"""
    SELECT kept.p10, kept.p50, kept.p90, kept.samples, kept.made_at, kept.never
    FROM (
        SELECT uuid, priority, submit_time FROM scheduling_workflow
        WHERE pool_id = %s AND status = '{WorkflowStatus.PENDING}' AND submit_time > now() - interval '7 days'
        ORDER BY submit_time DESC LIMIT {MOST_READ}
    ) work
    JOIN scheduling_group gang ON gang.workflow_id = work.uuid
    JOIN scheduling_startforecast kept ON kept.group_id = gang.uuid
    WHERE work.priority = ANY(%s)
    ORDER BY work.submit_time DESC, kept.p50 DESC NULLS FIRST LIMIT 1
"""


def is_small_cluster(backend_id: int) -> bool:
    """Whether the whole state of this backend can be read for a single request. One query."""
    return bool(read_rows(_IS_SMALL_SQL, [backend_id, backend_id])[0][0])


def read_start_of_last_before(leaf: Pool, priority: Priority) -> GangStart | None:
    """The kept forecast of the gang that new work of this priority would stand behind in the queue of the leaf; None if
    nothing is before it there, or no forecast was made yet. One query."""
    before = [str(each) for each in Priority if each.priority_class_value >= priority.priority_class_value]
    rows = read_rows(_LAST_BEFORE_SQL, [leaf.pk, before])
    if not rows:
        return None
    p10, p50, p90, samples, made_at, never = rows[0]
    return GangStart(p10, p50, p90, samples, made_at, never or None)
