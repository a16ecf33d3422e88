"""The numbers of active workflows."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count

from pools.domain.people.roles import Actor
from scheduling.domain.statuses import WorkflowStatus
from scheduling.models import Workflow


@dataclass(frozen=True, slots=True)
class ActiveWorkflowCounts:
    """The numbers of running and of pending workflows."""

    running: int
    pending: int


def count_active_workflows(actor: Actor) -> ActiveWorkflowCounts:
    """The active workflows that `actor` may see; one query."""
    rows = Workflow.objects.visible_to(actor).active().order_by().values_list("status").annotate(count=Count("pk"))
    counts = dict(rows)
    running = counts.pop(WorkflowStatus.RUNNING, 0)
    return ActiveWorkflowCounts(running, sum(counts.values()))
