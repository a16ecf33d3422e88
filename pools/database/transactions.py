"""The transaction of every change: it records its actor, limits the wait for locks, and announces its changes on
commit.

Triggers note in the transaction's setting `osmo.changes` which backends and GPU namespaces a statement changed
(:mod:`scheduling.models.change_triggers`), so no service has to remember it. :func:`change` reads the note and sends
:data:`pools.signals.changes_committed`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from django.conf import settings
from django.db import Error, IntegrityError, OperationalError, connection, transaction
from psycopg import errors as pg
from psycopg import pq

from pools.database.errors import is_database_away
from pools.database.prepared import (
    Parameters,
    PendingBegin,
    Row,
    may_send_later,
    read_and_end,
    read_rows,
    send_statements,
)
from pools.domain.errors import Busy, Conflict, Fault, RuleName, Violation
from pools.domain.roles import Actor
from pools.domain.stored_text import is_storable
from pools.signals import changes_committed

RETRY_AFTER = 1

request_id: ContextVar[str] = ContextVar("osmo_request_id", default="")
"""The id of the request that is being served, for the audit trail."""


class DatabaseLost(Busy):
    """The connection to the database was lost during a transaction, with every lock that it held."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a transaction: backends (by id) on which work may start, and namespaces whose workers hold less
    than before."""

    backend_ids: frozenset[int] = frozenset()
    namespaces: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, note: str | None) -> Changes:
        """Parse the note of the triggers: `,changed:3,submitted:4,namespace:team-a,`."""
        items = [item.partition(":") for item in (note or "").split(",") if item]
        return cls(
            frozenset(int(name) for kind, _, name in items if kind != "namespace"),
            frozenset(name for kind, _, name in items if kind == "namespace"),
        )


def reset_changes() -> None:
    """Clear the changes that this transaction has noted so far. A rollback to an earlier savepoint undoes this."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('osmo.changes', '', true)")


def read_changes() -> Changes:
    """The changes that this transaction has noted so far."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('osmo.changes', true)")
        return Changes.parse(cursor.fetchone()[0])


@contextmanager
def change(*, actor: Actor, description: str = "", controller_of: int | None = None) -> Iterator[None]:
    """A transaction in which `actor` changes the ledger.

    `controller_of` is the backend whose own controller writes here (the reconciliation of a simulated one, the agent of
    a cluster): it gets no announcement of its own changes on this backend.

    The audit triggers read actor, description and request id from the transaction's own settings. A timeout of
    a lock and a deadlock become :class:`Busy`: nothing was changed, the caller may try again. A lost connection becomes
    :class:`DatabaseLost`; its message says so if the outcome of the commit is unknown. A violated database constraint
    becomes :class:`Conflict` with the message of the constraint: services check first, so another change was faster.
    """
    is_committing = False
    is_outermost = not connection.in_atomic_block
    context = [
        "" if controller_of is None else str(controller_of),
        actor.username,
        description,
        request_id.get(),
        f"{settings.OSMO.lock_timeout_ms}ms",
    ]
    begin: PendingBegin | None = None
    last = _LastStatement() if is_outermost else None
    outer = _last.set(last)
    try:
        with transaction.atomic():
            if is_outermost:
                begin = _begin_with(context)
                yield
                is_committing = True
                if begin and begin.is_pending:
                    begin.take()  # there is nothing to commit, and the statements after the change are not part of it
                elif not connection.needs_rollback:
                    _announce_and_commit()
            else:
                with connection.cursor() as cursor:
                    cursor.execute(_OUTER_SQL + _CONTEXT_SQL, context)
                    before, controller, *_ = cursor.fetchone()
                yield
                _announce(before or "", controller or "")
    except IntegrityError as error:
        raise conflict_from_integrity_error(error) from error
    except Error as error:
        if isinstance(error.__cause__, pg.LockNotAvailable | pg.DeadlockDetected | pg.SerializationFailure):
            raise Busy(
                "Somebody else is changing this pool right now; nothing was changed, try again in a moment.",
                retry_after=RETRY_AFTER,
            ) from error
        if not is_database_away(error):
            raise
        if is_outermost and isinstance(error.__cause__, pg.ReadOnlySqlTransaction):
            connection.close()  # of a server that has become a standby; the next connection finds the new primary
        raise _database_lost(is_committing) from error
    finally:
        _last.reset(outer)
        if begin and begin.is_pending:
            begin.take()
        if last and last.is_registered:
            last.take()


class _LastStatement:
    """The last statement of an outermost change, until it is sent. Among the wrappers of Django's cursors, it refuses
    any other statement meanwhile, which would be sent before it."""

    def __init__(self) -> None:
        self.is_registered = False
        self._statement: tuple[str, Parameters, Callable[[list[Row]], object]]

    def register(self, sql: str, parameters: Parameters, receive: Callable[[list[Row]], object]) -> None:
        self._statement, self.is_registered = (sql, parameters, receive), True
        connection.execute_wrappers.append(self)

    def take(self) -> tuple[str, Parameters, Callable[[list[Row]], object]]:
        connection.execute_wrappers.remove(self)
        self.is_registered = False
        return self._statement

    def __call__(self, *_: Any) -> Any:
        raise AssertionError("a statement after the last one of a change")


_last: ContextVar[_LastStatement | None] = ContextVar("osmo_last_statement", default=None)


def read_at_commit(sql: str, parameters: Parameters, receive: Callable[[list[Row]], object]) -> None:
    """The last statement of a change, a prepared one that travels with the COMMIT, so that locks are held for one round
    trip less. `receive` gets its rows after the commit; it must not fail.

    The statement is sent at once where it cannot wait: inside an outer transaction, and where others want to see it. No
    other statement may follow it in the change."""
    last, db = _last.get(), cast("Any", connection)
    if last is None or db.savepoint_ids or not may_send_later(db):
        receive(read_rows(sql, parameters))
    else:
        last.register(sql, parameters, receive)


_OUTER_SQL = "SELECT current_setting('osmo.changes', true), current_setting('osmo.controller', true), "
_CONTEXT_SQL = (
    "set_config('osmo.changes', '', true), set_config('osmo.controller', %s, true), set_config('osmo.actor', %s, true),"
    " set_config('osmo.description', %s, true), set_config('osmo.request_id', %s, true),"
    " set_config('lock_timeout', %s, true)"
)


def database_time() -> datetime:
    """The time by the database's clock. Deadlines and orders that one process sets and another obeys are measured by
    this one clock, because the clocks of processes may disagree."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        found: datetime = cursor.fetchone()[0]
        return found


