"""PostgreSQL ends the session for one of its reasons: everywhere this is "the database did not answer", never a fault
of ours (docs/reliability.md, "Not promised")."""

from __future__ import annotations

import select
from collections.abc import Callable
from contextlib import suppress

import psycopg
import pytest
from django.db import Error, InternalError, OperationalError, ProgrammingError, connection

from osmo_admin.processes import beat
from osmo_admin.processes.operator_errors import error_message
from osmo_admin.web.error_responses import to_domain_error
from pools.api import events
from pools.database.errors import is_database_away
from pools.database.prepared import read_rows
from pools.database.transactions import DatabaseLost, change
from pools.domain.errors import Busy
from pools.domain.people.roles import SYSTEM
from pools.locking import lock_pool_tree
from pools.models import Pool
from pools.selectors.audit_trail import Login, StreamPosition
from scheduling.locking import hold_backend_lock
from tests.support import world

pytestmark = [pytest.mark.fault, pytest.mark.usefixtures("ledger")]


def _wait_for_the_message() -> None:
    """PostgreSQL ends a session with a message that nobody has asked for."""
    socket = connection.connection.pgconn.socket
    assert select.select([socket], [], [], 60)[0], "the session has not ended"


def idle_too_long() -> None:
    """As `idle_in_transaction_session_timeout` of a role ends a process that was frozen."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 1")
    _wait_for_the_message()


def terminated() -> None:
    """As an administrator does it."""
    _signal("pg_terminate_backend")


def cancelled() -> None:
    """A statement that takes too long."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 1")
        cursor.execute("SELECT pg_sleep(1)")


def read_only() -> None:
    """As on a server that has become a standby."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL transaction_read_only = on")


def _signal(function: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as other:
        other.execute(f"SELECT {function}({pid})".encode())
    _wait_for_the_message()


ENDS = [idle_too_long, terminated, cancelled, read_only]
each_end = pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)


def write_after(end: Callable[[], None], *, prepared: bool = False) -> None:
    """A change whose session ends before it writes."""
    with change(actor=SYSTEM):
        end()
        if prepared:
            read_rows("UPDATE pools_pool SET description = 'changed' RETURNING id")
        else:
            Pool.objects.update(description="changed")


def error_of(end: Callable[[], None]) -> Error:
    """The error of Django behind a lost change."""
    with pytest.raises(DatabaseLost) as lost:
        write_after(end)
    error = lost.value.__cause__
    assert isinstance(error, Error)
    return error


@each_end
@pytest.mark.parametrize("prepared", [False, True], ids=["cursor", "prepared"])
def test_a_change_is_busy_and_changes_nothing(end: Callable[[], None], prepared: bool) -> None:
    pool = world.make_pool()
    with pytest.raises(DatabaseLost, match="nothing was changed"):
        write_after(end, prepared=prepared)
    assert Pool.objects.get(pk=pool.pk).description != "changed"
    with change(actor=SYSTEM):
        lock_pool_tree(pool.pk)


@each_end
def test_every_place_knows_the_error(end: Callable[[], None]) -> None:
    """Answers of the API and pages (503), commands, beat."""
    world.make_pool()
    error = error_of(end)
    assert is_database_away(error)
    refusal = to_domain_error(error)
    assert isinstance(refusal, Busy)
    assert refusal.retry_after == 1
    assert "The database does not answer" in (error_message(error) or "")
    assert beat._may_pass(error)


@each_end
def test_an_open_stream_ends_quietly(end: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    world.make_pool()
    error = error_of(end)

    def fail() -> None:
        raise error

    monkeypatch.setattr(events._latest, "read", fail)
    login = Login(1)
    assert len(list(events._stream(login, StreamPosition(0), pause=0))) == 1


@each_end
def test_a_lock_of_a_lost_session_ends_with_the_first_error(end: Callable[[], None]) -> None:
    backend = world.make_backend()
    world.make_pool(on=backend)
    with pytest.raises(DatabaseLost), hold_backend_lock(backend.pk, space=1):
        write_after(end)
    with hold_backend_lock(backend.pk, space=1):
        pass


def test_an_idle_session_is_no_operational_error() -> None:
    """Why the class of the error is not enough."""
    world.make_pool()
    error = error_of(idle_too_long)
    assert isinstance(error, InternalError)
    assert not isinstance(error, OperationalError)


@pytest.mark.parametrize("statement", ["SELECT nothing_of_this_name", "SELECT 1/0", "SELECT 'x'::int"])
def test_a_wrong_statement_is_a_fault(statement: str) -> None:
    with pytest.raises(Error) as fault, connection.cursor() as cursor:
        cursor.execute(statement)
    assert not is_database_away(fault.value)
    assert not isinstance(fault.value, OperationalError)


def test_a_failed_transaction_is_a_fault() -> None:
    def go_on() -> None:
        with change(actor=SYSTEM), connection.cursor() as cursor:
            with suppress(ProgrammingError):
                cursor.execute("SELECT nothing_of_this_name")
            cursor.execute("SELECT 1")

    with pytest.raises(InternalError) as fault:
        go_on()
    assert not is_database_away(fault.value)
