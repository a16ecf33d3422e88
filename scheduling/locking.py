"""The locks of scheduling's own tables. They continue the order of :mod:`pools.locking`.

| # | lock | row or advisory lock | held |
|---|------|----------------------|------|
| 0 | scheduling cycle of a backend | advisory lock `CYCLE_LOCK_SPACE`, backend id | around many transactions |
| 0 | full evaluation of a backend | advisory lock `EVALUATION_LOCK_SPACE`, backend id | while a cycle may run |
| 1–8 | the ledger | :mod:`pools.locking` | to the end of the transaction |

Workflows, groups and tasks have no locks of their own in transitions: a transition holds the pool tree. `lock_workflow`
and `lock_workflow_config` are the only lock of their transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection

from pools.domain.errors import Busy
from scheduling.models import Workflow, WorkflowConfig

CYCLE_LOCK_SPACE = 0x05E7
"""First key of the advisory locks of scheduling cycles; the second key is the id of the backend."""

EVALUATION_LOCK_SPACE = 0x05E8
"""First key of the advisory locks of full evaluations, which run concurrently with a cycle and write only their
result."""


class AlreadyReconciling(Busy):
    """Another process holds this advisory lock of the backend."""


@contextmanager
def hold_backend_lock(backend_id: int, *, space: int, timeout: float = 0) -> Iterator[None]:
    """Hold an advisory lock of a backend; wait for it at most `timeout` seconds. Raises AlreadyReconciling.

    The lock belongs to the connection, so PostgreSQL drops the lock when the process dies or the connection is lost.
    """
    with connection.cursor() as cursor:
        for _ in range(1 + round(timeout * 10)):
            cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [space, backend_id])
            if cursor.fetchone()[0]:
                break
            cursor.execute("SELECT pg_sleep(%s)", [0.1 if timeout else 0])
        else:
            raise AlreadyReconciling("This backend is being reconciled already; try again in a moment.", retry_after=1)
    try:
        yield
    finally:
        with suppress(OperationalError, InterfaceError), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [space, backend_id])


def lock_workflow(pk: UUID) -> Workflow:
    """Lock the row of a workflow until the transaction ends."""
    assert connection.in_atomic_block, "a lock outside a transaction protects nothing"
    return Workflow.objects.select_for_update(of=("self",), no_key=True).get(pk=pk)


def lock_workflow_config() -> WorkflowConfig:
    """Lock the one row of the scheduler settings until the transaction ends."""
    assert connection.in_atomic_block, "a lock outside a transaction protects nothing"
    return WorkflowConfig.objects.select_for_update().get(pk=1)
