"""The locks of scheduling's own tables. They continue the order of :mod:`pools.locking`.

| # | lock | row or advisory lock | held |
|---|------|----------------------|------|
| 0 | scheduling cycle of a backend | advisory lock `CYCLE_LOCK_SPACE`, backend id | around many transactions |
| 0 | full evaluation of a backend | advisory lock `EVALUATION_LOCK_SPACE`, backend id | while a cycle may run |
| 0 | render turn of a user | advisory lock `RENDER_LOCK_SPACE`, user id | while files of a request are read, before 5 |
| 1–9 | the ledger | :mod:`pools.locking` | to the end of the transaction |
| after 5 | live work of a user | advisory lock `LOCK_LIVE_WORK_SQL`, user id; shared far below the limit | the same |

Workflows, groups and tasks have no locks of their own in transitions: a transition holds the pool tree. `lock_workflow`
and `lock_workflow_config` are the only lock of their transaction, and so is `lock_usage_progress`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection

from pools.domain.errors import Busy, Throttled
from scheduling.models import UsageProgress, Workflow, WorkflowConfig

CYCLE_LOCK_SPACE = 0x05E7
"""First key of the advisory locks of scheduling cycles; the second key is the id of the backend."""

EVALUATION_LOCK_SPACE = 0x05E8
"""First key of the advisory locks of full evaluations, which run concurrently with a cycle and write only their
result."""


RENDER_LOCK_SPACE = 0x05E9
"""First key of the advisory locks of users whose templates are being rendered; the second key is the id of the user."""

LOCK_LIVE_WORK_SQL = f"SELECT pg_advisory_xact_lock({0x05EA}, %s)"
SHARE_LIVE_WORK_SQL = f"SELECT pg_advisory_xact_lock_shared({0x05EA}, %s)"
"""The lock under which the live workflows of a user (id) are counted (:mod:`scheduling.services.workflows.live_work`):
alone, or together with other small submissions."""

RENDER_TURN_WAIT_SECONDS = 0.25
RENDER_RETRY_SECONDS = 2
_RENDER_TURN_TRIES = 5


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


@contextmanager
def hold_render_turn(user_id: int) -> Iterator[None]:
    """Let one request of a user at a time render templates, in all web processes. Raises Throttled after a short wait,
    because a request that waits holds a thread of the web server. Like every lock of a connection, it ends with it."""
    with connection.cursor() as cursor:
        for _ in range(_RENDER_TURN_TRIES):
            cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [RENDER_LOCK_SPACE, user_id])
            if cursor.fetchone()[0]:
                break
            cursor.execute("SELECT pg_sleep(%s)", [RENDER_TURN_WAIT_SECONDS / _RENDER_TURN_TRIES])
        else:
            raise Throttled(
                "Templates of another request of yours are being rendered, and only one request of a user is rendered "
                f"at a time. Nothing was stored: send this again in {RENDER_RETRY_SECONDS} seconds, or send several "
                "workflows in one request.",
                retry_after=RENDER_RETRY_SECONDS,
            )
    try:
        yield
    finally:
        with suppress(OperationalError, InterfaceError), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [RENDER_LOCK_SPACE, user_id])


def lock_workflow(pk: UUID) -> Workflow:
    """Lock the row of a workflow until the transaction ends."""
    assert connection.in_atomic_block, "a lock outside a transaction protects nothing"
    return Workflow.objects.select_for_update(of=("self",), no_key=True).get(pk=pk)


def lock_workflow_config() -> WorkflowConfig:
    """Lock the one row of the scheduler settings until the transaction ends."""
    assert connection.in_atomic_block, "a lock outside a transaction protects nothing"
    return WorkflowConfig.objects.select_for_update().get(pk=1)


def lock_usage_progress() -> UsageProgress:
    """Lock the one row of the record of use until the transaction ends, so that one process computes sums."""
    assert connection.in_atomic_block, "a lock outside a transaction protects nothing"
    UsageProgress.objects.bulk_create([UsageProgress(pk=1)], ignore_conflicts=True)
    return UsageProgress.objects.select_for_update().get(pk=1)
