"""The transaction of every change: it records its actor, limits the wait for locks, and announces its changes on
commit.

Triggers note in the transaction's setting `osmo.changes` which backends and GPU namespaces a statement changed
(:mod:`pools.models.change_tokens`), so no service has to remember it. :func:`change` reads the note and sends
:data:`pools.signals.changes_committed`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import Error, IntegrityError, connection, transaction
from psycopg import errors as pg

from pools.database.driver import begin, is_in_transaction, restart, this_connection
from pools.database.errors import is_database_away
from pools.database.statements import execute_sql
from pools.domain.errors import Busy, Conflict, Fault, RuleName, Violation
from pools.domain.people.roles import Actor
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
    execute_sql("SELECT set_config('osmo.changes', '', true)")


def read_changes() -> Changes:
    """The changes that this transaction has noted so far."""
    return Changes.parse(execute_sql("SELECT current_setting('osmo.changes', true)").fetchone()[0])


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
    is_outermost = not is_in_transaction()
    context = [
        "" if controller_of is None else str(controller_of),
        actor.username,
        description,
        request_id.get(),
        f"{settings.OSMO.lock_timeout_ms}ms",
    ]
    try:
        with transaction.atomic():
            if is_outermost:
                begin(f"BEGIN; SELECT {_CONTEXT_SQL}", context)
                yield
                is_committing = True
                if not transaction.get_rollback():
                    _announce_and_commit()
            else:
                before, controller, *_ = execute_sql(f"SELECT {_OUTER_SQL}, {_CONTEXT_SQL}", context).fetchone()
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


_OUTER_SQL = "current_setting('osmo.changes', true), current_setting('osmo.controller', true)"
_CONTEXT_SQL = (
    "set_config('osmo.changes', '', true), set_config('osmo.controller', %s, true), set_config('osmo.actor', %s, true),"
    " set_config('osmo.description', %s, true), set_config('osmo.request_id', %s, true),"
    " set_config('lock_timeout', %s, true)"
)


def database_time() -> datetime:
    """The time by the database's clock. Deadlines and orders that one process sets and another obeys are measured by
    this one clock, because the clocks of processes may disagree."""
    found: datetime = execute_sql("SELECT clock_timestamp()").fetchone()[0]
    return found


@contextmanager
def one_snapshot() -> Iterator[None]:
    """All queries inside read one snapshot of the database, and write nothing. Inside an outer transaction the queries
    use the isolation of that transaction.

    The BEGIN is also the check that a kept connection still works, which Django would make with a query of its own.
    """
    if is_in_transaction():
        yield
        return
    with this_connection().on_kept_connection(_open_snapshot, also_later=True) as snapshot:
        mark = _in_snapshot.set(True)
        try:
            yield
        finally:
            _in_snapshot.reset(mark)
        try:
            snapshot.close()
        except Exception as error:
            if not is_database_away(error):  # everything was read, so a connection lost now loses nothing
                raise


def is_in_snapshot() -> bool:
    """Whether :func:`one_snapshot` is open, so that all queries see the same rows and write none."""
    return _in_snapshot.get()


def sees_uncommitted_changes() -> bool:
    """Whether the queries of this transaction may see changes that are never committed, as those of a dry run."""
    return is_in_transaction() and not _in_snapshot.get()


def after_snapshot(write: Callable[[], object]) -> None:
    """Call `write` after the snapshot that is open, or now if there is none."""
    if _in_snapshot.get():
        transaction.on_commit(write)
    else:
        write()


def renew_failed_snapshot() -> None:
    """After a failed query PostgreSQL refuses all further ones of the snapshot: begin another one, for the answer that
    reports the failure. Does nothing if no query failed, or the connection was lost."""
    if _in_snapshot.get():
        restart(_BEGIN_SNAPSHOT)


_in_snapshot: ContextVar[bool] = ContextVar("osmo_in_snapshot", default=False)
_BEGIN_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


def _open_snapshot() -> ExitStack:
    """A snapshot, which the exit of the stack ends."""
    with ExitStack() as opening:
        opening.enter_context(transaction.atomic())
        begin(_BEGIN_SNAPSHOT)
        return opening.pop_all()


def _announce_and_commit() -> None:
    """Commit an outermost change and read the changes that it noted, in one round trip, because others wait for its
    locks. Announce them once Django knows of the commit too."""
    note = execute_sql("SELECT current_setting('osmo.changes', true); COMMIT").fetchone()[0]
    _send_on_commit(note)


def _announce(before: str, controller: str) -> None:
    """Send the changes on commit. The settings of an outer transaction (`before`, `controller`) hold again."""
    note = execute_sql(
        "SELECT current_setting('osmo.changes', true),"
        " set_config('osmo.changes', %s || current_setting('osmo.changes', true), true),"
        " set_config('osmo.controller', %s, true)",
        [before, controller],
    ).fetchone()[0]
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
