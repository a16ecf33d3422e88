"""Inserting admitted workflows with their groups, tasks and reservations: one statement for any number of them.

The statement runs between the lock of a tree and its commit, while all other changes of that pool wait. So the rows are
sent as three JSON documents, which PostgreSQL splits by the columns of the tables, and the statement is prepared once
for a connection. Only the computed column is named here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from uuid import UUID

from django.db import models

from pools.database.driver import is_in_transaction
from pools.database.prepared import read_rows
from pools.services.configuration.reservations import reservations_sql
from scheduling.models import Group, Task, Workflow
from scheduling.services.workflows.bulk_sql import recordset_sql, rows_as_json


def insert_workflows(
    owner: str,
    workflows: Sequence[Workflow],
    groups: Sequence[Group],
    tasks: Sequence[Task],
    needed_gpus: Sequence[int],
    by_flavor: Sequence[Mapping[str, tuple[int, int]]],
) -> None:
    """Insert new workflows of a user, `owner`, with their reservations, and give each its name: `{spec_name}-{n}` with
    n dense, `1 + highest`, in the order given. `needed_gpus` are those of the largest gang of each, `by_flavor` the
    same by GPU flavor (empty in a pool without flavors).

    Submissions with equal names wait for each other at their row of :class:`WorkflowName` until the transaction ends.
    The caller holds the lock of the tree.
    """
    assert is_in_transaction()
    documents = [rows_as_json(rows) for rows in (workflows, groups, tasks)]
    names: dict[UUID, str] = dict(
        read_rows(
            _insert_statement(),
            [documents[0], list(needed_gpus), [json.dumps(each) for each in by_flavor], *documents[1:], owner],
        )
    )
    for workflow in workflows:
        workflow.name = names[workflow.uuid]


_CLAIMS = "SELECT uuid, full_name, pool_id, %s, priority, needed_gpus, submit_time, by_flavor FROM named"


@cache
def _insert_statement() -> str:
    def insert(model: type[models.Model], source: str, computed: Mapping[str, str]) -> str:
        columns = [field.attname for field in model._meta.concrete_fields]
        names = ", ".join(f'"{name}"' for name in columns)
        values = ", ".join(computed.get(name, f'"{name}"') for name in columns)
        return f"INSERT INTO {model._meta.db_table} ({names}) SELECT {values} FROM {source}"

    return f"""
        WITH submitted AS MATERIALIZED (
            SELECT * FROM {recordset_sql(Workflow)} WITH ORDINALITY
            JOIN unnest(%s::integer[], %s::jsonb[]) WITH ORDINALITY AS need (needed_gpus, by_flavor, ordinality)
                USING (ordinality)
        ), totals AS (
            SELECT spec_name, count(*)::integer AS many FROM submitted GROUP BY spec_name ORDER BY spec_name
        ), counted AS (
            INSERT INTO scheduling_workflowname AS known (name, last_number) SELECT spec_name, many FROM totals
            ON CONFLICT (name) DO UPDATE SET last_number = known.last_number + excluded.last_number
            RETURNING name AS spec_name, last_number
        ), named AS (
            SELECT submitted.*, spec_name || '-' || (
                last_number - many + row_number() OVER (PARTITION BY spec_name ORDER BY ordinality)
            ) AS full_name
            FROM submitted JOIN totals USING (spec_name) JOIN counted USING (spec_name)
        ), workflows AS (
            {insert(Workflow, "named", {"name": "full_name"})}
        ), parts AS (
            {insert(Group, recordset_sql(Group), {})}
        ), tasks AS (
            {insert(Task, recordset_sql(Task), {})}
        ), claims AS (
            {reservations_sql(_CLAIMS)}
        )
        SELECT uuid, full_name FROM named
    """
