"""Cursors for the few statements that nearly every request sends: PostgreSQL prepares each once for a connection and
keeps its plan, and the values travel beside the text instead of being written into it.

Such a cursor takes single statements with parameters in the form of psycopg (`%s`). Everything else uses Django's
cursors, which send several statements at once but are planned anew each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self, cast

import psycopg
from django.db import InterfaceError, OperationalError, connection
from django.db.backends.utils import CursorWrapper


class _PreparedCursor(psycopg.Cursor[Any]):
    def execute(self, query: Any, params: Any = None, **_: Any) -> Self:
        return super().execute(query, params, prepare=True)


def prepared_cursor() -> CursorWrapper:
    """A cursor of the current connection whose statements are prepared. Errors, open transactions and wrappers of
    statements are those of Django's connection."""
    connection.close_if_health_check_failed()
    connection.ensure_connection()  # after the check of its health, which closes a connection that the server ended
    cursor: Any = _PreparedCursor(connection.connection)
    return connection.make_debug_cursor(cursor) if connection.queries_logged else connection.make_cursor(cursor)


def read_first_row(sql: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
    """The first row of a statement that only reads, and that may be the first one of a request.

    Outside of a transaction it is also the check that a kept connection still works, for which Django would send a
    statement of its own: if it fails, it is sent once more, on a new connection.
    """
    session = cast("Any", connection)
    if session.connection is not None and not session.in_atomic_block and not session.health_check_done:
        session.health_check_done = True
        with suppress(OperationalError, InterfaceError):
            return _read_row(sql, parameters)
        session.close()
    return _read_row(sql, parameters)


def _read_row(sql: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
    with prepared_cursor() as cursor:
        cursor.execute(sql, parameters)
        row: tuple[Any, ...] | None = cursor.fetchone()
        return row
