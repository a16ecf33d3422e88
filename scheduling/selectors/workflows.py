"""Workflows for lists and pages. The number of queries does not depend on the length of a list."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models import F, Func, Prefetch, Q, QuerySet, TextField, prefetch_related_objects

from pools.domain import names
from pools.domain.errors import NotFound
from pools.domain.roles import Actor
from scheduling.models import Group, Task, Workflow

# A list shows these; each further column costs processor time in each row of five tables.
_LISTED_COLUMNS = (
    *("name", "status", "priority", "submit_time", "start_time", "end_time", "failure_message", "labels", "tags"),
    *("app_uuid", "app_version", "pool__name", "pool__subpool_name", "pool__parent_id"),
    *("root_pool__name", "root_pool__backend__name", "root_pool__backend__namespace", "submitted_by__username"),
)


def list_workflows(rows: QuerySet[Workflow], *, limit: int, offset: int) -> tuple[list[Workflow], bool]:
    """One page of the rows of a `WorkflowFilterSet`, and whether more rows follow. One query."""
    rows = rows.select_related("pool", "root_pool__backend", "submitted_by").only(*_LISTED_COLUMNS)
    found = list(rows[offset : offset + limit + 1])
    return found[:limit], len(found) > limit


def get_visible_workflow(actor: Actor, name: str) -> Workflow:
    """The workflow of this id or uuid. Raises NotFound if it does not exist or `actor` may not see it. One query."""
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
    """A workflow with its groups and their tasks: the latest attempt of each, or all attempts. Three queries.

    Raises NotFound if it does not exist or `actor` may not see it.
    """
    workflow = get_visible_workflow(actor, name)
    load_groups([workflow], all_attempts=all_attempts)
    return workflow


def load_groups(workflows: Sequence[Workflow], *, all_attempts: bool = False) -> None:
    """Load groups and tasks of workflows. Two queries."""
    tasks = Task.objects.order_by("position", "retry_id")
    if not all_attempts:
        tasks = Task.objects.order_by("group_id", "position", "-retry_id").distinct("group_id", "position")
    groups = Group.objects.order_by("position").prefetch_related(Prefetch("tasks", tasks))
    prefetch_related_objects(list(workflows), Prefetch("groups", groups))


def queue_names_of(workflow: Workflow) -> tuple[str, str]:
    """The leaf queue of a workflow and its Kubernetes name (D2); no query if pool and backend were selected."""
    assert workflow.root_pool.backend is not None
    leaf = workflow.pool.subpool_name or names.SHARED_QUEUE
    queue = names.queue_name(workflow.root_pool.backend.namespace, workflow.root_pool.name, leaf)
    return queue, names.k8s_queue_name(queue)


def list_tags(actor: Actor) -> list[str]:
    """All tags of workflows that `actor` may see, by name."""
    tags = Func(F("tags"), function="jsonb_array_elements_text", output_field=TextField())
    rows = Workflow.objects.visible_to(actor).exclude(tags=[]).order_by().annotate(tag=tags)
    return sorted(rows.values_list("tag", flat=True).distinct())
