"""What the browser's pages on work show. Reads only, always through `visible_to`."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count

from pools.domain import names
from pools.domain.roles import Actor
from pools.models import Pool
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, WorkflowStatus
from scheduling.models import Workflow

LIVE = "live"
ENDED = "ended"


@dataclass(frozen=True, slots=True)
class LiveCounts:
    """How many workflows run, and how many wait."""

    running: int
    waiting: int


def live_counts(actor: Actor) -> LiveCounts:
    """The live workflows that `actor` sees; one query."""
    rows = Workflow.objects.visible_to(actor).active().order_by().values_list("status").annotate(count=Count("pk"))
    counts = dict(rows)
    running = counts.pop(WorkflowStatus.RUNNING, 0)
    return LiveCounts(running, sum(counts.values()))


def statuses_meant(choice: str) -> tuple[WorkflowStatus, ...]:
    """The statuses that a filter's value stands for: `live`, `ended`, one status, or none."""
    if choice == LIVE:
        return tuple(sorted(ACTIVE_WORKFLOW_STATUSES))
    if choice == ENDED:
        return tuple(status for status in WorkflowStatus if not status.is_active)
    return (WorkflowStatus(choice),) if choice in set(WorkflowStatus) else ()


def leaves_meant(actor: Actor, text: str) -> list[str]:
    """The leaves that a filter's value stands for: a pool with its slices, one slice, or with `--_shared` the part of a
    pool that no slice owns."""
    path = names.split_name(text)
    if path.subpool == names.SHARED_QUEUE:
        return [path.parent]
    if path.subpool is not None:
        return [text]
    slices = Pool.objects.visible_to(actor).filter(parent__name=text).values_list("name", flat=True)
    return [text, *slices]
