"""What has to be looked at: everything, or new work alone because all else is known to be at rest.

Where nothing but submissions came since a settling came to rest, whoever waited then waits still: more work takes room
and gives none. So it is enough to look at the new gangs beside what runs. Two things are not seen that way: with more
work waiting in a leaf its fair share grows, and others may reclaim; so the look at everything is owed, and paid by the
beat at a pace that leaves most of the time for new work.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.db import connection

from pools.models import Backend
from scheduling.models import BackendDirtyMark, BackendSchedulingState

FULL_CYCLE_PACE = 20
"""An owed look at everything waits so many times as long as the last one took: who submits meets one of them seldom."""

MAX_STATE_AGE = timedelta(minutes=1)
"""So often everything is looked at, whatever is known: rows that were changed past the services tell nobody."""


class Scope(StrEnum):
    """Who asks for a settling: a person, who wants everything looked at; a hint; or the beat, which pays what is
    owed."""

    THOROUGH = "thorough"
    HINT = "hint"
    TICK = "tick"


@dataclass(frozen=True, slots=True)
class SchedulingSnapshot:
    """One snapshot of the database, and the moves of a backend that it sees."""

    snapshot: str
    dirty_marks: Collection[int]


def take_snapshot(backend: Backend) -> SchedulingSnapshot:
    """Inside a snapshot: which one it is."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_snapshot()::text")
        (snapshot,) = cursor.fetchone()
    return SchedulingSnapshot(
        snapshot, list(BackendDirtyMark.objects.filter(backend=backend).values_list("pk", flat=True))
    )


def mark_dirty(backend: Backend) -> BackendDirtyMark:
    """Leave a mark before several transactions that change the backend. If the process dies between them, the next
    reconciliation plans everything. Other changes are marked by triggers (:mod:`scheduling.models.change_triggers`)."""
    return BackendDirtyMark.objects.create(backend=backend)


def mark_plan_started(backend: Backend, snapshot: SchedulingSnapshot) -> SchedulingSnapshot:
    """Mark the backend before a plan is applied. The snapshot returned includes the mark, so :func:`mark_clean` deletes
    it with those that the plan has dealt with."""
    return SchedulingSnapshot(snapshot.snapshot, [*snapshot.dirty_marks, mark_dirty(backend).pk])


def find_clean_state(backend: Backend) -> BackendSchedulingState | None:
    """Its rest, where it came to one and nothing has moved since: a look at everything will hardly find something to
    do."""
    if BackendDirtyMark.objects.filter(backend=backend).exists():
        return None
    return BackendSchedulingState.objects.filter(backend=backend).first()


def find_sufficient_state(backend: Backend, scope: Scope, now: datetime) -> BackendSchedulingState | None:
    """What is known of its rest, where that is enough for this look; None: everything has to be looked at."""
    rest = None if scope is Scope.THOROUGH else find_clean_state(backend)
    if rest is None:
        return None
    since = now - rest.full_cycle_at
    # The beat comes first, so that nobody who submits waits for a look at everything; but if it is gone, a hint does.
    longest = MAX_STATE_AGE if scope is Scope.TICK else 2 * MAX_STATE_AGE
    is_due = rest.full_cycle_due and since.total_seconds() >= FULL_CYCLE_PACE * rest.full_cycle_seconds
    if since >= longest or (scope is Scope.TICK and (is_due or rest.waits_for_external)):
        return None
    return rest


def new_workflow_names(state: BackendSchedulingState) -> list[str]:
    """The workflows submitted to its pools since, by name. The audit trail knows the transaction of each."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT substr(object, length('workflow/') + 1) FROM pools_auditentry
            WHERE transaction >= pg_snapshot_xmin(%s::pg_snapshot) AND action = 'workflow.submitted'
                AND NOT pg_visible_in_snapshot(transaction, %s::pg_snapshot)
                AND pool_id IN (SELECT id FROM pools_pool WHERE backend_id = %s)
            """,
            [state.snapshot, state.snapshot, state.backend_id],
        )
        return [name for (name,) in cursor.fetchall()]


def mark_clean(
    backend: Backend, snapshot: SchedulingSnapshot, *, now: datetime, seconds: float, waits_for_external: bool
) -> None:
    """Everything was looked at as of this moment, and what was seen to have moved is dealt with."""
    BackendSchedulingState.objects.update_or_create(
        backend=backend,
        defaults={
            "snapshot": snapshot.snapshot,
            "full_cycle_at": now,
            "full_cycle_seconds": seconds,
            "full_cycle_due": False,
            "waits_for_external": waits_for_external,
        },
    )
    BackendDirtyMark.objects.filter(pk__in=snapshot.dirty_marks).delete()


def mark_new_work_done(
    state: BackendSchedulingState, snapshot: SchedulingSnapshot, *, waits_for_external: bool
) -> None:
    """What was new is looked at as of this moment; some of it may wait for what moves elsewhere."""
    state.snapshot, state.full_cycle_due, state.waits_for_external = (
        snapshot.snapshot,
        True,
        state.waits_for_external or waits_for_external,
    )
    state.save(update_fields=["snapshot", "full_cycle_due", "waits_for_external"])
