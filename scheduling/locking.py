"""The locks of scheduling's own tables. They continue the order of :mod:`pools.locking`.

| # | lock | row or advisory lock | held |
|---|------|----------------------|------|
| 0 | scheduling cycle of a backend | advisory lock `CYCLE_LOCK_SPACE`, backend id | around many transactions |
| 0 | full evaluation of a backend | advisory lock `EVALUATION_LOCK_SPACE`, backend id | while a cycle may run |
| 0 | render turn of a user | advisory lock `RENDER_LOCK_SPACE`, user id | while files of a request are read, before 6 |
| 0 | forecast turn of a user | advisory lock `FORECAST_LOCK_SPACE`, user id | while a dry run is forecast |
| 0 | what-if turn of a user | advisory lock `WHAT_IF_LOCK_SPACE`, user id | while a what-if is answered |
| 0 | replay of history | advisory lock `LONG_WORK_LOCK_SPACE`, 1 | while a replay runs, with its pauses |
| 0 | turn of long background work | advisory lock `LONG_WORK_LOCK_SPACE`, 0 | while such work runs |
| 1–10 | the ledger | :mod:`pools.locking` | to the end of the transaction |

Workflows, groups and tasks have no locks of their own in transitions: a transition holds the pool tree. `lock_workflow`
and `lock_workflow_config` are the only lock of their transaction, and so are `lock_usage_progress`,
`lock_notice_progress` and `lock_notice_target`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

from django.db import Error

from pools.database.driver import is_in_transaction
from pools.database.errors import is_database_away
from pools.database.statements import execute_sql
from pools.domain.errors import Busy, Throttled
from pools.models import NoticeProgress, NoticeTarget
from scheduling.models import UsageProgress, Workflow, WorkflowConfig

CYCLE_LOCK_SPACE = 0x05E7
"""First key of the advisory locks of scheduling cycles; the second key is the id of the backend."""

EVALUATION_LOCK_SPACE = 0x05E8
"""First key of the advisory locks of full evaluations, which run concurrently with a cycle and write only their
result."""


RENDER_LOCK_SPACE = 0x05E9
"""First key of the advisory locks of users whose templates are being rendered; the second key is the id of the user."""

FORECAST_LOCK_SPACE = 0x05EB
"""First key of the advisory locks of users whose dry run is being forecast; the second key is the id of the user."""

WHAT_IF_LOCK_SPACE = 0x05ED
"""First key of the advisory locks of users whose what-if is being answered; the second key is the id of the user."""

LONG_WORK_LOCK_SPACE = 0x05EC
"""First key of the advisory locks of long background work: the second key is 0 for the turn, 1 for a replay."""

RENDER_TURN_WAIT_SECONDS = 0.25
RENDER_RETRY_SECONDS = 2
_RENDER_TURN_TRIES = 5


ENGINE_QUESTIONS = 2
"""What-ifs and forecasts at the same time in one web process: fewer than its threads, so that one stays free."""
_engine_places = threading.BoundedSemaphore(ENGINE_QUESTIONS)


class AlreadyReconciling(Busy):
    """Another process holds this advisory lock of the backend."""


class LongWorkRuns(Busy):
    """Another process does long background work."""


@contextmanager
def _try_lock(space: int, key: int, *, tries: int = 1, pause: float = 0) -> Iterator[bool]:
    """Hold an advisory lock, if one of the tries gets it; yields whether one did. `pause` is in seconds.

    The lock belongs to the connection, so PostgreSQL drops the lock when the process dies or the connection is lost.
    """
    held = False
    for left in reversed(range(tries)):
        held = bool(execute_sql("SELECT pg_try_advisory_lock(%s, %s)", [space, key]).fetchone()[0])
        if held or not left:
            break
        execute_sql("SELECT pg_sleep(%s)", [pause])
    try:
        yield held
    finally:
        if held:
            try:
                execute_sql("SELECT pg_advisory_unlock(%s, %s)", [space, key])
            except Error as error:
                if not is_database_away(error):
                    raise


@contextmanager
def hold_backend_lock(backend_id: int, *, space: int, timeout: float = 0) -> Iterator[None]:
    """Hold an advisory lock of a backend; wait for it at most `timeout` seconds. Raises AlreadyReconciling."""
    with _try_lock(space, backend_id, tries=1 + round(timeout * 10), pause=0.1) as held:
        if not held:
            raise AlreadyReconciling("This backend is being reconciled already; try again in a moment.", retry_after=1)
        yield


@contextmanager
def hold_long_work_turn() -> Iterator[None]:
    """Let one long piece of background work run at a time, in all processes of all workers, so that one stays free
    for changes and notifications. Raises LongWorkRuns without any wait."""
    with _try_lock(LONG_WORK_LOCK_SPACE, 0) as held:
        if not held:
            raise LongWorkRuns("Other long background work is running; try again in a moment.", retry_after=1)
        yield


@contextmanager
def try_replay() -> Iterator[bool]:
    """Let one replay of history run at a time, in all workers. False without any wait if another one runs: a replay
    that waited in its task would hold a process of the worker, and new work would wait for that."""
    with _try_lock(LONG_WORK_LOCK_SPACE, 1) as is_free:
        yield is_free


def end_silent_long_work(silent_for: timedelta) -> int:
    """End the sessions that hold the turn of long work or the place of replays and have sent nothing for this long, and
    return their number. Their processes are frozen or cannot be reached: PostgreSQL keeps the locks of a session until
    its connection ends, which the freezing of a process does not do. A process that wakes up finds its connection
    lost. A session whose statement runs is left alone, except where it only waits for its client to read the answer."""
    (ended,) = execute_sql(
        """
        SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 1000)) FROM (
            SELECT DISTINCT pid FROM pg_locks AS held JOIN pg_stat_activity AS holder USING (pid)
            WHERE held.locktype = 'advisory' AND held.classid = %s AND held.objsubid = 2 AND held.granted
                AND holder.datname = current_database() AND pid <> pg_backend_pid()
                AND (holder.state <> 'active' OR holder.wait_event_type = 'Client')
                AND holder.state_change < now() - %s * interval '1 second'
        ) AS silent
        """,
        [LONG_WORK_LOCK_SPACE, silent_for.total_seconds()],
    ).fetchone()
    return int(ended)


@contextmanager
def hold_render_turn(user_id: int) -> Iterator[None]:
    """Let one request of a user at a time render templates, in all web processes. Raises Throttled after a short wait,
    because a request that waits holds a thread of the web server."""
    pause = RENDER_TURN_WAIT_SECONDS / _RENDER_TURN_TRIES
    with _try_lock(RENDER_LOCK_SPACE, user_id, tries=_RENDER_TURN_TRIES, pause=pause) as held:
        if not held:
            raise Throttled(
                "Templates of another request of yours are being rendered, and only one request of a user is rendered "
                f"at a time. Nothing was stored: send this again in {RENDER_RETRY_SECONDS} seconds, or send several "
                "workflows in one request.",
                retry_after=RENDER_RETRY_SECONDS,
            )
        yield


@contextmanager
def try_forecast_turn(user_id: int) -> Iterator[bool]:
    """Let one dry run of a user at a time be forecast, in all web processes, because each costs up to seconds of
    processor time. False without any wait if another one is, or if this process answers enough other questions."""
    with _engine_place() as has_place, _try_lock(FORECAST_LOCK_SPACE, user_id) as has_turn:
        yield has_place and has_turn


@contextmanager
def hold_what_if_turn(user_id: int) -> Iterator[None]:
    """Let one what-if of a user at a time be answered, in all web processes. Raises Throttled after a short wait if
    another one is, or if this process answers enough other questions."""
    pause = RENDER_TURN_WAIT_SECONDS / _RENDER_TURN_TRIES
    with (
        _engine_place(RENDER_TURN_WAIT_SECONDS) as has_place,
        _try_lock(WHAT_IF_LOCK_SPACE, user_id, tries=_RENDER_TURN_TRIES, pause=pause) as has_turn,
    ):
        if not has_turn:
            raise Throttled(
                "Another what-if of yours is being answered, and only one of a user is answered at a time. Send this "
                f"again in {RENDER_RETRY_SECONDS} seconds.",
                retry_after=RENDER_RETRY_SECONDS,
            )
        if not has_place:
            raise Throttled(
                f"{ENGINE_QUESTIONS} questions of other people are being answered. Send this again in "
                f"{RENDER_RETRY_SECONDS} seconds.",
                retry_after=RENDER_RETRY_SECONDS,
            )
        yield


@contextmanager
def _engine_place(timeout: float = 0) -> Iterator[bool]:
    """A place for one question to the engine in this process, if one is free in time."""
    is_free = _engine_places.acquire(timeout=timeout) if timeout else _engine_places.acquire(blocking=False)
    try:
        yield is_free
    finally:
        if is_free:
            _engine_places.release()


def lock_workflow(pk: UUID) -> Workflow:
    """Lock the row of a workflow until the transaction ends."""
    assert is_in_transaction(), "a lock outside a transaction protects nothing"
    return Workflow.objects.select_for_update(of=("self",), no_key=True).get(pk=pk)


def lock_workflow_config() -> WorkflowConfig:
    """Lock the one row of the scheduler settings until the transaction ends."""
    assert is_in_transaction(), "a lock outside a transaction protects nothing"
    return WorkflowConfig.objects.select_for_update().get(pk=1)


def lock_usage_progress() -> UsageProgress:
    """Lock the one row of the record of use until the transaction ends, so that one process computes sums."""
    assert is_in_transaction(), "a lock outside a transaction protects nothing"
    UsageProgress.objects.bulk_create([UsageProgress(pk=1)], ignore_conflicts=True)
    return UsageProgress.objects.select_for_update().get(pk=1)


def lock_notice_progress() -> NoticeProgress | None:
    """Lock the position up to which notices were made until the transaction ends. None if another process holds it, or
    there is none yet."""
    assert is_in_transaction(), "a lock outside a transaction protects nothing"
    return NoticeProgress.objects.select_for_update(skip_locked=True).filter(pk=1).first()


def lock_notice_target(pk: int) -> NoticeTarget | None:
    """Lock a target of notices until the transaction ends; None if it was removed."""
    assert is_in_transaction(), "a lock outside a transaction protects nothing"
    return NoticeTarget.objects.select_for_update(of=("self",), no_key=True).filter(pk=pk).first()
