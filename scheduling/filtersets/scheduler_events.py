"""The filters of the list of scheduler events."""

from __future__ import annotations

from typing import Any

from pools.filtersets.base import DateTimeFilter, EnumListFilter, QueryFilterSet, TextFilter
from scheduling.domain.engine.steps import StepAction
from scheduling.selectors.decisions import about_workflow, in_pool


class SchedulerEventFilterSet(QueryFilterSet):
    """The conditions of `/api/scheduler_events`."""

    pool = TextFilter(method="keep_pool")
    workflow = TextFilter(method="keep_workflow")
    action = EnumListFilter("action", kind=StepAction)
    user = TextFilter("workflow__submitted_by__username")
    since = DateTimeFilter("time", "gte")
    until = DateTimeFilter("time", "lt")

    def keep_pool(self, rows: Any, name: str, value: str) -> Any:
        """Events in a pool with its subpools, or in one leaf."""
        return in_pool(self.caller, rows, value) if value else rows

    def keep_workflow(self, rows: Any, name: str, value: str) -> Any:
        """Events of a workflow, and those that it caused."""
        return about_workflow(rows, value) if value else rows
