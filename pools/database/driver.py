"""The connection below Django. The five lines marked "inside of Django" know more of it than is documented
(docs/decisions.md, "Own path to the driver").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import psycopg
from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction

from pools.database.errors import is_database_away

Parameters = Sequence[Any] | Mapping[str, Any]
Result = TypeVar("Result")


class _Sent(NamedTuple):
    """A statement for Django's log of queries, which shows it with its values."""

    connection: psycopg.Connection[Any]
    text: Any
    values: Any

    @property
    def query(self) -> bytes:
        return psycopg.ClientCursor(self.connection).mogrify(self.text, self.values).encode()


class _PreparingCursor(psycopg.Cursor[Any]):
    """psycopg's own cursor: values travel apart from the text, and each text is prepared."""

    def execute(self, query: Any, params: Any = None, **_: Any) -> Any:
        super().execute(query, params, prepare=True)
        self._query: Any = _Sent(self.connection, query, params)  # inside of Django: its log reads `_query.query`
        return self


def prepared_cursor() -> Any:
    """A cursor of Django whose statements PostgreSQL prepares, once for a connection. Those who watch the cursors
    of Django see these statements too."""
    cursor: Any = connection.cursor()
    cursor.cursor = _PreparingCursor(cursor.connection)  # inside of Django: the cursor that it wraps
    return cursor


def begin(text: str, parameters: Parameters = ()) -> None:
    """Begin the transaction of the atomic block that was just entered with a BEGIN of our own, which takes its settings
    along in one message; psycopg would send one alone before the first statement."""
    with connection.cursor() as cursor:
        cursor.connection.autocommit = True  # psycopg sends no BEGIN then; Django sends COMMIT or ROLLBACK as usual
        cursor.execute(text, parameters)


def restart(text: str) -> None:
    """Begin again, with this text, where a failed statement has ended the transaction. Does nothing otherwise."""
    raw = driver_connection()
    if raw is not None and raw.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
        raw.rollback()
        transaction.set_rollback(False)
        with connection.cursor() as cursor:
            cursor.execute(text)


def is_in_transaction() -> bool:
    """Whether a transaction is open."""
    return bool(connection.in_atomic_block)  # inside of Django


def driver_connection() -> Any:
    """psycopg's connection; None before the first statement."""
    return connection.connection  # inside of Django


def on_kept_connection(read: Callable[[], Result], *, also_later: bool = False) -> Result:
    """The result of `read`, whose first statement is also the check that a connection kept from the last request still
    works; Django would send one more for it. On a connection that was lost it is called again, on a new one, so it
    writes nothing. Later reads of a request are not repeated, unless `also_later` says so."""
    db: Any = connections[DEFAULT_DB_ALIAS]
    kept = driver_connection()
    is_checked, db.health_check_done = db.health_check_done, True  # inside of Django: whether it would check
    if kept is None or is_in_transaction() or (is_checked and not also_later):
        return read()
    try:
        return read()
    except Exception as error:
        if not is_database_away(error) or (driver_connection() is kept and not kept.closed and db.is_usable()):
            raise
    if driver_connection() is kept:
        db.close()
    return read()
