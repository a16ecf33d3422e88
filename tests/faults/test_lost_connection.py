"""The connection to the database is lost in the middle of a service."""

from __future__ import annotations

from collections.abc import Collection

import psycopg
import pytest
from django.db import InterfaceError, OperationalError, connection, connections, transaction
from psycopg import pq

from pools.database.errors import is_database_away
from pools.database.prepared import read_first_row, read_rows
from pools.database.transactions import change
from pools.domain.errors import Busy
from pools.domain.people.roles import SYSTEM
from pools.locking import lock_pool_tree, lock_pool_trees
from pools.models import Pool
from scheduling.models import Workflow
from scheduling.services.simulated import apply_plan, reconcile
from scheduling.services.verify import verify
from tests.support import world

pytestmark = [pytest.mark.fault, pytest.mark.usefixtures("ledger")]


def cut() -> None:
    """Close the connection as a lost server would: uncommitted work and locks are gone."""
    connection.connection.close()


def lose_before_the_commit(pool: Pool) -> None:
    with change(actor=SYSTEM):
        cut()
        lock_pool_tree(pool.pk)


def lose_the_commit(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    session = connections["default"]
    commit = session._commit

    def cut_then_commit() -> None:
        cut()
        commit()

    monkeypatch.setattr(session, "_commit", cut_then_commit)
    with change(actor=SYSTEM):
        lock_pool_tree(pool.pk)


def read_in_a_lost_transaction() -> None:
    with transaction.atomic():
        cut()
        read_first_row("SELECT 1", [])


def test_before_the_commit_nothing_was_changed() -> None:
    pool = world.make_pool()
    with pytest.raises(Busy, match="nothing was changed"):
        lose_before_the_commit(pool)


def test_a_lost_commit_does_not_claim_that_nothing_was_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = world.make_pool()
    with pytest.raises(Busy, match="not known whether") as caught:
        lose_the_commit(pool, monkeypatch)
    assert "nothing was changed" not in caught.value.message
    assert "Idempotency-Key" in caught.value.message


def test_a_reconciliation_that_lost_its_lock_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of a reconciliation ends with the connection; the next tree would be scheduled without it."""
    backend = world.make_backend()
    actor = world.admin_actor()
    for name in ("first", "second"):
        world.make_pool(name, on=backend)
        world.submit_workflow(actor, name)
    locked: list[Collection[int]] = []

    def lock_and_lose(root_ids: Collection[int]) -> list[Pool]:
        if not locked:
            cut()
        locked.append(root_ids)
        return lock_pool_trees(root_ids)

    monkeypatch.setattr(apply_plan, "MAX_TREES_TOGETHER", 1)
    monkeypatch.setattr(apply_plan, "lock_pool_trees", lock_and_lose)
    with pytest.raises(Busy):
        reconcile.reconcile_backend(backend.pk)
    assert len(locked) == 1
    assert set(Workflow.objects.values_list("status", flat=True)) == {"PENDING"}
    assert reconcile.reconcile_backend(backend.pk)["settled"]
    assert set(Workflow.objects.values_list("status", flat=True)) == {"RUNNING"}
    assert verify() == []


def test_a_busy_tree_does_not_delay_other_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = world.make_backend()
    actor = world.admin_actor()
    busy = world.make_pool("first", on=backend)
    world.make_pool("second", on=backend)
    for name in ("first", "second"):
        world.submit_workflow(actor, name, name=name)

    def lock_unless_busy(root_ids: Collection[int]) -> list[Pool]:
        if busy.pk in root_ids:
            raise Busy("held")
        return lock_pool_trees(root_ids)

    monkeypatch.setattr(apply_plan, "lock_pool_trees", lock_unless_busy)
    with pytest.raises(Busy, match="held"):
        reconcile.reconcile_backend(backend.pk)
    assert dict(Workflow.objects.values_list("spec_name", "status")) == {"first": "PENDING", "second": "RUNNING"}


def test_the_first_read_of_a_request_is_the_check_of_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django's own check would be one more statement of each request."""
    session = connections["default"]
    with monkeypatch.context() as patched:
        patched.setattr(session, "is_usable", lambda: pytest.fail("a statement of its own"))
        for is_lost in (False, True):
            old = read_first_row("SELECT pg_backend_pid()", [])
            session.health_check_enabled, session.health_check_done = True, False
            if is_lost:
                cut()
            new = read_first_row("SELECT pg_backend_pid()", [])
            assert (new != old) == is_lost


def test_a_first_read_within_a_transaction_is_not_repeated() -> None:
    connection.health_check_enabled, connection.health_check_done = True, False
    with pytest.raises((OperationalError, InterfaceError)):
        read_in_a_lost_transaction()


def test_the_first_read_of_a_request_takes_a_new_connection_when_the_server_ended_the_old_one() -> None:
    """The read is itself the check: no other statement asks before it whether the connection works."""
    old = connection.connection
    end_on_the_server()
    connection.health_check_enabled, connection.health_check_done = True, False
    assert read_rows("SELECT %s::int", [7]) == [(7,)]
    assert connection.connection is not old


def test_a_later_read_reports_the_lost_connection() -> None:
    end_on_the_server()
    connection.health_check_done = True
    with pytest.raises(OperationalError):
        read_rows("SELECT %s::int", [7])
    connection.close()


def test_an_error_of_the_client_library_is_a_lost_connection() -> None:
    """Where a message could not be sent, the library reports the loss before the status of the connection does. Its
    errors have no SQLSTATE."""
    raw = connection.connection
    lost = raw.pgconn.make_empty_result(pq.ExecStatus.FATAL_ERROR)
    assert is_database_away(psycopg.errors.error_from_result(lost))
    assert not is_database_away(psycopg.errors.error_from_result(raw.pgconn.exec_(b"SELECT 1 / 0")))
    connection.health_check_enabled, connection.health_check_done = True, False
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(connections["default"], "is_usable", lambda: False)
        patched.setattr(raw, "wait", lambda _: _raise_lost(lost))
        assert read_rows("SELECT %s::int", [7]) == [(7,)]
    assert connection.connection is not raw


def _raise_lost(lost: object) -> None:
    raise psycopg.errors.error_from_result(lost)  # type: ignore[arg-type]


def end_on_the_server() -> None:
    """The server ends this connection, which does not know it yet."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
    other = connections["default"].copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    other.close()


def test_a_prepared_read_without_a_server_reports_an_unavailable_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OperationalError("the server is shutting down")

    cut()
    connection.health_check_enabled, connection.health_check_done = True, False
    with monkeypatch.context() as patched:
        patched.setattr(connections["default"], "connect", refuse)
        with pytest.raises(OperationalError, match="shutting down"):
            read_rows("SELECT 1")
