"""The filters of workflows and of tasks, and their common base."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db.models import F, Func, Q, QuerySet, TextField, Value
from django.utils.datastructures import MultiValueDict

from pools.domain.people.roles import Actor
from pools.filtersets.base import OrderFilter, QueryFilter, QueryFilterSet
from scheduling.domain.lists import TaskQuery, WorkflowQuery
from scheduling.models import Workflow

Rows = QuerySet[Any]
_WORKFLOW = "group__workflow"


class WorkFilterSet(QueryFilterSet):
    """The conditions that lists of workflows and of tasks share. Without a condition on users a list shows the
    caller's own work."""

    submitter = "submitted_by__username"

    def filter_queryset(self, queryset: Any) -> Any:
        rows = super().filter_queryset(queryset)
        if self.value("users") or self.value("all_users"):
            return rows
        return rows.filter(**{self.submitter: self.caller.username})


class WorkflowFilterSet(WorkFilterSet):
    """The filters of the list of workflows."""

    query = WorkflowQuery

    users = QueryFilter("submitted_by__username")
    pools = QueryFilter("pool__name")
    priority = QueryFilter()
    statuses = QueryFilter("status")
    name = QueryFilter(lookup_expr="contains")
    tags = QueryFilter(lookup_expr="contains")
    label = QueryFilter(method="with_labels")
    no_label = QueryFilter(method="without_labels")
    app = QueryFilter(method="of_app")
    submitted_after = QueryFilter("submit_time", "gte")
    submitted_before = QueryFilter("submit_time", "lt")
    order = OrderFilter("submit_time", "name")

    @cached_property
    def page_sql(self) -> tuple[str, Sequence[Any]] | None:
        """The statement of the uuids of the page and of one more row, with its parameters; None if Django knows without
        a query that no row matches."""
        rows, limit, offset = self.matching_rows(), self.value("limit"), self.value("offset")
        try:
            return rows.values_list("uuid")[offset : offset + limit + 1].query.sql_with_params()
        except EmptyResultSet:
            return None

    def with_labels(self, rows: Rows, name: str, selectors: list[tuple[str, str]]) -> Rows:
        """Workflows whose labels match every selector."""
        for number, (key, pattern) in enumerate(selectors):
            # Not KeyTextTransform: it reads a key of digits as an index of a list.
            value = Func(
                F("labels"), Value(key), template="(%(expressions)s)", arg_joiner=" ->> ", output_field=TextField()
            )
            rows = rows.alias(**{f"label{number}": value}).filter(**{f"label{number}__regex": pattern})
        return rows

    def without_labels(self, rows: Rows, name: str, keys: list[str]) -> Rows:
        """Workflows that have none of the labels."""
        for key in keys:
            rows = rows.exclude(labels__has_key=key)
        return rows

    def of_app(self, rows: Rows, name: str, value: str) -> Rows:
        """Work of an app: `UUID` or `UUID:VERSION`."""
        uuid, _, version = value.partition(":")
        return rows.filter(Q(app_uuid=uuid) & (Q(app_version=version) if version else Q())) if uuid else rows


KEPT_QUERIES = 256
"""The queries of lists of workflows that a process keeps."""

MOST_KEPT_CHARACTERS = 1000
"""The longest parameters of a query that is kept."""


def workflow_filters(query: MultiValueDict[str, str], actor: Actor) -> WorkflowFilterSet:
    """The filters of the workflows that `actor` may see. Raises BadInput as `matching_rows`.

    They are kept by the parameters and the caller with the roles, and keep the statement of the page: a client asks the
    same again and again, and Django needs as long to write the statement as PostgreSQL to answer it. So their rows are
    for further queries (a page, a count), and are never read by themselves.
    """
    parameters = tuple((name, tuple(values)) for name, values in query.lists())
    is_short = sum(len(text) for name, values in parameters for text in (name, *values)) <= MOST_KEPT_CHARACTERS
    return (_kept_filters if is_short else _build_filters)(parameters, actor)


def _build_filters(parameters: tuple[tuple[str, tuple[str, ...]], ...], actor: Actor) -> WorkflowFilterSet:
    query: MultiValueDict[str, str] = MultiValueDict({name: list(values) for name, values in parameters})
    filters = WorkflowFilterSet(query, Workflow.objects.visible_to(actor), actor=actor)
    filters.matching_rows()  # a refused query is not kept
    return filters


_kept_filters = lru_cache(maxsize=KEPT_QUERIES)(_build_filters)


class TaskFilterSet(WorkFilterSet):
    """The filters of the list of tasks."""

    query = TaskQuery
    submitter = f"{_WORKFLOW}__submitted_by__username"

    users = QueryFilter(submitter)
    pools = QueryFilter(f"{_WORKFLOW}__pool__name")
    priority = QueryFilter(f"{_WORKFLOW}__priority")
    statuses = QueryFilter("status")
    nodes = QueryFilter("node_name")
    workflow_id = QueryFilter(f"{_WORKFLOW}__name", "contains")
    started_after = QueryFilter("start_time", "gte")
    started_before = QueryFilter("start_time", "lt")
    order = OrderFilter(
        f"{_WORKFLOW}__submit_time",
        f"{_WORKFLOW}__name",
        tie_breakers=("group__position", "position", "retry_id"),
    )
