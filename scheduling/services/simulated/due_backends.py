"""The simulated backends on which the periodic task finds something to do.

Most backends are idle at most ticks. A message to the worker for each of them would fill its queue, and the
notification of a submission would wait behind them.
"""

from __future__ import annotations

from datetime import datetime

from pools.database.statements import execute_sql
from pools.domain.audit_actions import AuditAction
from pools.models import Backend
from scheduling.models import BackendSchedulingState, Group
from scheduling.services.simulated.dirty import IS_CLEAN_SQL, Scope, needs_full_cycle


def due_backends(now: datetime) -> list[int]:
    """Ids of the simulated backends that a reconciliation in the scope of the periodic task would change or plan, the
    least recently planned first. The number of queries does not depend on the number of backends."""
    simulated = Backend.objects.filter(kind=Backend.Kind.SIMULATED)
    online = set(simulated.filter(offline=False).values_list("pk", flat=True))
    states = {state.backend_id: state for state in BackendSchedulingState.objects.filter(backend__in=simulated)}
    rows = execute_sql(f"SELECT backend_id FROM scheduling_backendschedulingstate WHERE {IS_CLEAN_SQL}")
    unchanged = {backend_id for (backend_id,) in rows}
    clean = {
        pk: states[pk] for pk in states.keys() & online & unchanged if not needs_full_cycle(states[pk], Scope.TICK, now)
    }
    due = (online - clean.keys()) | _with_due_groups(now) | _with_new_work(clean)
    return sorted(due, key=lambda pk: (states[pk].full_cycle_at.timestamp() if pk in states else 0.0, pk))


def _with_due_groups(now: datetime) -> set[int]:
    groups = Group.objects.filter(due_at__lte=now, workflow__root_pool__backend__kind=Backend.Kind.SIMULATED)
    return set(groups.values_list("workflow__root_pool__backend_id", flat=True).distinct())


def _with_new_work(states: dict[int, BackendSchedulingState]) -> set[int]:
    """The backends to which work was submitted since their state."""
    if not states:
        return set()
    first = min(int(state.snapshot.partition(":")[0]) for state in states.values())
    return {backend_id for (backend_id,) in execute_sql(_NEW_WORK_SQL, [str(first), list(states)])}


# The first condition finds the recent entries in an index; the last one is exact for each backend.
_NEW_WORK_SQL = f"""
    SELECT DISTINCT state.backend_id
    FROM pools_auditentry AS entry
    JOIN pools_pool AS pool ON pool.id = entry.pool_id
    JOIN scheduling_backendschedulingstate AS state ON state.backend_id = pool.backend_id
    WHERE entry.transaction >= %s::xid8 AND entry.action = '{AuditAction.WORKFLOW_SUBMITTED}'
        AND state.backend_id = ANY(%s) AND NOT pg_visible_in_snapshot(entry.transaction, state.snapshot::pg_snapshot)
"""
