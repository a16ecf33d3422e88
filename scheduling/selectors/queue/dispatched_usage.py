"""GPUs of work that was admitted or dispatched to a cluster and is not in the usage counters yet."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pools.database.statements import execute_sql
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.models import Backend
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, TaskStatus

_OPEN = [TaskStatus.SCHEDULING, TaskStatus.INITIALIZING, TaskStatus.RUNNING]

# The counters of a leaf have the running tasks of running gangs; all other dispatched tasks are here.
_DISPATCHED_SQL = f"""
    WITH RECURSIVE tree (id) AS (
        SELECT id FROM pools_cohort WHERE id = ANY(%(tops)s)
        UNION
        SELECT below.id FROM tree JOIN pools_cohort below ON below.parent_id = tree.id
    ), roots AS (
        SELECT pool.id FROM pools_pool pool JOIN tree ON pool.cohort_id = tree.id
        UNION SELECT unnest(%(pools)s::bigint[])
    )
    SELECT root.id, root.name, work.pool_id, work.priority,
        COALESCE(NULLIF(task.flavor, ''), '{DEFAULT_FLAVOR}'), sum(task.gpu_count)::bigint
    FROM roots JOIN pools_pool root ON root.id = roots.id
    JOIN pools_backend backend ON backend.id = root.backend_id AND backend.kind = '{Backend.Kind.KUBERNETES}'
    JOIN scheduling_workflow work ON work.root_pool_id = root.id AND work.status = ANY(%(live)s)
    JOIN scheduling_group gang ON gang.workflow_id = work.uuid AND gang.status = ANY(%(open)s)
    JOIN scheduling_task task ON task.group_id = gang.uuid AND task.status = ANY(%(open)s)
    WHERE NOT root.archived AND task.gpu_count > 0
        AND (task.admitted_at IS NOT NULL OR task.dispatched_at IS NOT NULL)
        AND NOT (gang.status = '{TaskStatus.RUNNING}' AND task.status = '{TaskStatus.RUNNING}')
    GROUP BY root.id, root.name, work.pool_id, work.priority, task.flavor
"""


@dataclass(frozen=True, slots=True)
class DispatchedUsage:
    """GPUs of one priority and flavor on one leaf. `pool` is the top-level pool's name, `leaf` the leaf's row."""

    root: int
    pool: str
    leaf: int
    priority: Priority
    flavor: str
    gpus: int


def read_dispatched_usage(tops: Collection[int], pools: Collection[int] = ()) -> list[DispatchedUsage]:
    """The dispatched usage in the trees below these cohorts, and of these top-level pools; one query. Without a common
    snapshot, read it before the usage counters: work that starts in between is then counted twice, but never missed."""
    if not tops and not pools:
        return []
    live = sorted(ACTIVE_WORKFLOW_STATUSES)
    wanted: dict[str, Any] = {"tops": list(tops), "pools": list(pools), "live": live, "open": _OPEN}
    return [
        DispatchedUsage(root, pool, leaf, Priority(word), flavor, gpus)
        for root, pool, leaf, word, flavor, gpus in execute_sql(_DISPATCHED_SQL, wanted)
    ]
