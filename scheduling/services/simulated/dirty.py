"""Dirty tracking of a simulated backend: whether everything has to be planned, or new work alone.

If only submissions were committed since the last full cycle, all gangs that waited then still wait: more work uses
capacity and frees none. So it is enough to plan the new gangs together with the running ones. This misses two effects:
more waiting work in a leaf raises its fair share, and other leaves may reclaim. Therefore a full cycle becomes due, and
the periodic task runs it at a pace that leaves most of the time for new work.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.db import connection

from pools.database.prepared import read_first_row, read_rows
from pools.database.statements import execute_sql
from pools.domain.audit_actions import AuditAction
from pools.models import Backend
from pools.selectors.change_tokens import PLAN_TOKEN_SQL
from scheduling.models import BackendSchedulingState

FULL_CYCLE_PACE = 20
"""The pause before the next full cycle is this many times the duration of the last one, so a submission seldom has to
wait for one."""

MAX_STATE_AGE = timedelta(minutes=1)
"""A full cycle runs at least this often, even without a known change."""


class Scope(StrEnum):
    """The scope of a reconciliation: everything, at the request of a person; the possible effects of a notification; or
    the work that the periodic task finds due."""

    THOROUGH = "thorough"
    HINT = "hint"
    TICK = "tick"


@dataclass(frozen=True, slots=True)
class SchedulingSnapshot:
    """One snapshot of the database, and the token of the backend's plan that it sees.

    `seen` is the snapshot once more; None in a transaction that has written something, which sees that too."""

    snapshot: str
    plan_token: str
    seen: str | None = None


def take_snapshot(backend: Backend) -> SchedulingSnapshot:
    """The snapshot of the current transaction."""
    return SchedulingSnapshot(*read_rows(_SNAPSHOT_SQL, [backend.pk])[0])


_SNAPSHOT_SQL = f"""
    SELECT pg_current_snapshot()::text, ({PLAN_TOKEN_SQL}),
        CASE WHEN pg_current_xact_id_if_assigned() IS NULL THEN pg_current_snapshot()::text END
"""


def mark_unfinished(backend: Backend) -> None:
    """Note that several transactions will change the backend, whose lock is held. If the process dies between them, the
    next reconciliation plans everything. Other changes move the token of the plan (:mod:`pools.models.change_tokens`).
    """
    BackendSchedulingState.objects.filter(backend=backend).update(unfinished=True)


def find_clean_state(backend: Backend) -> BackendSchedulingState | None:
    """The state after the last full cycle, if nothing but submissions was committed since."""
    row = read_first_row(_CLEAN_STATE_SQL, [backend.pk])
    return None if row is None else BackendSchedulingState.from_db(connection.alias, _STATE, row)


_STATE = [field.attname for field in BackendSchedulingState._meta.concrete_fields]
IS_CLEAN_SQL = f"NOT unfinished AND plan_token = ({PLAN_TOKEN_SQL.replace('%s', 'backend_id')})"
_CLEAN_STATE_SQL = f"""
    SELECT {", ".join(_STATE)} FROM scheduling_backendschedulingstate WHERE backend_id = %s AND {IS_CLEAN_SQL}
"""


def find_sufficient_state(backend: Backend, scope: Scope, now: datetime) -> BackendSchedulingState | None:
    """The clean state, if it is enough for this scope; None: everything has to be planned."""
    state = None if scope is Scope.THOROUGH else find_clean_state(backend)
    return None if state is None or needs_full_cycle(state, scope, now) else state


def needs_full_cycle(state: BackendSchedulingState, scope: Scope, now: datetime) -> bool:
    """Whether everything has to be planned although this state is clean."""
    since = now - state.full_cycle_at
    # The periodic task comes first, so that no submission waits for a full cycle. If that task does not run, a
    # notification starts the full cycle.
    longest = MAX_STATE_AGE if scope is Scope.TICK else 2 * MAX_STATE_AGE
    is_due = state.full_cycle_due and since.total_seconds() >= FULL_CYCLE_PACE * state.full_cycle_seconds
    return since >= longest or (scope is Scope.TICK and (is_due or state.waits_for_external))


def new_workflow_names(state: BackendSchedulingState) -> list[str]:
    """The names of the workflows submitted since to the backend's pools. The audit trail has the transaction of
    each."""
    rows = execute_sql(
        f"""
        SELECT substr(object, length('workflow/') + 1) FROM pools_auditentry
        WHERE transaction >= pg_snapshot_xmin(%s::pg_snapshot) AND action = '{AuditAction.WORKFLOW_SUBMITTED}'
            AND NOT pg_visible_in_snapshot(transaction, %s::pg_snapshot)
            AND pool_id IN (SELECT id FROM pools_pool WHERE backend_id = %s)
        """,
        [state.snapshot, state.snapshot, state.backend_id],
    )
    return [name for (name,) in rows]


def mark_clean(
    backend: Backend, snapshot: SchedulingSnapshot, *, now: datetime, seconds: float, waits_for_external: bool
) -> None:
    """Everything was planned as of this snapshot, and the plan is applied. The lock of the backend is held."""
    done = _full_cycle(snapshot, now, seconds, waits_for_external)
    defaults = {**done, "plan_token": snapshot.plan_token, "unfinished": False}
    BackendSchedulingState.objects.update_or_create(backend=backend, defaults=defaults)


def mark_still_clean(
    backend: Backend, snapshot: SchedulingSnapshot, *, now: datetime, seconds: float, waits_for_external: bool
) -> None:
    """A full cycle without the lock of the backend found nothing to do but new work. What a reconciliation at the same
    time says of the plan stays."""
    done = _full_cycle(snapshot, now, seconds, waits_for_external)
    BackendSchedulingState.objects.filter(backend=backend).update(**done)


def _full_cycle(
    snapshot: SchedulingSnapshot, now: datetime, seconds: float, waits_for_external: bool
) -> dict[str, Any]:
    return {
        "snapshot": snapshot.snapshot,
        "full_cycle_at": now,
        "full_cycle_seconds": seconds,
        "full_cycle_due": False,
        "waits_for_external": waits_for_external,
    }


def mark_new_work_done(
    state: BackendSchedulingState, snapshot: SchedulingSnapshot, *, waits_for_external: bool
) -> None:
    """New work was planned as of this snapshot; some of it may wait for changes elsewhere.

    The next submission must not wait for the disk to confirm this, so the commit is asynchronous. If a crash loses it,
    the work is looked at once more, and has started by then."""
    execute_sql(_NEW_WORK_DONE_SQL, [snapshot.snapshot, waits_for_external, state.backend_id])


# Sent together, so both statements are one transaction, also outside of a block.
_NEW_WORK_DONE_SQL = """
    SELECT set_config('synchronous_commit', 'off', true);
    UPDATE scheduling_backendschedulingstate SET snapshot = %s, full_cycle_due = true,
        waits_for_external = waits_for_external OR %s
    WHERE backend_id = %s
"""
