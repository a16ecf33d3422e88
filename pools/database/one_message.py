"""Several statements in one message, for those between a lock and its commit, while others wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection

from pools.database.prepared import Row

Statement = tuple[str, Sequence[Any]]


def read_each(*statements: Statement) -> list[list[Row]]:
    """The rows of each of these statements with `%s` as parameters. Each sees what was committed before it began, so
    those after a lock read the facts under it."""
    with connection.cursor() as cursor:
        cursor.execute("; ".join(sql for sql, _ in statements), [v for _, values in statements for v in values])
        found = [cursor.fetchall()]
        while cursor.nextset():
            found.append(cursor.fetchall())
        return found
