"""The filters of lists of workflows, of scheduler events and of a pool's queue on pages."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from pools.admin.filters import PageFilterSet, on_page
from pools.domain.names import REMAINDER_LABEL, SEPARATOR, SHARED_QUEUE
from pools.domain.structured_input.declared_values import fields_of
from pools.filtersets.base import NoCondition, QueryFilter
from pools.models import Pool
from scheduling.domain.lists import WorkflowQuery
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, WorkflowStatus
from scheduling.filtersets.scheduler_events import SchedulerEventFilterSet, SchedulerEventQuery
from scheduling.selectors.work.leaf_names import leaf_names_of
from scheduling.templatetags.gangs import EVENT_LABELS

ACTIVE = "active"
ENDED = "ended"
_WORK, _EVENT = fields_of(WorkflowQuery), fields_of(SchedulerEventQuery)


class WorkflowPageFilterSet(PageFilterSet):
    """The filters of the page of workflows."""

    q = QueryFilter("name", "contains", about=_WORK["name"])
    status = QueryFilter(
        method="with_status",
        about=on_page("Status"),
        choices=[
            (ACTIVE, "active: running or pending"),
            (ENDED, "ended"),
            *((status, status) for status in WorkflowStatus if status is not WorkflowStatus.WAITING),
        ],
    )
    pool = QueryFilter(method="in_pool", about=_EVENT["pool"])
    user = QueryFilter("submitted_by__username", about=_EVENT["user"])
    priority = QueryFilter(about=_WORK["priority"])
    since = QueryFilter("submit_time", "gte", about=_WORK["submitted_after"])
    until = QueryFilter("submit_time", "lt", about=_WORK["submitted_before"])

    def with_status(self, rows: Any, name: str, value: str) -> Any:
        """Workflows with the status; `active` are the running and pending ones, `ended` all others."""
        if value == ACTIVE:
            return rows.filter(status__in=sorted(ACTIVE_WORKFLOW_STATUSES))
        return rows.exclude(status__in=ACTIVE_WORKFLOW_STATUSES) if value == ENDED else rows.filter(status=value)

    def in_pool(self, rows: Any, name: str, value: str) -> Any:
        """Workflows of a pool with its subpools, or of one leaf."""
        return rows.filter(pool__name__in=leaf_names_of(self.caller, value))


class DecisionPageFilterSet(PageFilterSet, SchedulerEventFilterSet):
    """The filters of the page of scheduler events."""

    shown = ("pool", "workflow", "action", "user", "since", "until")
    search = "pool"

    action = QueryFilter(choices=list(EVENT_LABELS.items()))


class WholeQueueFilterSet(PageFilterSet):
    """The filters of the queue across pools, where the pending queue itself reads them."""

    search = "pool"

    pool = NoCondition(about=_EVENT["pool"])
    user = NoCondition(about=_EVENT["user"])


class QueueFilterSet(PageFilterSet):
    """The filters of a pool's queue: running workflows and pending gangs."""

    search = "user"

    leaf = QueryFilter(method="in_leaf", about=on_page("Subpool"), choices=[(SHARED_QUEUE, REMAINDER_LABEL)])
    user = QueryFilter("submitted_by__username", about=_EVENT["user"])

    def __init__(self, request: HttpRequest, queryset: QuerySet[Any], *, root: Pool, leaves: list[str]) -> None:
        super().__init__(request, queryset)
        self.root, self.leaves = root, leaves
        choices = [(name, name) for name in (leaf.partition(SEPARATOR)[2] for leaf in leaves) if name]
        self.form.fields["leaf"].choices = [("", "the whole pool"), (SHARED_QUEUE, REMAINDER_LABEL), *choices]

    @property
    def chosen_leaves(self) -> list[str]:
        """The canonical names of the chosen leaf, or of all leaves of the pool."""
        chosen = self.value("leaf")
        if chosen is None:
            return self.leaves
        return leaf_names_of(self.caller, f"{self.root.name}{SEPARATOR}{chosen}")

    def in_leaf(self, rows: Any, name: str, value: str) -> Any:
        """Workflows of one leaf."""
        return rows.filter(pool__name__in=self.chosen_leaves)
