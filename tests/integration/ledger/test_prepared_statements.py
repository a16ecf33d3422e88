"""Statements of a prepared cursor: PostgreSQL parses and plans each text once for a connection."""

from __future__ import annotations

import pytest
from django.db import connection

from pools.prepared import prepared_cursor

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
