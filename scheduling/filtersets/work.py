"""The filters of workflows and of tasks, and their common base."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.db.models import F, Func, Q, QuerySet, TextField, Value
from django.utils.datastructures import MultiValueDict

from pools.domain.query_values import MAX_FILTER_VALUES
from pools.domain.roles import Actor
from pools.filtersets.base import (
    BooleanFilter,
    DateTimeFilter,
    EnumListFilter,
    OrderFilter,
    QueryFilterSet,
    TextFilter,
    TextListFilter,
)
from scheduling.domain.label_selectors import selector_pattern
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import TaskStatus, WorkflowStatus
from scheduling.models import Workflow

Rows = QuerySet[Any]
_WORKFLOW = "group__workflow"
_SELECTOR_RULE = "KEY=SELECTOR, where a selector is a value, with * for anything and (A|B) for alternatives"


def parse_label_selector(text: str) -> tuple[str, str] | None:
    """`KEY=SELECTOR` as the key and the regular expression of the whole value."""
    key, equals, selector = text.partition("=")
    pattern = selector_pattern(selector)
    return (key, pattern) if key and equals and pattern is not None else None


class WorkFilterSet(QueryFilterSet):
    """The conditions that lists of workflows and of tasks share. Without a condition on users a list shows the
    caller's own work."""

    submitter = "submitted_by__username"

    all_users = BooleanFilter(method="keep_all")
    all_pools = BooleanFilter(method="keep_all")

    def keep_all(self, rows: Rows, name: str, value: bool) -> Rows:
        """All rows: `all_users` is evaluated in :meth:`filter_queryset`, and `all_pools` is the default without
        `pools`."""
        return rows

    def filter_queryset(self, queryset: Any) -> Any:
        rows = super().filter_queryset(queryset)
        if self.value("users") or self.value("all_users"):
            return rows
        return rows.filter(**{self.submitter: self.caller.username})


class WorkflowFilterSet(WorkFilterSet):
    """The filters of the list of workflows."""

    users = TextListFilter("submitted_by__username")
    pools = TextListFilter("pool__name")
    priority = EnumListFilter("priority", kind=Priority)
    statuses = EnumListFilter("status", kind=WorkflowStatus)
    name = TextFilter("name", "contains")
    tags = TextListFilter("tags", "contains")
    label = TextListFilter(
        method="with_labels", parse=parse_label_selector, rule=_SELECTOR_RULE, max_values=MAX_FILTER_VALUES
    )
    no_label = TextListFilter(method="without_labels", max_values=MAX_FILTER_VALUES)
    app = TextFilter(method="of_app")
    submitted_after = DateTimeFilter("submit_time", "gte")
    submitted_before = DateTimeFilter("submit_time", "lt")
    order = OrderFilter("submit_time", "name")

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


def matching_workflows(query: MultiValueDict[str, str], actor: Actor) -> QuerySet[Workflow]:
    """The visible workflows that keep every condition of :class:`WorkflowFilterSet`. Raises BadInput as
    `matching_rows`.

    The rows are for further queries (a page, a count), and are never read by themselves: the queries of the same
    parameters and the same caller, with the same roles, share them. A client asks the same again and again, and Django
    needs as long to build the query as PostgreSQL to answer it.
    """
    parameters = tuple((name, tuple(values)) for name, values in query.lists())
    is_short = sum(len(text) for name, values in parameters for text in (name, *values)) <= MOST_KEPT_CHARACTERS
    return (_kept_workflows if is_short else _build_workflows)(parameters, actor)


def _build_workflows(parameters: tuple[tuple[str, tuple[str, ...]], ...], actor: Actor) -> QuerySet[Workflow]:
    query: MultiValueDict[str, str] = MultiValueDict({name: list(values) for name, values in parameters})
    return WorkflowFilterSet(query, Workflow.objects.visible_to(actor), actor=actor).matching_rows()


_kept_workflows = lru_cache(maxsize=KEPT_QUERIES)(_build_workflows)


class TaskFilterSet(WorkFilterSet):
    """The filters of the list of tasks."""

    submitter = f"{_WORKFLOW}__submitted_by__username"

    users = TextListFilter(f"{_WORKFLOW}__submitted_by__username")
    pools = TextListFilter(f"{_WORKFLOW}__pool__name")
    priority = EnumListFilter(f"{_WORKFLOW}__priority", kind=Priority)
    statuses = EnumListFilter("status", kind=TaskStatus)
    nodes = TextListFilter("node_name")
    workflow_id = TextFilter(f"{_WORKFLOW}__name", "contains")
    started_after = DateTimeFilter("start_time", "gte")
    started_before = DateTimeFilter("start_time", "lt")
    order = OrderFilter(
        f"{_WORKFLOW}__submit_time",
        f"{_WORKFLOW}__name",
        tie_breakers=("group__position", "position", "retry_id"),
    )
    summary = BooleanFilter(method="keep_all")
    aggregate_by_workflow = BooleanFilter(method="keep_all")
