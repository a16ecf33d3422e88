"""Writing admitted workflows with their groups and tasks: one statement however many there are.

It stands between a tree's lock and its commit, where everybody on that pool waits. So the rows go over as three JSON
documents and PostgreSQL takes them apart by the tables' own columns; nothing here names a column but the one it
computes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connection, models
from django.utils.duration import duration_iso_string

from scheduling.models import Group, Task, Workflow


def record(workflows: Sequence[Workflow], groups: Sequence[Group], tasks: Sequence[Task]) -> None:
    """Insert new workflows and give each its name: `{spec_name}-{n}` with n dense, `1 + highest`, in the order given.

    Equal names line up at their row of :class:`WorkflowName` until the transaction ends. The caller holds the tree's
    lock.
    """
    assert connection.in_atomic_block
    with connection.cursor() as cursor:
        cursor.execute(_statement(), [_rows(workflows), _rows(groups), _rows(tasks)])
        names = dict(cursor.fetchall())
    for workflow in workflows:
        workflow.name = names[workflow.uuid]
        workflow._state.adding = False


@cache
def _statement() -> str:
    def insert(model: type[models.Model], source: str, computed: Mapping[str, str]) -> str:
        columns = [field.attname for field in model._meta.concrete_fields]
        names = ", ".join(f'"{name}"' for name in columns)
        values = ", ".join(computed.get(name, f'"{name}"') for name in columns)
        return f"INSERT INTO {model._meta.db_table} ({names}) SELECT {values} FROM {source}"

    def sent(model: type[models.Model]) -> str:
        return f"jsonb_populate_recordset(NULL::{model._meta.db_table}, %s::jsonb)"

    return f"""
        WITH asked AS MATERIALIZED (
            SELECT * FROM {sent(Workflow)} WITH ORDINALITY
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
            {insert(Group, sent(Group), {})}
        ), tasks AS (
            {insert(Task, sent(Task), {})}
        )
        SELECT uuid, full_name FROM named
    """


def _rows(objects: Sequence[models.Model]) -> str:
    return json.dumps(
        [{field.attname: getattr(each, field.attname) for field in each._meta.concrete_fields} for each in objects],
        default=_plain,
    )


def _plain(value: Any) -> str:
    """Values that JSON does not know, as PostgreSQL reads them."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return duration_iso_string(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no place in a row")
