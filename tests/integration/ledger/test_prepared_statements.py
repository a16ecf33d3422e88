"""Prepared reads: PostgreSQL parses and plans each text once for a connection."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group
from django.db import DataError, connection, transaction
from django.test.utils import CaptureQueriesContext
from psycopg.pq import TransactionStatus

from pools.database.prepared import read_rows
from pools.database.statements import read_each
from pools.database.transactions import change
from pools.domain.people.roles import SYSTEM
from pools.models import User

pytestmark = pytest.mark.django_db


def test_a_text_is_prepared_once_for_all_values() -> None:
    for value in range(3):
        assert read_rows("SELECT %s::int + 4711", [value]) == [(value + 4711,)]
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


def test_who_watches_statements_sees_all_of_them_on_the_same_path() -> None:
    """What is captured (as by Sentry, OpenTelemetry or DEBUG) is sent as it is without a watcher."""
    seen: list[str] = []

    def note(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        seen.append(sql)
        return execute(sql, *arguments)

    with CaptureQueriesContext(connection) as captured, connection.execute_wrapper(note):
        read_rows("SELECT %s::int + 4713", [1])
        assert read_each(("SELECT %s::int + 4714", [2]), ("SELECT %s::int + 4715", [3])) == [[(4716,)], [(4718,)]]
    assert seen == ["SELECT %s::int + 4713", "SELECT %s::int + 4714; SELECT %s::int + 4715"]
    assert [query["sql"] for query in captured.captured_queries] == [
        "SELECT 1::int + 4713",
        "SELECT 2::int + 4714; SELECT 3::int + 4715",
    ]
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%4713%'")
        assert cursor.fetchone() == (1,)


def test_statements_are_prepared_again_after_a_rollback() -> None:
    """psycopg forgets all prepared statements then."""
    for number in range(3):
        with transaction.atomic():
            assert read_rows("SELECT %s::int + 4715", [number]) == [(number + 4715,)]
            transaction.set_rollback(True)
    assert read_rows("SELECT %s::int + 4715", [7]) == [(4722,)]


ACTOR_SQL = "SELECT current_setting('osmo.actor', true), current_setting('transaction_isolation')"


@pytest.mark.django_db(transaction=True)
class TestBeginOfChange:
    """The BEGIN of a change is sent with the settings that the audit trail reads."""

    @pytest.mark.parametrize("first", ["read_rows", "read_each", "cursor", "savepoint", "queryset"])
    def test_each_kind_of_statement_is_inside(self, first: str) -> None:
        with change(actor=SYSTEM):
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

    def test_a_failure_rolls_back(self) -> None:
        def fail() -> None:
            with change(actor=SYSTEM):
                read_rows("INSERT INTO auth_group (name) VALUES (%s) RETURNING id", ["rolled-back"])
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert not Group.objects.filter(name="rolled-back").exists()

    def test_who_watches_sees_its_begin_and_its_commit(self) -> None:
        with CaptureQueriesContext(connection) as captured, change(actor=SYSTEM):
            assert read_rows(ACTOR_SQL)[0][0] == SYSTEM.username
        begin, _, commit = [
            query["sql"] for query in captured.captured_queries if query["sql"] not in {"BEGIN", "COMMIT"}
        ]
        assert begin.startswith("BEGIN; SELECT set_config")
        assert commit.endswith("COMMIT")


def _transaction_status() -> TransactionStatus:
    return TransactionStatus(connection.connection.pgconn.transaction_status)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("text", ["admin\x00 on behalf", "half \ud800"])
def test_no_change_is_recorded_under_a_part_of_a_name(text: str) -> None:
    """libpq ends a quoted text at a NUL, where psycopg refuses it: `admin` would stand in the audit trail."""
    for named in ({"actor": dataclasses.replace(SYSTEM, username=text)}, {"actor": SYSTEM, "description": text}):
        with pytest.raises((DataError, UnicodeEncodeError)), change(**named):
            Group.objects.create(name="written")
    assert not Group.objects.filter(name="written").exists()
    with change(actor=SYSTEM):
        Group.objects.create(name="after")
