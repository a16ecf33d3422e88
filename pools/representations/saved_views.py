"""The pages of lists whose filters can be saved."""

from __future__ import annotations

from collections.abc import Mapping

from django.urls import reverse

from pools.domain.people.saved_views import FilteredList
from pools.models import SavedView

LIST_ADDRESSES: Mapping[FilteredList, str] = {
    FilteredList.POOLS: "admin:pools_pool_changelist",
    FilteredList.QUOTA_TREE: "admin:pools_cohort_changelist",
    FilteredList.WORKFLOWS: "admin:scheduling_workflow_changelist",
    FilteredList.QUEUE: "admin:scheduling_workflow_whole_queue",
    FilteredList.NODES: "admin:pools_node_changelist",
    FilteredList.USAGE: "admin:scheduling_usageprogress_changelist",
    FilteredList.SCHEDULER_EVENTS: "admin:scheduling_decision_changelist",
    FilteredList.AUDIT: "admin:pools_auditentry_changelist",
    FilteredList.USERS: "admin:pools_user_changelist",
}
LIST_TITLES: Mapping[FilteredList, str] = {
    FilteredList.POOLS: "Pools",
    FilteredList.QUOTA_TREE: "Quota tree",
    FilteredList.WORKFLOWS: "Workflows",
    FilteredList.QUEUE: "Queue",
    FilteredList.NODES: "Nodes",
    FilteredList.USAGE: "Usage",
    FilteredList.SCHEDULER_EVENTS: "Scheduler events",
    FilteredList.AUDIT: "Audit log",
    FilteredList.USERS: "Users",
}
_LISTS = {address: each for each, address in LIST_ADDRESSES.items()}


def list_at(view_name: str) -> FilteredList | None:
    """The list at this name of an address, None if its filters cannot be saved."""
    return _LISTS.get(view_name)


def view_address(view: SavedView) -> str:
    """The address of the list with the filters of a view."""
    return f"{reverse(LIST_ADDRESSES[FilteredList(view.page)])}?{view.query}"
