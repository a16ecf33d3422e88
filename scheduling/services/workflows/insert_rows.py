"""Inserting admitted workflows with their groups and tasks: one statement for any number of them.

The statement runs between the lock of a tree and its commit, while all other changes of that pool wait. So the rows are
sent as three JSON documents, which PostgreSQL splits by the columns of the tables. Only the computed column is named
here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from django.db import connection, models

from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES
from scheduling.locking import LOCK_LIVE_WORK_SQL
from scheduling.models import Group, Task, Workflow
from scheduling.services.workflows.bulk_sql import recordset_sql, rows_as_json


def insert_workflows(
    user_id: int, workflows: Sequence[Workflow], groups: Sequence[Group], tasks: Sequence[Task]
) -> int:
    """Insert new workflows of a user and give each its name: `{spec_name}-{n}` with n dense, `1 + highest`, in the
    order given. Returns how many live workflows the user had before.

    Submissions with equal names wait for each other at their row of :class:`WorkflowName` until the transaction ends.
    Submissions of a user to several pools wait for each other too, so that the number returned counts all of them.
    The caller holds the lock of the tree.
    """
    assert connection.in_atomic_block
    with connection.cursor() as cursor:
        documents = [rows_as_json(rows) for rows in (workflows, groups, tasks)]
        cursor.execute(_insert_statement(), [user_id, *documents, user_id])
        cursor.nextset()  # the lock, a statement of its own: the count needs a younger snapshot
        rows = cursor.fetchall()
        names = {uuid: name for uuid, name, _ in rows}
    for workflow in workflows:
        workflow.name = names[workflow.uuid]
        workflow._state.adding = False
    return int(rows[0][2])


@cache
def _insert_statement() -> str:
    def insert(model: type[models.Model], source: str, computed: Mapping[str, str]) -> str:
        columns = [field.attname for field in model._meta.concrete_fields]
        names = ", ".join(f'"{name}"' for name in columns)
        values = ", ".join(computed.get(name, f'"{name}"') for name in columns)
        return f"INSERT INTO {model._meta.db_table} ({names}) SELECT {values} FROM {source}"

    live = ", ".join(f"'{status}'" for status in sorted(ACTIVE_WORKFLOW_STATUSES))
    return f"""
        {LOCK_LIVE_WORK_SQL};
        WITH submitted AS MATERIALIZED (
            SELECT * FROM {recordset_sql(Workflow)} WITH ORDINALITY
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
        )
        SELECT uuid, full_name, (
            SELECT count(*) FROM scheduling_workflow WHERE submitted_by_id = %s AND status IN ({live})
        ) FROM named
    """
