"""Statements of a prepared cursor: PostgreSQL parses and plans each text once for a connection."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group
from django.db import DataError, connection, transaction
from django.test.utils import CaptureQueriesContext
from psycopg.pq import TransactionStatus

from pools.database import prepared
from pools.database.prepared import Row, prepared_cursor, read_each, read_rows
from pools.database.transactions import change, read_at_commit
from pools.domain.errors import Busy, Conflict
from pools.domain.roles import SYSTEM
from pools.models import User

pytestmark = pytest.mark.django_db


def test_a_text_is_prepared_once_for_all_values() -> None:
    for value in range(3):
        with prepared_cursor() as cursor:
            cursor.execute("SELECT %s::int + 4711", [value])
            assert cursor.fetchone() == (value + 4711,)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%4711%'")
        assert cursor.fetchone() == (1,)


def test_statements_of_django_are_not_prepared() -> None:
    with connection.cursor() as cursor:
        for value in range(10):
            cursor.execute("SELECT %s::int + 4712", [value])
        cursor.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%4712%'")
        assert cursor.fetchone() == (0,)


VALUES = {
    "text": ("SELECT %s::text", ["ä'\\"]),
    "no value": ("SELECT %s::text IS NULL, %s::int", [None, None]),
    "numbers": ("SELECT %s::int, %s::bigint, %s::numeric", [7, 2**40, Decimal("1.50")]),
    "a list": ("SELECT %s::text[]", [["a", 'b"', "c,d"]]),
    "a time": ("SELECT %s::timestamptz", [datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)]),
    "an id": ("SELECT %s::uuid", [UUID(int=5)]),
    "a document": ("SELECT %s::jsonb", ['{"a": [1, null]}']),
    "names": ("SELECT %(b)s::int, %(a)s::int, %(b)s::int", {"a": 1, "b": 2}),
    "a per cent": ("SELECT 'x' LIKE '%%' || %s", ["x"]),
    "several rows": ("SELECT number, number > %s FROM generate_series(1, 3) number", [2]),
    "no rows": ("SELECT 1 WHERE %s", [False]),
}


@pytest.mark.parametrize("case", VALUES)
def test_rows_are_those_of_a_cursor_of_django(case: str) -> None:
    sql, values = VALUES[case]
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        expected = cursor.fetchall()
    assert read_rows(sql, values) == expected
    if not isinstance(values, dict):
        assert read_each((sql, values), (sql, values)) == [expected, expected]


def test_an_error_is_the_one_of_a_cursor_of_django() -> None:
    with pytest.raises(DataError, match="division by zero"), transaction.atomic():
        read_rows("SELECT 1 / %s::int", [0])
    with pytest.raises(DataError, match="division by zero"), transaction.atomic():
        read_each(("SELECT 1 / %s::int", [0]))
    assert read_rows("SELECT %s::int", [1]) == [(1,)]


def test_who_watches_statements_sees_all_of_them() -> None:
    with CaptureQueriesContext(connection) as captured:
        read_rows("SELECT %s::int", [1])
        assert read_each(("SELECT %s::int", [2]), ("SELECT %s::int", [3])) == [[(2,)], [(3,)]]
    assert [query["sql"] for query in captured.captured_queries] == ["SELECT 1::int", "SELECT 2::int; SELECT 3::int"]


def test_few_statements_are_kept_and_a_rollback_ends_none() -> None:
    for number in range(prepared.MAX_PREPARED + 5):
        with transaction.atomic():
            read_rows(f"SELECT %s::int + {number}", [1])
            transaction.set_rollback(True)
    assert read_rows(f"SELECT %s::int + {prepared.MAX_PREPARED}", [1]) == [(prepared.MAX_PREPARED + 1,)]
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements")
        assert cursor.fetchone()[0] <= prepared.MAX_PREPARED


ACTOR_SQL = "SELECT current_setting('osmo.actor', true), current_setting('transaction_isolation')"


@pytest.mark.django_db(transaction=True)
class TestBeginOfChange:
    """The BEGIN of a change, with the settings that the audit trail reads, travels with its first statement."""

    @pytest.mark.parametrize("first", ["read_rows", "read_each", "cursor", "savepoint", "queryset"])
    def test_each_kind_of_first_statement_is_inside(self, first: str) -> None:
        with change(actor=SYSTEM):
            assert _transaction_status() == TransactionStatus.IDLE
            if first == "read_rows":
                read_rows("SELECT %s::int", [1])
            elif first == "read_each":
                assert read_each(("SELECT %s::int", [1]), ("SELECT %s::int", [2])) == [[(1,)], [(2,)]]
            elif first == "cursor":
                with connection.cursor() as cursor:
                    cursor.execute("SELECT 1")
            elif first == "savepoint":
                with transaction.atomic():
                    pass
            else:
                assert User.objects.filter(username="nobody").first() is None
            assert _transaction_status() == TransactionStatus.INTRANS
            assert read_rows(ACTOR_SQL) == [(SYSTEM.username, "read committed")]
        assert _transaction_status() == TransactionStatus.IDLE
        assert connection.execute_wrappers == []

    def test_a_change_without_statements_sends_nothing(self) -> None:
        with change(actor=SYSTEM):
            pass
        assert connection.execute_wrappers == []
        with pytest.raises(ZeroDivisionError), change(actor=SYSTEM):
            raise ZeroDivisionError
        assert connection.execute_wrappers == []

    def test_what_follows_a_change_without_statements_is_in_no_transaction(self) -> None:
        found: list[TransactionStatus] = []

        def read_after_commit() -> None:
            read_rows("SELECT %s::int", [1])
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            found.append(_transaction_status())

        with change(actor=SYSTEM):
            transaction.on_commit(read_after_commit)
        assert found == [TransactionStatus.IDLE]
        assert _transaction_status() == TransactionStatus.IDLE

    @pytest.mark.parametrize("read", [read_rows, lambda *statement: read_each(statement)])
    def test_a_first_statement_that_cannot_be_sent_takes_no_begin_away(self, read: Callable[..., object]) -> None:
        with change(actor=SYSTEM):
            with suppress(DataError):
                read("SELECT %s::text", ["a text with \0"])
            with connection.cursor() as cursor:
                cursor.execute(ACTOR_SQL)
                assert cursor.fetchone() == (SYSTEM.username, "read committed")
        assert connection.execute_wrappers == []

    def test_a_failure_rolls_back(self) -> None:
        def fail() -> None:
            with change(actor=SYSTEM):
                read_rows("INSERT INTO auth_group (name) VALUES (%s) RETURNING id", ["rolled-back"])
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert not Group.objects.filter(name="rolled-back").exists()

    def test_a_watched_change_begins_at_once(self) -> None:
        with connection.execute_wrapper(lambda execute, *arguments: execute(*arguments)), change(actor=SYSTEM):
            assert _transaction_status() == TransactionStatus.INTRANS
            assert read_rows(ACTOR_SQL)[0][0] == SYSTEM.username


def _transaction_status() -> TransactionStatus:
    return TransactionStatus(connection.connection.pgconn.transaction_status)


INSERT_SQL = "INSERT INTO auth_group (name) VALUES (%s) RETURNING name"


@pytest.mark.django_db(transaction=True)
class TestLastStatement:
    """The last statement of a change travels with its COMMIT."""

    def test_its_rows_come_after_the_commit(self) -> None:
        received: list[list[Row]] = []
        with change(actor=SYSTEM):
            read_rows(INSERT_SQL, ["first"])
            read_at_commit(INSERT_SQL, ["last"], received.append)
            assert received == []
        assert received == [[("last",)]]
        assert _transaction_status() == TransactionStatus.IDLE
        assert connection.execute_wrappers == []
        assert set(Group.objects.filter(name__in=["first", "last"]).values_list("name", flat=True)) == {"first", "last"}

    @pytest.mark.parametrize("where", ["outer transaction", "savepoint", "no statement before", "watched"])
    def test_it_is_sent_at_once_where_it_cannot_wait(self, where: str) -> None:
        received: list[list[Row]] = []
        with contextlib.ExitStack() as around:
            if where == "outer transaction":
                around.enter_context(transaction.atomic())
            elif where == "watched":
                around.enter_context(CaptureQueriesContext(connection))
            around.enter_context(change(actor=SYSTEM))
            if where != "no statement before":
                read_rows("SELECT 1")
            if where == "savepoint":
                around.enter_context(transaction.atomic())
            read_at_commit(INSERT_SQL, ["at-once"], received.append)
            assert received == [[("at-once",)]]
            assert Group.objects.filter(name="at-once").exists()
        assert connection.execute_wrappers == []
        assert Group.objects.filter(name="at-once").exists()

    def test_if_it_fails_nothing_is_changed(self) -> None:
        received: list[list[Row]] = []

        def fail() -> None:
            with change(actor=SYSTEM):
                read_rows(INSERT_SQL, ["twice"])
                read_at_commit(INSERT_SQL, ["twice"], received.append)

        with pytest.raises(Conflict, match="exists already"):
            fail()
        assert received == []
        assert connection.execute_wrappers == []
        assert not Group.objects.filter(name="twice").exists()

    @pytest.mark.parametrize("statement", ["queryset", "read_rows", "read_each", "change"])
    def test_no_other_statement_follows(self, statement: str) -> None:
        def follow() -> None:
            with change(actor=SYSTEM):
                read_rows("SELECT 1")
                read_at_commit(INSERT_SQL, ["not-last"], lambda _: pytest.fail("sent"))
                if statement == "queryset":
                    User.objects.filter(username="nobody").first()
                elif statement == "read_rows":
                    read_rows("SELECT 1")
                elif statement == "read_each":
                    read_each(("SELECT %s::int", [1]))
                else:
                    with change(actor=SYSTEM):
                        pass

        with pytest.raises(AssertionError, match="after the last one"):
            follow()
        assert connection.execute_wrappers == []
        assert not Group.objects.filter(name="not-last").exists()

    def test_it_is_not_sent_after_a_failure(self) -> None:
        def fail() -> None:
            with change(actor=SYSTEM):
                read_rows("SELECT 1")
                read_at_commit(INSERT_SQL, ["never"], lambda _: pytest.fail("sent"))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert connection.execute_wrappers == []
        assert not Group.objects.filter(name="never").exists()

    def test_a_lock_that_it_waits_for_is_busy(self, settings: Any) -> None:
        settings.OSMO = dataclasses.replace(settings.OSMO, lock_timeout_ms=20)
        other = connection.copy()
        try:
            with other.cursor() as cursor:
                cursor.execute("BEGIN")
                cursor.execute(INSERT_SQL, ["locked"])

            def wait() -> None:
                with change(actor=SYSTEM):
                    read_rows("SELECT 1")
                    read_at_commit(INSERT_SQL, ["locked"], lambda _: pytest.fail("sent"))

            with pytest.raises(Busy, match="nothing was changed"):
                wait()
        finally:
            other.close()
        assert connection.execute_wrappers == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("text", ["admin\x00 on behalf", "half \ud800"])
def test_no_change_is_recorded_under_a_part_of_a_name(text: str) -> None:
    """libpq ends a quoted text at a NUL: without the check `admin` would stand in the audit trail."""
    for named in ({"actor": dataclasses.replace(SYSTEM, username=text)}, {"actor": SYSTEM, "description": text}):
        with pytest.raises(ValueError, match="cannot keep"), change(**named):
            Group.objects.create(name="written")
    assert not Group.objects.filter(name="written").exists()
    with change(actor=SYSTEM):
        Group.objects.create(name="after")
