"""Tasks of all workflows, one by one or summed up (OSMO contract, 7.2, `task list`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet, Sum

from pools.domain.roles import Actor
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Task, Workflow

_WORK = "group__workflow"


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Which tasks a list is about. Empty and None mean: no such condition. `users` None is everybody."""

    users: Sequence[str] | None = None
    statuses: Sequence[TaskStatus] = ()
    pools: Sequence[str] = ()
    priorities: Sequence[str] = ()
    nodes: Sequence[str] = ()
    workflow: str = ""
    started_after: datetime | None = None
    started_before: datetime | None = None
    newest_first: bool = True


def list_tasks(actor: Actor, criteria: TaskFilter, *, limit: int, offset: int) -> list[Task]:
    """One page of what `actor` may see, by the workflow's submit time. One query."""
    sign = "-" if criteria.newest_first else ""
    order = (f"{sign}{_WORK}__submit_time", f"{sign}{_WORK}__name", "group__position", "position", "retry_id")
    rows = _matching(actor, criteria).order_by(*order)
    rows = rows.select_related("group", _WORK, f"{_WORK}__pool", f"{_WORK}__submitted_by")
    return list(rows.defer(f"{_WORK}__spec", f"{_WORK}__template_spec")[offset : offset + limit])


def sum_tasks(
    actor: Actor, criteria: TaskFilter, *, by_workflow: bool, limit: int, offset: int
) -> list[dict[str, Any]]:
    """What the tasks ask for together, by user, pool and priority (and workflow): rows with `user, pool, priority, gpu,
    cpu, memory_bytes, storage_bytes[, workflow_id]`. One query."""
    by = [f"{_WORK}__submitted_by__username", f"{_WORK}__pool__name", f"{_WORK}__priority"]
    if by_workflow:
        by.append(f"{_WORK}__name")
    rows = (
        _matching(actor, criteria)
        .order_by(*by)
        .values_list(*by)
        .annotate(Sum("gpu_count"), Sum("cpu_count"), Sum("memory_bytes"), Sum("storage_bytes"))
    )
    keys = ["user", "pool", "priority", *(["workflow_id"] if by_workflow else [])]
    keys += ["gpu", "cpu", "memory_bytes", "storage_bytes"]
    return [dict(zip(keys, row, strict=True)) for row in rows[offset : offset + limit]]


def _matching(actor: Actor, criteria: TaskFilter) -> QuerySet[Task]:
    rows = Task.objects.all()
    if not actor.can_read_all:
        rows = rows.filter(group__workflow__in=Workflow.objects.visible_to(actor).order_by().values("pk"))
    simple = {
        f"{_WORK}__submitted_by__username__in": criteria.users,
        "status__in": criteria.statuses or None,
        f"{_WORK}__pool__name__in": criteria.pools or None,
        f"{_WORK}__priority__in": criteria.priorities or None,
        "node_name__in": criteria.nodes or None,
        f"{_WORK}__name__contains": criteria.workflow or None,
        "start_time__gte": criteria.started_after,
        "start_time__lt": criteria.started_before,
    }
    return rows.filter(**{lookup: value for lookup, value in simple.items() if value is not None})
