"""Scheduler events: starts, moves, preemptions and reclaims, each with the workflow that caused it."""

from __future__ import annotations

from typing import TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.questions import parameters_of
from pools.api.schema import describe_operation
from pools.api.views import View
from scheduling.filtersets.scheduler_events import SchedulerEventFilterSet, SchedulerEventQuery
from scheduling.models import Decision
from scheduling.selectors.work.decisions import VisibleDecision, list_decisions


class SchedulerEventListAnswer(TypedDict):
    """A page of the scheduler events."""

    events: list[VisibleDecision]
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
        return Response(SchedulerEventListAnswer(events=found, more_entries=more))
