"""The rows of a list of workflows: GPUs, reason for waiting, waiting time and run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import DurationField, ExpressionWrapper, F, IntegerField, OuterRef, Subquery, Sum
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from pools.domain.people.roles import Actor
from scheduling.domain.observed.observed_object import ObservedObject
from scheduling.domain.statuses import WorkflowStatus
from scheduling.models import Group, Workflow
from scheduling.selectors.queue.visible_queue import WaitingGang, waiting_gangs_of_many
from scheduling.selectors.work.observed_objects import read_observed_objects

WAITED = ExpressionWrapper(Coalesce("start_time", "end_time", Now()) - F("submit_time"), output_field=DurationField())
RAN = ExpressionWrapper(Coalesce("end_time", Now()) - F("start_time"), output_field=DurationField())
_GPU_SUMS = Group.objects.filter(workflow=OuterRef("pk")).order_by().values("workflow").annotate(sum=Sum("gpus"))
GPUS = ExpressionWrapper(Subquery(_GPU_SUMS.values("sum")), output_field=IntegerField())


@dataclass(frozen=True, slots=True)
class WorkflowRow:
    """A workflow of a list. `gpus` is the sum of the GPUs of its gangs (an elastic gang counts its minimum), `waiting`
    its first gang that waits. Times are seconds; `run_seconds` is None before the start. `observed` is the object of
    an observed cluster behind it."""

    workflow: Workflow
    gpus: int
    waiting: WaitingGang | None
    waited_seconds: float
    run_seconds: float | None
    observed: ObservedObject | None = None


WORKFLOW_ORDERS = {"gpus": GPUS, "waited": WAITED, "ran": RAN}
"""The sorted columns of the list of workflows that are not fields, by their `sort`."""


def read_workflow_rows(actor: Actor, workflows: Sequence[Workflow]) -> list[WorkflowRow]:
    """The rows of workflows that `actor` may see, whose pools with their backends are loaded. Two queries, a
    third where work waits, one where some was observed, and for each backend with such work those of its queue."""
    sums = Group.objects.filter(workflow__in=workflows).order_by().values_list("workflow").annotate(Sum("gpus"))
    gpus = dict(sums)
    active = [each for each in workflows if WorkflowStatus(each.status).is_active]
    waiting = waiting_gangs_of_many(actor, active)
    observed = read_observed_objects(workflows)
    now = timezone.now()
    return [
        WorkflowRow(
            each,
            gpus.get(each.pk) or 0,
            waiting.get(each.name),
            _seconds(each.submit_time, each.start_time or each.end_time or now),
            None if each.start_time is None else _seconds(each.start_time, each.end_time or now),
            observed.get(each.pk),
        )
        for each in workflows
    ]


def _seconds(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start).total_seconds())
