"""Writing admitted workflows with their groups and tasks: one statement however many there are.

It stands between a tree's lock and its commit, where everybody on that pool waits. So the rows go over as three JSON
documents and PostgreSQL takes them apart by the tables' own columns; nothing here names a column but the one it
computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from django.db import connection, models

from scheduling.models import Group, Task, Workflow
from scheduling.services.workflows.bulk_sql import recordset_sql, rows_as_json


def insert_workflows(workflows: Sequence[Workflow], groups: Sequence[Group], tasks: Sequence[Task]) -> None:
    """Insert new workflows and give each its name: `{spec_name}-{n}` with n dense, `1 + highest`, in the order given.

    Equal names line up at their row of :class:`WorkflowName` until the transaction ends. The caller holds the tree's
    lock.
    """
    assert connection.in_atomic_block
    with connection.cursor() as cursor:
        cursor.execute(_insert_statement(), [rows_as_json(workflows), rows_as_json(groups), rows_as_json(tasks)])
        names = dict(cursor.fetchall())
    for workflow in workflows:
        workflow.name = names[workflow.uuid]
        workflow._state.adding = False


@cache
def _insert_statement() -> str:
    def insert(model: type[models.Model], source: str, computed: Mapping[str, str]) -> str:
        columns = [field.attname for field in model._meta.concrete_fields]
        names = ", ".join(f'"{name}"' for name in columns)
        values = ", ".join(computed.get(name, f'"{name}"') for name in columns)
        return f"INSERT INTO {model._meta.db_table} ({names}) SELECT {values} FROM {source}"

    return f"""
        WITH asked AS MATERIALIZED (
            SELECT * FROM {recordset_sql(Workflow)} WITH ORDINALITY
        ), wanted AS (
            SELECT spec_name, count(*)::integer AS many FROM asked GROUP BY spec_name ORDER BY spec_name
        ), counted AS (
            INSERT INTO scheduling_workflowname AS known (name, last_number) SELECT spec_name, many FROM wanted
            ON CONFLICT (name) DO UPDATE SET last_number = known.last_number + excluded.last_number
            RETURNING name AS spec_name, last_number
        ), named AS (
            SELECT asked.*, spec_name || '-' || (
                last_number - many + row_number() OVER (PARTITION BY spec_name ORDER BY ordinality)
            ) AS full_name
            FROM asked JOIN wanted USING (spec_name) JOIN counted USING (spec_name)
        ), workflows AS (
            {insert(Workflow, "named", {"name": "full_name"})}
        ), parts AS (
            {insert(Group, recordset_sql(Group), {})}
        ), tasks AS (
            {insert(Task, recordset_sql(Task), {})}
        )
        SELECT uuid, full_name FROM named
    """