@contextmanager
def one_snapshot() -> Iterator[None]:
    """All queries inside read one snapshot of the database, and write nothing. Inside an outer transaction the queries
    use the isolation of that transaction.

    The BEGIN is also the check that a kept connection still works, which Django would make with a query of its own.
    """
    if connection.in_atomic_block:
        yield
        return
    with ExitStack() as transaction_end:
        _open_snapshot(transaction_end)
        mark = _in_snapshot.set(True)
        try:
            yield
        finally:
            _in_snapshot.reset(mark)
        try:
            _end_snapshot()
            transaction_end.close()
        except Exception as error:
            if not is_database_away(error):  # everything was read, so a connection lost now loses nothing
                raise


def is_in_snapshot() -> bool:
    """Whether :func:`one_snapshot` is open, so that all queries see the same rows and write none."""
    return _in_snapshot.get()


def sees_uncommitted_changes() -> bool:
    """Whether the queries of this transaction may see changes that are never committed, as those of a dry run."""
    return bool(connection.in_atomic_block) and not _in_snapshot.get()


def after_snapshot(write: Callable[[], object]) -> None:
    """Call `write` after the snapshot that is open, or now if there is none."""
    if _in_snapshot.get():
        transaction.on_commit(write)
    else:
        write()


def renew_failed_snapshot() -> None:
    """After a failed query PostgreSQL refuses all further ones of the snapshot: begin another one, for the answer that
    reports the failure. Does nothing if no query failed, or the connection was lost."""
    raw = connection.connection
    if _in_snapshot.get() and raw is not None and raw.pgconn.transaction_status == pq.TransactionStatus.INERROR:
        raw.rollback()
        _begin()


_in_snapshot: ContextVar[bool] = ContextVar("osmo_in_snapshot", default=False)


def _open_snapshot(transaction_end: ExitStack) -> None:
    was_connected = connection.connection is not None
    cast("Any", connection).health_check_done = was_connected  # django-stubs do not know it
    block = transaction.atomic()
    block.__enter__()
    try:
        _begin()
    except OperationalError as error:
        connection.close()
        block.__exit__(type(error), error, error.__traceback__)
        if not was_connected:
            raise
        _open_snapshot(transaction_end)
    else:
        transaction_end.push(block.__exit__)


def _end_snapshot() -> None:
    """The COMMIT of a snapshot without an error, sent past psycopg, which then has none to send."""
    pgconn = connection.connection.pgconn
    if pgconn.transaction_status == pq.TransactionStatus.INTRANS and not connection.needs_rollback:
        pgconn.exec_(b"COMMIT")


