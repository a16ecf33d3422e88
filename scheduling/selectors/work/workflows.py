"""Workflows for lists and pages. The number of queries does not depend on the length of a list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.core.exceptions import EmptyResultSet
from django.db.models import F, Func, Model, Q, QuerySet, TextField

from pools.database.prepared import read_rows
from pools.domain import names
from pools.domain.errors import NotFound
from pools.domain.people.roles import Actor
from pools.models import Backend, Pool, User
from pools.selectors.list_order import read_part
from pools.selectors.submission_path import column_names, columns_sql, known_row
from scheduling.models import Group, Task, Workflow

# By hand, because Django needs more time to build the objects of five tables than PostgreSQL to answer.
_LISTED_SQL = """
    SELECT work.uuid, work.name, work.status, work.priority, work.submit_time, work.start_time, work.end_time,
        work.labels, work.tags, work.app_uuid, work.app_version, leaf.name, leaf.subpool_name, root.name,
        backend.namespace, submitter.username
    FROM (SELECT matching.uuid, row_number() OVER () AS number FROM ({matching}) matching) page
    JOIN scheduling_workflow work ON work.uuid = page.uuid
    JOIN pools_pool leaf ON leaf.id = work.pool_id
    JOIN pools_pool root ON root.id = work.root_pool_id
    JOIN pools_backend backend ON backend.id = root.backend_id
    JOIN pools_user submitter ON submitter.id = work.submitted_by_id
    ORDER BY page.number
"""


class ListedWorkflow(NamedTuple):
    """One row of `workflow list`; the fields are the columns of `_LISTED_SQL`."""

    uuid: UUID
    name: str
    status: str
    priority: str
    submit_time: datetime
    start_time: datetime | None
    end_time: datetime | None
    labels: dict[str, str]
    tags: list[str]
    app_uuid: str
    app_version: str
    pool: str
    subpool_name: str | None
    root_pool: str
    namespace: str
    username: str

    @property
    def queue_names(self) -> tuple[str, str]:
        """As :func:`queue_names_of`."""
        return _queue_names(self.namespace, self.root_pool, self.subpool_name)

    @classmethod
    def of(cls, workflow: Workflow) -> ListedWorkflow:
        """The row of a workflow that is loaded with its pools, backend and user."""
        own = (getattr(workflow, name) for name in cls._fields[: cls._fields.index("pool")])
        root = workflow.root_pool
        assert root.backend is not None
        leaf = (workflow.pool.name, workflow.pool.subpool_name, root.name, root.backend.namespace)
        return cls._make((*own, *leaf, workflow.submitted_by.username))


def list_workflow_entries(page: tuple[str, Sequence[Any]] | None, *, limit: int) -> tuple[list[ListedWorkflow], bool]:
    """The page of a `WorkflowFilterSet` (its `page_sql`) as plain rows, and whether more rows follow. One query."""
    if page is None:
        return [], False
    matching, parameters = page
    found = read_rows(_LISTED_SQL.format(matching=matching), parameters)
    return [_listed_workflow(row) for row in found[:limit]], len(found) > limit


def _listed_workflow(row: Sequence[Any]) -> ListedWorkflow:
    # Django's connections read JSON as text; most rows have neither labels nor tags.
    labels, tags = {} if row[7] == "{}" else json.loads(row[7]), [] if row[8] == "[]" else json.loads(row[8])
    return ListedWorkflow._make((*row[:7], labels, tags, *row[9:]))


# A page shows these; each further column costs processor time in each row of five tables.
_LISTED_COLUMNS = (
    *("name", "status", "priority", "submit_time", "start_time", "end_time", "failure_message", "labels", "tags"),
    *("app_uuid", "app_version", "pool__name", "pool__subpool_name", "pool__parent_id"),
    *("root_pool__name", "root_pool__backend__name", "root_pool__backend__namespace", "submitted_by__username"),
)


def list_workflows(rows: QuerySet[Workflow], *, limit: int, offset: int) -> tuple[list[Workflow], bool]:
    """One page of the rows of a `WorkflowFilterSet`, and whether more rows follow. One query."""
    rows = rows.select_related("pool", "root_pool__backend", "submitted_by").only(*_LISTED_COLUMNS)
    return read_part(rows, limit=limit, offset=offset)


def get_visible_workflow(actor: Actor, name: str) -> Workflow:
    """The workflow of this id or uuid. Raises NotFound if it does not exist or `actor` may not see it. One query."""
    key = _parse_uuid(name)
    # A name may look like the id of another workflow. Without an order: Django takes long to write one into the SQL.
    matching = Workflow.objects.visible_to(actor).filter(Q(name=name) | Q(pk=key) if key else Q(name=name)).order_by()
    found: list[Workflow] = []
    with suppress(EmptyResultSet):
        condition, parameters = matching.values_list("pk").query.sql_with_params()
        found = [_workflow_of(row) for row in read_rows(_ONE_SQL.format(matching=condition), parameters)]
    if not found:
        raise NotFound(f"Workflow {name[:100]} does not exist, or you may not see it.", workflow_id=name[:100])
    return next((each for each in found if each.name == name), found[0])


# By hand like the list: Django takes longer to write the columns of six tables than PostgreSQL to read them.
_ONE_TABLES: tuple[tuple[str, type[Model]], ...] = (
    ("work", Workflow), ("leaf", Pool), ("root", Pool), ("backend", Backend), ("submitter", User), ("parent", Workflow),
)  # fmt: skip
_ONE_SQL = f"""
    SELECT {", ".join(columns_sql(table, column_names(model)) for table, model in _ONE_TABLES)}
    FROM scheduling_workflow work
    JOIN pools_pool leaf ON leaf.id = work.pool_id
    JOIN pools_pool root ON root.id = work.root_pool_id
    LEFT JOIN pools_backend backend ON backend.id = root.backend_id
    JOIN pools_user submitter ON submitter.id = work.submitted_by_id
    LEFT JOIN scheduling_workflow parent ON parent.uuid = work.parent_id
    WHERE work.uuid IN ({{matching}})
