"""GPUs of work that was admitted or dispatched to a cluster and is not in the usage counters yet."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db import connection

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
    )
    SELECT root.id, root.name, work.pool_id, work.priority, sum(task.gpu_count)::bigint
    FROM tree JOIN pools_pool root ON root.cohort_id = tree.id
    JOIN pools_backend backend ON backend.id = root.backend_id AND backend.kind = '{Backend.Kind.KUBERNETES}'
    JOIN scheduling_workflow work ON work.root_pool_id = root.id AND work.status = ANY(%(live)s)
    JOIN scheduling_group gang ON gang.workflow_id = work.uuid AND gang.status = ANY(%(open)s)
    JOIN scheduling_task task ON task.group_id = gang.uuid AND task.status = ANY(%(open)s)
    WHERE NOT root.archived AND task.gpu_count > 0
        AND (task.admitted_at IS NOT NULL OR task.dispatched_at IS NOT NULL)
        AND NOT (gang.status = '{TaskStatus.RUNNING}' AND task.status = '{TaskStatus.RUNNING}')
    GROUP BY root.id, root.name, work.pool_id, work.priority
"""


@dataclass(frozen=True, slots=True)
class DispatchedUsage:
    """GPUs of one priority on one leaf. `pool` is the top-level pool's name, `leaf` the leaf's row."""

    root: int
    pool: str
    leaf: int
    priority: Priority
    gpus: int


def read_dispatched_usage(tops: Collection[int]) -> list[DispatchedUsage]:
    """The dispatched usage in the trees below these cohorts; one query. Without a common snapshot, read it before the
    usage counters: work that starts in between is then counted twice, but never missed."""
    if not tops:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_DISPATCHED_SQL, {"tops": list(tops), "live": sorted(ACTIVE_WORKFLOW_STATUSES), "open": _OPEN})
        return [DispatchedUsage(root, pool, leaf, Priority(word), gpus) for root, pool, leaf, word, gpus in cursor]
