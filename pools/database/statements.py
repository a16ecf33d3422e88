"""Statements that Django's own cursor sends: it writes the values into the text, and each is planned anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pools.database.backend.base import Parameters
from pools.database.driver import this_connection
from pools.database.prepared import Row

Statement = tuple[str, Sequence[Any]]


def execute_sql(sql: Any, values: Parameters | None = None) -> Any:
    """Send a statement, and return the cursor for its rows and their number, as psycopg's `Connection.execute` does."""
    cursor = this_connection().cursor()
    cursor.execute(sql, values)
    return cursor


def read_each(*statements: Statement) -> list[list[Row]]:
    """The rows of each of these statements with `%s` as parameters, sent in one message, for those between a lock and
    its commit, while others wait. Each sees what was committed before it began, so those after a lock read the facts
    under it."""
    cursor = execute_sql("; ".join(sql for sql, _ in statements), [v for _, values in statements for v in values])
    found = [cursor.fetchall()]
    while cursor.nextset():
        found.append(cursor.fetchall())
    return found
