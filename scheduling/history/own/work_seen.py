"""When the cycles of a recorded history saw that work came and ended, by the transactions in the audit trail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from pools.domain.audit_actions import AuditAction
from pools.models import AuditEntry, Backend, Pool
from scheduling.history.replay.history import RecordedJob
from scheduling.history.replay.seen_order import SeenOrder

LONGEST: Final = timedelta(minutes=10)
"""No transaction that changes work is open for longer."""
_SUBMITTED = AuditAction.WORKFLOW_SUBMITTED
_ENDED = (AuditAction.WORKFLOW_ENDED, AuditAction.WORKFLOW_CANCELED)


def in_order_seen(
    jobs: Mapping[UUID, RecordedJob], backend: Backend, since: datetime, until: datetime, order: SeenOrder
) -> dict[UUID, RecordedJob]:
    """The jobs with the times at which the cycles of the window saw them come and end."""
    roots = Pool.objects.roots().filter(backend=backend).values("id")
    entries = AuditEntry.objects.filter(
        pool_id__in=roots, action__in=[_SUBMITTED, *_ENDED], time__gte=since - LONGEST, time__lte=until
    )
    came: dict[str, int] = {}
    went: dict[str, int] = {}
    for action, subject, transaction in entries.values_list("action", "object", "transaction"):
        (came if action == _SUBMITTED else went)[subject.removeprefix("workflow/")] = int(transaction)
    found = {}
    for group, job in jobs.items():
        name = job.name.partition("/")[0]
        submitted, ended = came.get(name), went.get(name)
        found[group] = replace(
            job,
            transaction=submitted,
            ready_seen=0 if job.after else order.seen_from(job.ready, submitted),
            ended_seen=0 if job.ended is None else order.seen_from(job.ended, ended),
        )
    return found
