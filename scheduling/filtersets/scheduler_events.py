"""The filters of the list of scheduler events, for REST and for the page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pools.domain.questions import Page, any_of, parameter
from pools.domain.structured_input.declared_values import TEXT, TIME
from pools.filtersets.base import QueryFilter, QueryFilterSet
from scheduling.domain.engine.steps import StepAction
from scheduling.selectors.work.decisions import about_workflow, in_pool


@dataclass(frozen=True, slots=True)
class SchedulerEventQuery(Page):
    """The query of the decisions of the schedulers."""

    pool: str = parameter(
        TEXT,
        "Only events in this pool with its subpools, or in this subpool.",
        label="Pool or subpool",
        hint="team or team--a",
    )
    workflow: str = parameter(
        TEXT,
        "Only events of this workflow, and those that it caused.",
        label="Workflow",
        hint="hello-1: its own events, and those that it caused",
    )
    action: list[StepAction] = parameter(any_of(StepAction), "Only these events.", label="Event")
    user: str = parameter(TEXT, "Only events of work of this user.", label="Submitted by", hint="exact name")
    since: datetime | None = parameter(TIME, "From this time on.", label="From")
    until: datetime | None = parameter(TIME, "Before this time.", label="Until")


class SchedulerEventFilterSet(QueryFilterSet):
    """The conditions on scheduler events."""

    query = SchedulerEventQuery

    pool = QueryFilter(method="keep_pool")
    workflow = QueryFilter(method="keep_workflow")
    action = QueryFilter()
    user = QueryFilter("workflow__submitted_by__username")
    since = QueryFilter("time", "gte")
    until = QueryFilter("time", "lt")

    def keep_pool(self, rows: Any, name: str, value: str) -> Any:
        """Events in a pool with its subpools, or in one leaf."""
        return in_pool(self.caller, rows, value)

    def keep_workflow(self, rows: Any, name: str, value: str) -> Any:
        """Events of a workflow, and those that it caused."""
        return about_workflow(rows, value)