"""


def _workflow_of(row: Sequence[Any]) -> Workflow:
    """A workflow with its pools, backend, user and parent, from a row of `_ONE_SQL`."""
    parts: list[Any] = []
    for _, model in _ONE_TABLES:
        names = column_names(model)
        parts.append(known_row(model, names, row[: len(names)]))
        row = row[len(names) :]
    workflow, leaf, root, backend, submitter, parent = parts
    workflow.pool, workflow.root_pool, workflow.submitted_by = leaf, root, submitter
    root.backend = backend if backend.pk is not None else None
    workflow.parent = parent if parent.pk is not None else None
    found: Workflow = workflow
    return found


def _parse_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def get_full_workflow(actor: Actor, name: str, *, all_attempts: bool = False) -> Workflow:
    """A workflow with its `loaded_groups` and their `loaded_tasks`: the latest attempt of each, or all attempts. Three
    queries.

    Raises NotFound if it does not exist or `actor` may not see it.
    """
    workflow = get_visible_workflow(actor, name)
    tasks_sql = _ALL_TASKS_SQL if all_attempts else _LATEST_TASKS_SQL
    groups = [known_row(Group, column_names(Group), row) for row in read_rows(_GROUPS_SQL, [workflow.pk])]
    tasks = [known_row(Task, column_names(Task), row) for row in read_rows(tasks_sql, [[group.pk for group in groups]])]
    workflow.loaded_groups = groups
    for group in groups:
        group.workflow, group.loaded_tasks = workflow, []
    by_pk = {group.pk: group for group in groups}
    for task in tasks:
        task.group = by_pk[task.group_id]
        task.group.loaded_tasks.append(task)
    return workflow


_GROUPS_SQL = f"""
    SELECT {columns_sql("part", column_names(Group))} FROM scheduling_group part
    WHERE part.workflow_id = %s ORDER BY part.position
"""
_TASK_SQL = f"{columns_sql('task', column_names(Task))} FROM scheduling_task task WHERE task.group_id = ANY(%s)"
_ALL_TASKS_SQL = f"SELECT {_TASK_SQL} ORDER BY task.position, task.retry_id"
_LATEST_TASKS_SQL = f"""
    SELECT DISTINCT ON (task.group_id, task.position) {_TASK_SQL}
    ORDER BY task.group_id, task.position, task.retry_id DESC
"""


def queue_names_of(workflow: Workflow) -> tuple[str, str]:
    """The leaf queue of a workflow and its Kubernetes name (design, D2); no query if pool and backend were selected."""
    assert workflow.root_pool.backend is not None
    return _queue_names(workflow.root_pool.backend.namespace, workflow.root_pool.name, workflow.pool.subpool_name)


def _queue_names(namespace: str, root_pool: str, subpool_name: str | None) -> tuple[str, str]:
    queue = names.queue_name(namespace, root_pool, subpool_name or names.SHARED_QUEUE)
    return queue, names.k8s_queue_name(queue)


def list_tags(actor: Actor) -> list[str]:
    """All tags of workflows that `actor` may see, by name."""
    tags = Func(F("tags"), function="jsonb_array_elements_text", output_field=TextField())
    rows = Workflow.objects.visible_to(actor).exclude(tags=[]).order_by().annotate(tag=tags)
    return sorted(rows.values_list("tag", flat=True).distinct())
