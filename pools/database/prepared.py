"""The statements that nearly every request sends: PostgreSQL prepares each once for a connection and keeps its plan.

They are single statements with parameters in the form of psycopg (`%s` or `%(name)s`). Errors, open transactions and
wrappers of statements are those of Django's cursors. All other statements use Django's own cursors, which write the
values into the text and are planned anew each time.
"""

from __future__ import annotations

from typing import Any

from pools.database.backend.base import DatabaseWrapper, Parameters
from pools.database.driver import this_connection

Row = tuple[Any, ...]


def read_rows(sql: str, parameters: Parameters = ()) -> list[Row]:
    """All rows of a prepared statement that gives rows. Outside of a transaction it only reads, because it may be sent
    again on a new connection."""
    db = this_connection()
    return db.on_kept_connection(lambda: _read(db, sql, parameters))


def read_first_row(sql: str, parameters: Parameters = ()) -> Row | None:
    """The first row of :func:`read_rows`, or None."""
    rows = read_rows(sql, parameters)
    return rows[0] if rows else None


def _read(db: DatabaseWrapper, sql: str, parameters: Parameters) -> list[Row]:
    with db.prepared_cursor() as cursor:
        cursor.execute(sql, parameters)
        rows: list[Row] = cursor.fetchall()
        return rows
