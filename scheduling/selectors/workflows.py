"""Workflows as lists and pages show them. Every list costs the same number of queries, however long it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import F, Func, Prefetch, Q, TextField, Value, prefetch_related_objects

from pools.domain import names
from pools.domain.errors import NotFound
from pools.domain.roles import Actor
from scheduling.domain.statuses import WorkflowStatus
from scheduling.models import Group, Task, Workflow
from scheduling.models.workflow import WorkflowQuerySet

_LARGE_COLUMNS = ("spec", "template_spec", "env_vars")


@dataclass(frozen=True, slots=True)
class WorkflowFilter:
    """Which workflows a list is about. Empty and None mean: no such condition. `users` None is everybody.

    `labels` are (key, regular expression of the whole value); `app` is (uuid, version or empty).
    """

    users: Sequence[str] | None = None
    statuses: Sequence[WorkflowStatus] = ()
    pools: Sequence[str] = ()
    priorities: Sequence[str] = ()
    name: str = ""
    tags: Sequence[str] = ()
    labels: Sequence[tuple[str, str]] = ()
    no_labels: Sequence[str] = ()
    app: tuple[str, str] | None = None
    submitted_after: datetime | None = None
    submitted_before: datetime | None = None
    newest_first: bool = True


def list_workflows(actor: Actor, criteria: WorkflowFilter, *, limit: int, offset: int) -> tuple[list[Workflow], bool]:
    """One page of what `actor` may see, and whether there is more behind it. One query."""
    order = ("-submit_time", "-name") if criteria.newest_first else ("submit_time", "name")
    rows = _matching(Workflow.objects.visible_to(actor), criteria).order_by(*order)
    rows = rows.select_related("pool", "root_pool__backend", "submitted_by").defer(*_LARGE_COLUMNS)
    found = list(rows[offset : offset + limit + 1])
    return found[:limit], len(found) > limit


def _matching(rows: WorkflowQuerySet, criteria: WorkflowFilter) -> WorkflowQuerySet:
    simple = {
        "submitted_by__username__in": criteria.users,
        "status__in": criteria.statuses or None,
        "pool__name__in": criteria.pools or None,
        "priority__in": criteria.priorities or None,
        "name__contains": criteria.name or None,
        "tags__contains": list(criteria.tags) or None,
        "submit_time__gte": criteria.submitted_after,
        "submit_time__lt": criteria.submitted_before,
    }
    rows = rows.filter(**{lookup: value for lookup, value in simple.items() if value is not None})
    if criteria.app:
        uuid, version = criteria.app
        rows = rows.filter(Q(app_uuid=uuid) & (Q(app_version=version) if version else Q()))
    for place, (key, pattern) in enumerate(criteria.labels):
        # Not KeyTextTransform: it takes a key of digits for a place in a list.
        value = Func(
            F("labels"), Value(key), template="(%(expressions)s)", arg_joiner=" ->> ", output_field=TextField()
        )
        rows = rows.alias(**{f"label{place}": value})
        rows = rows.filter(**{f"label{place}__regex": pattern})
    for key in criteria.no_labels:
        rows = rows.exclude(labels__has_key=key)
    return rows


def get_visible_workflow(actor: Actor, name: str) -> Workflow:
    """The workflow of this id or uuid. Raises NotFound if it is not there or not visible to `actor`. One query."""
    rows = Workflow.objects.visible_to(actor).select_related("pool", "root_pool__backend", "submitted_by", "parent")
    key = _parse_uuid(name)
    found = rows.filter(Q(name=name) | Q(pk=key) if key else Q(name=name)).first()
    if found is None:
        raise NotFound(f"Workflow {name[:100]} does not exist, or you may not see it.", workflow_id=name[:100])
    return found


def _parse_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def get_full_workflow(actor: Actor, name: str, *, all_attempts: bool = False) -> Workflow:
    """A workflow with its groups and their tasks: the latest try of each, or all of them. Three queries.

    Raises NotFound if it is not there or not visible to `actor`.
    """
    workflow = get_visible_workflow(actor, name)
    load_groups([workflow], all_attempts=all_attempts)
    return workflow


def load_groups(workflows: Sequence[Workflow], *, all_attempts: bool = False) -> None:
    """Put groups and tasks on workflows that are known already. Two queries."""
    tasks = Task.objects.order_by("position", "retry_id")
    if not all_attempts:
        tasks = Task.objects.order_by("group_id", "position", "-retry_id").distinct("group_id", "position")
    groups = Group.objects.order_by("position").prefetch_related(Prefetch("tasks", tasks))
    prefetch_related_objects(list(workflows), Prefetch("groups", groups))


def queue_names_of(workflow: Workflow) -> tuple[str, str]:
    """The leaf queue of a workflow and its Kubernetes name (D2); no query where pool and backend were selected."""
    assert workflow.root_pool.backend is not None
    leaf = workflow.pool.subpool_name or names.SHARED_QUEUE
    queue = names.queue_name(workflow.root_pool.backend.namespace, workflow.root_pool.name, leaf)
    return queue, names.k8s_queue_name(queue)


def list_tags(actor: Actor) -> list[str]:
    """Every tag on a workflow that `actor` may see, by name."""
    tags = Func(F("tags"), function="jsonb_array_elements_text", output_field=TextField())
    rows = Workflow.objects.visible_to(actor).exclude(tags=[]).order_by().annotate(tag=tags)
    return sorted(rows.values_list("tag", flat=True).distinct())
