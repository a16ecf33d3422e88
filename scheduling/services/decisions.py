"""Builds the records of scheduling decisions, and deletes old ones: both their age and their number are limited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings

from pools.database.statements import execute_sql
from pools.database.transactions import database_time
from scheduling.domain.decision_messages import DecisionFacts, anonymous_decision_message, decision_message
from scheduling.models import Decision, SchedulerDifference, SchedulingCycle
from scheduling.models.decision import MIN_RETENTION_DAYS

MAX_DECISIONS = 1_000_000
"""The oldest decisions beyond this number are deleted too, except those that are younger than a day."""

BATCH_SIZE = 10_000


@dataclass(frozen=True, slots=True)
class DecisionRows:
    """The rows that a decision is about, by their ids; `beneficiary` is the workflow that gained, if one did."""

    backend: int
    root_pool: int
    pool: int
    workflow: UUID
    group: UUID
    beneficiary: UUID | None = None


def build_decision(
    facts: DecisionFacts, rows: DecisionRows, *, time: datetime, tasks: Sequence[str], nodes: Sequence[str]
) -> Decision:
    """A decision, not yet saved: the caller saves many in one statement. `nodes` has the node of each task, in the
    order of the tasks: after a start or a move the node on which the task runs, else the node from which it was
    evicted."""
    return Decision(
        time=time,
        action=facts.action,
        backend_id=rows.backend,
        root_pool_id=rows.root_pool,
        pool_id=rows.pool,
        workflow_id=rows.workflow,
        group_id=rows.group,
        tasks=list(tasks),
        nodes=list(nodes),
        gpus=facts.gpus,
        for_workflow_id=rows.beneficiary,
        message=decision_message(facts),
        message_without_beneficiary=anonymous_decision_message(facts),
    )


def delete_old_decisions() -> int:
    """Delete the decisions that are too old or too many, one batch after the other; returns the number of deleted
    decisions."""
    now = database_time()
    oldest = now - timedelta(days=settings.OSMO.decision_retention_days)
    SchedulingCycle.objects.filter(time__lt=oldest).delete()
    SchedulerDifference.objects.filter(time__lt=oldest).delete()
    deleted = 0
    while True:
        count: int = execute_sql(
            """
            DELETE FROM scheduling_decision WHERE id IN (
                SELECT id FROM scheduling_decision
                WHERE time < %s OR time < %s AND id <= (
                    SELECT id FROM scheduling_decision ORDER BY id DESC OFFSET %s LIMIT 1
                )
                ORDER BY id LIMIT %s
            )
            """,
            [oldest, now - timedelta(days=MIN_RETENTION_DAYS, minutes=1), MAX_DECISIONS, BATCH_SIZE],
        ).rowcount
        deleted += count
        if count < BATCH_SIZE:
            return deleted