def _begin() -> None:
    """One BEGIN with the isolation. With psycopg's own BEGIN and `SET TRANSACTION` it would be two statements."""
    _send_begin(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")


def _send_begin(text: bytes) -> None:
    """Begin a transaction with this text. psycopg sees that one is open and sends no BEGIN of its own."""
    try:
        result = connection.connection.pgconn.exec_(text)
    except pg.OperationalError as error:
        raise OperationalError(str(error)) from error
    if result.status not in {pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK}:
        raise OperationalError(result.error_message.decode(errors="replace"))


def _begin_with(context: Sequence[str]) -> PendingBegin | None:
    """BEGIN together with the settings of a change, in the message of its first statement; at once and alone where
    somebody wants to see each statement."""
    # libpq ends a quoted text at a NUL, so that a name could become another one. Every entry point refuses it.
    if not all(is_storable(value) for value in context):
        raise ValueError("the context of a change has a character that PostgreSQL cannot keep")
    escape = pq.Escaping(connection.connection.pgconn).escape_literal
    values = tuple(bytes(escape(value.encode())).decode() for value in context)
    text = f"BEGIN; SELECT {_CONTEXT_SQL % values}".encode()
    if connection.execute_wrappers or connection.queries_logged:
        _send_begin(text)
        return None
    return PendingBegin(text, _send_begin)


def _announce_and_commit() -> None:
    """Commit an outermost change and read the changes that it noted, in one round trip, because others wait for its
    locks. Announce them once Django knows of the commit too."""
    last = _last.get()
    if last and last.is_registered:
        sql, parameters, receive = last.take()
        rows, ends = read_and_end(sql, parameters, _COMMIT_SQL.encode())
        found = ends[0].get_value(0, 0)
        note = None if found is None else bytes(found).decode()
        receive(rows)
    elif connection.execute_wrappers or connection.queries_logged:
        with connection.cursor() as cursor:
            cursor.execute(_COMMIT_SQL)
            note = cursor.fetchone()[0]
    else:
        with connection.wrap_database_errors:
            found = send_statements(connection.connection, _COMMIT_SQL.encode())[0].get_value(0, 0)
        note = None if found is None else bytes(found).decode()
    _send_on_commit(note)


_COMMIT_SQL = "SELECT current_setting('osmo.changes', true); COMMIT"


def _announce(before: str, controller: str) -> None:
    """Send the changes on commit. The settings of an outer transaction (`before`, `controller`) hold again."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('osmo.changes', true),"
            " set_config('osmo.changes', %s || current_setting('osmo.changes', true), true),"
            " set_config('osmo.controller', %s, true)",
            [before, controller],
        )
        note = cursor.fetchone()[0]
    _send_on_commit(note)


def _send_on_commit(note: str | None) -> None:
    if note:
        changes = Changes.parse(note)
        transaction.on_commit(lambda: changes_committed.send(sender=None, changes=changes), robust=True)


def _database_lost(is_committing: bool) -> DatabaseLost:
    """A caller that loses the answer to a commit cannot know its outcome."""
    if is_committing:
        return DatabaseLost(
            "The database went away before it confirmed the change: it is not known whether it was made. Check "
            "the result before you try again; a request repeated with its Idempotency-Key is never done twice.",
            retry_after=RETRY_AFTER,
        )
    return DatabaseLost("The database did not answer; nothing was changed, try again.", retry_after=RETRY_AFTER)


def conflict_from_integrity_error(error: IntegrityError) -> Conflict:
    """A violated database constraint as a domain error. Its code is the name of the constraint."""
    cause = error.__cause__
    rule: Fault | RuleName = Fault.DATABASE_RULE
    message = "The change breaks a rule of the ledger."
    numbers: tuple[tuple[str, Any], ...] = ()
    if isinstance(cause, pg.Error):
        rule = RuleName(cause.diag.constraint_name or rule)
        if isinstance(cause, pg.CheckViolation) and cause.diag.message_primary:
            message = cause.diag.message_primary
        elif isinstance(cause, pg.UniqueViolation):
            message = "Something of that name exists already."
        elif isinstance(cause, pg.ForeignKeyViolation):
            message = "Something else still refers to it, or what it refers to is gone."
        if cause.diag.constraint_name == Fault.OWNED_BY_GIT and cause.diag.message_detail:
            numbers = tuple(json.loads(cause.diag.message_detail).items())
    return Conflict(message, [Violation("", rule, message, numbers=numbers)])
