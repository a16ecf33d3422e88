"""The filters of lists of workflows, of scheduler events and of a pool's queue on pages."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from pools.admin.base import actor_of
from pools.admin.filters import PageFilterSet, choice_filter, text_filter, time_filter
from pools.domain.names import REMAINDER_LABEL, SEPARATOR, SHARED_QUEUE
from pools.models import Pool
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, WorkflowStatus
from scheduling.selectors.decisions import about_workflow, in_pool
from scheduling.selectors.leaf_names import leaf_names_of
from scheduling.templatetags.gangs import EVENT_LABELS

ACTIVE = "active"
ENDED = "ended"


class WorkflowPageFilterSet(PageFilterSet):
    """The filters of the page of workflows."""

    primary = ("q", "status", "pool")

    q = text_filter("Name", "name", "contains", placeholder="part of a name")
    status = choice_filter(
        "Status",
        [
            (ACTIVE, "active: running or pending"),
            (ENDED, "ended"),
            *((status, status) for status in WorkflowStatus if status is not WorkflowStatus.WAITING),
        ],
        method="with_status",
    )
    pool = text_filter("Pool or subpool", placeholder="team or team--a", method="in_pool")
    user = text_filter("Submitted by", "submitted_by__username", placeholder="exact name")
    priority = choice_filter("Priority", [(each, each) for each in Priority], "priority")
    since = time_filter("Submitted from", "submit_time", "gte")
    until = time_filter("Submitted until", "submit_time", "lt")

    def with_status(self, rows: Any, name: str, value: str) -> Any:
        """Workflows with the status; `active` are the running and pending ones, `ended` all others."""
        if value == ACTIVE:
            return rows.filter(status__in=sorted(ACTIVE_WORKFLOW_STATUSES))
        return rows.exclude(status__in=ACTIVE_WORKFLOW_STATUSES) if value == ENDED else rows.filter(status=value)

    def in_pool(self, rows: Any, name: str, value: str) -> Any:
        """Workflows of a pool with its subpools, or of one leaf."""
        return rows.filter(pool__name__in=leaf_names_of(actor_of(self.request), value))


class DecisionPageFilterSet(PageFilterSet):
    """The filters of the page of scheduler events."""

    primary = ("pool", "workflow", "action")

    pool = text_filter("Pool or subpool", placeholder="team or team--a", method="in_pool")
    workflow = text_filter(
        "Workflow", placeholder="hello-1: its own events, and those that it caused", method="of_workflow"
    )
    action = choice_filter("Event", list(EVENT_LABELS.items()), "action")
    user = text_filter("Submitted by", "workflow__submitted_by__username", placeholder="exact name")
    since = time_filter("From", "time", "gte")
    until = time_filter("Until", "time", "lt")

    def in_pool(self, rows: Any, name: str, value: str) -> Any:
        """Events in a pool with its subpools, or in one leaf."""
        return in_pool(actor_of(self.request), rows, value)

    def of_workflow(self, rows: Any, name: str, value: str) -> Any:
        """Events of a workflow, and those that it caused."""
        return about_workflow(rows, value)


class WholeQueueFilterSet(PageFilterSet):
    """The filters of the queue across pools."""

    pool = text_filter("Pool or subpool", placeholder="team or team--a", method="keep_all")
    user = text_filter("Submitted by", placeholder="exact name", method="keep_all")

    def keep_all(self, rows: Any, name: str, value: str) -> Any:
        """The gangs are filtered in the pending queue, not in the database."""
        return rows


class QueueFilterSet(PageFilterSet):
    """The filters of a pool's queue: running workflows and pending gangs."""

    primary = ("leaf", "user")

    leaf = choice_filter("Subpool", [], empty="the whole pool", method="in_leaf")
    user = text_filter("Submitted by", "submitted_by__username", placeholder="exact name")

    def __init__(self, request: HttpRequest, queryset: QuerySet[Any], *, root: Pool, leaves: list[str]) -> None:
        super().__init__(request, queryset)
        self.root, self.leaves = root, leaves
        choices = [(name, name) for name in (leaf.partition(SEPARATOR)[2] for leaf in leaves) if name]
        self.form.fields["leaf"].choices = [(SHARED_QUEUE, REMAINDER_LABEL), *choices]

    @property
    def chosen_leaves(self) -> list[str]:
        """The canonical names of the chosen leaf, or of all leaves of the pool."""
        chosen = self.value("leaf")
        if chosen is None:
            return self.leaves
        return leaf_names_of(actor_of(self.request), f"{self.root.name}{SEPARATOR}{chosen}")

    def in_leaf(self, rows: Any, name: str, value: str) -> Any:
        """Workflows of one leaf."""
        return rows.filter(pool__name__in=self.chosen_leaves)
