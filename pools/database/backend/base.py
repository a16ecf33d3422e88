"""A subclass of Django's backend, as its manual describes ("Subclassing the built-in database backends"). Django looks
for it under this name.

The five lines marked "inside of Django" use what its manual does not describe (docs/decisions.md, "Own path to the
driver"); the tests of a night run them with the newest pre-releases (tests/ops/test_newest_releases.py). Rows of
`python -m bench request_cost` that are dearer without them: without prepared statements `workflow_list` by 20 % and
`pool_quota_one` by 23 %, with Django's check of a kept connection `admission_review` by 35 %. The two lines of the log
of queries save no time: without them it has no text of a prepared statement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import psycopg
from django.db.backends.postgresql import base, operations

from pools.database.errors import is_database_away

Parameters = Sequence[Any] | Mapping[str, Any]
Result = TypeVar("Result")


class PreparingCursor(psycopg.Cursor[Any]):
    """psycopg's own cursor: values travel apart from the text, and PostgreSQL prepares each text once."""

    def execute(self, query: Any, params: Any = None, **_: Any) -> Any:
        return super().execute(query, params, prepare=True)


class DatabaseOperations(operations.DatabaseOperations):
    """What depends on the kind of the cursor."""

    def last_executed_query(self, cursor: Any, sql: Any, params: Any) -> Any:  # inside of Django
        """The statement with its values, for Django's log of queries."""
        if isinstance(cursor, PreparingCursor):
            return psycopg.ClientCursor(cursor.connection).mogrify(sql, params)
        return super().last_executed_query(cursor, sql, params)  # inside of Django


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's connection of this thread."""

    ops_class = DatabaseOperations
    connection: Any
    """psycopg's connection; None before the first statement."""
    health_check_done: bool  # inside of Django

    def prepared_cursor(self) -> Any:
        """A cursor of Django whose statements are prepared. Those who watch Django's cursors see them too."""
        self.ensure_connection()
        cursor: Any = PreparingCursor(self.connection)
        return self.make_debug_cursor(cursor) if self.queries_logged else self.make_cursor(cursor)  # inside of Django

    def is_in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self.connection is not None and not self.get_autocommit()  # which would connect

    def on_kept_connection(self, read: Callable[[], Result], *, also_later: bool = False) -> Result:
        """The result of `read`, whose first statement is also the check that a connection kept from the last request
        still works; Django would send one more for it. On a connection that was lost it is called again, on a new one,
        so it writes nothing. Later reads of a request are not repeated, unless `also_later` says so."""
        kept = self.connection
        is_checked, self.health_check_done = self.health_check_done, True  # inside of Django: whether it would check
        if kept is None or self.is_in_transaction() or (is_checked and not also_later):
            return read()
        try:
            return read()
        except Exception as error:
            if not is_database_away(error) or (self.connection is kept and not kept.closed and self.is_usable()):
                raise
        if self.connection is kept:
            self.close()
        return read()
