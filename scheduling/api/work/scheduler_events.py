"""Scheduler events: starts, moves, preemptions and reclaims, each with the workflow that caused it."""

from __future__ import annotations

from typing import Annotated, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.questions import parameters_of
from pools.api.rendering import zoned_text
from pools.api.schema import ZonedText, describe_operation
from pools.api.views import View
from scheduling.domain.engine.steps import StepAction
from scheduling.filtersets.scheduler_events import SchedulerEventFilterSet, SchedulerEventQuery
from scheduling.models import Decision
from scheduling.selectors.work.decisions import VisibleDecision, list_decisions


class SchedulerEventAnswer(TypedDict):
    """A decision of a scheduler."""

    id: int
    time: ZonedText
    action: Annotated[str, StepAction]
    message: str
    pool: str
    workflow: str
    group: str
    gpus: int
    nodes: list[str]
    for_workflow: Annotated[str | None, "The workflow that caused it, if not its own."]
    receipt: Annotated[int | None, "The id of the receipt, of `GET /api/workflow/NAME/receipts`; null for a start."]


class SchedulerEventListAnswer(TypedDict):
    """A page of the scheduler events."""

    events: list[SchedulerEventAnswer]
    more_entries: bool


class SchedulerEvents(View):
    """What the schedulers decided."""

    @describe_operation(
        "List scheduler events that the caller may see, the newest first.",
        query_parameters=parameters_of(SchedulerEventQuery),
        answer=SchedulerEventListAnswer,
    )
    def get(self, request: Request) -> Response:
        visible = Decision.objects.visible_to(self.actor)
        filters = SchedulerEventFilterSet(request.query_params, visible, actor=self.actor)
        matching, limit, offset = filters.matching_rows(), filters.value("limit"), filters.value("offset")
        found, more = list_decisions(self.actor, matching, limit=limit, offset=offset)
        return Response(SchedulerEventListAnswer(events=[_event_body(each) for each in found], more_entries=more))


def _event_body(event: VisibleDecision) -> SchedulerEventAnswer:
    return {
        "id": event.pk,
        "time": zoned_text(event.time),
        "action": event.action,
        "message": event.sentence,
        "pool": event.pool,
        "workflow": event.workflow,
        "group": event.group,
        "gpus": event.gpus,
        "nodes": list(event.nodes),
        "for_workflow": event.for_workflow or None,
        "receipt": event.receipt,
    }
