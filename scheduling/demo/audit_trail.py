"""The audit trail of the demo: the entries of its configuration get the times of the month, and the work gets entries
as its changes would have written them. Their ids are in the order of time, as everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import pgtrigger

from pools.database.statements import execute_sql
from pools.domain.audit_actions import AuditAction


class EntryTimes(NamedTuple):
    """The time of the entries with the ids above `after`, up to the next."""

    after: int
    time: datetime


_OWN_RULES = (
    "pools.AuditEntry:append_only", "pools.AuditEntry:protect_derived", "scheduling.RecordedChange:record_capacity",
    "pools.ConfigRevision:keeps_content",
)  # fmt: skip

_RULES_OF_ROWS = (
    "pools.Pool:audit", "pools.Pool:state_machine", "pools.Cohort:audit", "pools.Cohort:rules", "pools.GpuQuota:audit",
)  # fmt: skip

_WORKED = "to_jsonb(work) - ARRAY['spec', 'template_spec'] || jsonb_build_object('pool', leaf.name)"
_PENDING = """jsonb_build_object('status', 'PENDING', 'start_time', NULL, 'end_time', NULL, 'failure_message', '',
    'cancelled_by', '')"""
_RUNNING = "jsonb_build_object('status', 'RUNNING', 'end_time', NULL, 'failure_message', '', 'cancelled_by', '')"
_FROM_WORK = """
    FROM scheduling_workflow work JOIN pools_pool leaf ON leaf.id = work.pool_id
    JOIN pools_user owner ON owner.id = work.submitted_by_id WHERE work.submit_time < %s"""
_WRITE = f"""
    WITH known AS (
        SELECT entry.id AS old, times.moment AS time, actor, action, object, before, after, description, request_id,
            pool_id, owner
        FROM pools_auditentry entry
        JOIN (
            SELECT first, moment, lead(first, 1, 9223372036854775807) OVER (ORDER BY first, moment) AS last
            FROM unnest(%s::bigint[], %s::timestamptz[]) AS given (first, moment)
        ) times ON entry.id > times.first AND entry.id <= times.last
    ), works AS (
        SELECT work.*, leaf.name AS leaf, owner.username, {_WORKED} AS image
        {_FROM_WORK}
    ), entries AS (
        SELECT * FROM known
        UNION ALL
        SELECT NULL, submit_time, username, '{AuditAction.WORKFLOW_SUBMITTED}', 'workflow/' || name, NULL,
            image || {_PENDING}, '', '', root_pool_id, username FROM works
        UNION ALL
        SELECT NULL, start_time, 'system', '{AuditAction.WORKFLOW_STARTED}', 'workflow/' || name, image || {_PENDING},
            image || {_RUNNING}, 'reconciled', '', root_pool_id, username FROM works WHERE start_time IS NOT NULL
        UNION ALL
        SELECT NULL, end_time,
            CASE WHEN cancelled_by = '' THEN 'system' ELSE cancelled_by END,
            CASE WHEN cancelled_by = '' THEN '{AuditAction.WORKFLOW_ENDED}' ELSE '{AuditAction.WORKFLOW_CANCELED}' END,
            'workflow/' || name,
            image || CASE WHEN start_time IS NULL THEN {_PENDING} ELSE {_RUNNING} END, image, '', '', root_pool_id,
            username FROM works WHERE end_time IS NOT NULL
        UNION ALL
        SELECT NULL, decision.time, 'system', '{AuditAction.WORKFLOW_PREEMPTED}', 'preemption/' || works.name, NULL,
            to_jsonb(decision) - ARRAY['message', 'for_workflow_id'], 'reconciled', '', works.root_pool_id, username
        FROM scheduling_decision decision JOIN works ON works.uuid = decision.workflow_id
        WHERE decision.action IN ('preempt', 'reclaim')
    ), numbered AS MATERIALIZED (
        SELECT entries.*,
            (SELECT max(id) FROM pools_auditentry) + row_number() OVER (ORDER BY time, old NULLS LAST) AS id
        FROM entries
    ), gone AS (
        DELETE FROM pools_auditentry USING numbered WHERE pools_auditentry.id = numbered.old
    ), revisions AS (
        UPDATE pools_configrevision SET audit_id = numbered.id, created_at = numbered.time
        FROM numbered WHERE numbered.old = pools_configrevision.audit_id
    )
    INSERT INTO pools_auditentry
        (id, time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)
    SELECT id, time, actor, action, object, before, after, description, request_id, pool_id, owner, pg_current_xact_id()
    FROM numbered ORDER BY id
"""


def last_entry() -> int:
    """The highest id in the audit trail."""
    found: int = execute_sql("SELECT COALESCE(max(id), 0) FROM pools_auditentry").fetchone()[0]
    return found


def write_audit_trail(times: Sequence[EntryTimes], now: datetime) -> None:
    """Write the entries again with these times, with those of the work that was submitted before now."""
    given: list[list[int] | list[datetime] | datetime] = [
        [each.after for each in times],
        [each.time for each in times],
        now,
    ]
    with pgtrigger.ignore(*_OWN_RULES):
        execute_sql(_WRITE, given)
        execute_sql(
            "SELECT setval(pg_get_serial_sequence('pools_auditentry', 'id'), (SELECT max(id) FROM pools_auditentry))"
        )


def age_images() -> None:
    """The images of pools have the ages of the pools, as if they had been written then."""
    aged = (
        "{0} = CASE WHEN {0} ? 'created_at' THEN {0} || jsonb_build_object('created_at', pool.created_at) ELSE {0} END"
    )
    with pgtrigger.ignore(*_OWN_RULES):
        execute_sql(
            f"UPDATE pools_auditentry SET {aged.format('before')}, {aged.format('after')}"
            " FROM pools_pool pool WHERE object = 'pool/' || pool.name"
        )


def write_change_times() -> None:
    """Pools, cohorts and namespaces were changed when their last entries say so: also since when a subpool drains."""
    with pgtrigger.ignore(*_RULES_OF_ROWS):
        for table, name in (("pool", "name"), ("cohort", "name"), ("gpuquota", "namespace")):
            execute_sql(
                f"UPDATE pools_{table} SET updated_at = last.time FROM (SELECT object, max(time) AS time"
                f" FROM pools_auditentry GROUP BY object) last"
                f" WHERE replace(split_part(object, '/', 1), '_', '') = '{table}'"
                f" AND split_part(object, '/', 2) = {name}"
            )
