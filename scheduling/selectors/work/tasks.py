"""Tasks of all workflows, as a list or as sums (design, O7.2, `task list`)."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet, Sum

from pools.domain.people.roles import Actor
from scheduling.models import Task, Workflow

_WORK = "group__workflow"


def visible_tasks(actor: Actor) -> QuerySet[Task]:
    """The tasks of the workflows that `actor` may see."""
    rows = Task.objects.all()
    if not actor.can_read_all:
        rows = rows.filter(group__workflow__in=Workflow.objects.visible_to(actor).order_by().values("pk"))
    return rows


def list_tasks(rows: QuerySet[Task], *, limit: int, offset: int) -> list[Task]:
    """One page of the rows of a `TaskFilterSet`. One query."""
    rows = rows.select_related("group", _WORK, f"{_WORK}__pool", f"{_WORK}__submitted_by")
    return list(rows.defer(f"{_WORK}__spec", f"{_WORK}__template_spec")[offset : offset + limit])


def sum_tasks(rows: QuerySet[Task], *, by_workflow: bool, limit: int, offset: int) -> list[dict[str, Any]]:
    """The sums of the tasks' requests by user, pool and priority (and workflow): rows with `user, pool, priority, gpu,
    cpu, memory_bytes, storage_bytes[, workflow_id]`. One query."""
    by = [f"{_WORK}__submitted_by__username", f"{_WORK}__pool__name", f"{_WORK}__priority"]
    if by_workflow:
        by.append(f"{_WORK}__name")
    sums = (
        rows.order_by(*by)
        .values_list(*by)
        .annotate(Sum("gpu_count"), Sum("cpu_count"), Sum("memory_bytes"), Sum("storage_bytes"))
    )
    keys = ["user", "pool", "priority", *(["workflow_id"] if by_workflow else [])]
    keys += ["gpu", "cpu", "memory_bytes", "storage_bytes"]
    return [dict(zip(keys, row, strict=True)) for row in sums[offset : offset + limit]]
