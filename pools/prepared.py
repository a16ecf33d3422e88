"""Cursors for the few statements that nearly every request sends: PostgreSQL prepares each once for a connection and
keeps its plan, and the values travel beside the text instead of being written into it.

Such a cursor takes single statements with parameters in the form of psycopg (`%s`). Everything else uses Django's
cursors, which send several statements at once but are planned anew each time.
"""

from __future__ import annotations

from typing import Any, Self

import psycopg
from django.db import connection
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
