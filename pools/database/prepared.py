"""The few statements that nearly every request sends: PostgreSQL prepares each once for a connection and keeps its
plan, and the values travel beside the text instead of being written into it.

They are single statements with parameters in the form of psycopg (`%s` or `%(name)s`). Everything else uses Django's
cursors, which send several statements at once but are planned anew each time.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Self, cast
from weakref import WeakKeyDictionary

from django.db import DEFAULT_DB_ALIAS, connection, connections
from psycopg import errors, generators, pq
from psycopg.adapt import PyFormat, Transformer

from pools.database.errors import is_database_away

Row = tuple[Any, ...]
Parameters = Sequence[Any] | Mapping[str, Any]
Statement = tuple[str, Sequence[Any]]


class PreparedCursor:
    """:func:`read_rows` with the methods of a cursor."""

    def __init__(self) -> None:
        self._rows: list[Row] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows = []

    def __iter__(self) -> Iterator[Row]:
        rows, self._rows = self._rows, []
        return iter(rows)

    def execute(self, sql: str, parameters: Parameters = ()) -> None:
        """Send the statement."""
        self._rows = read_rows(sql, parameters)

    def fetchone(self) -> Any:
        """The next row, or None."""
        return self._rows.pop(0) if self._rows else None

    def fetchall(self) -> list[Row]:
        """The rest of the rows."""
        return list(self)


def prepared_cursor() -> PreparedCursor:
    """A cursor of the current connection whose statements are prepared. Errors, open transactions and wrappers of
    statements are those of Django's connection."""
    connection.close_if_health_check_failed()
    connection.ensure_connection()  # after the check of its health, which closes a connection that the server ended
    return PreparedCursor()


def read_rows(sql: str, parameters: Parameters = ()) -> list[Row]:
    """All rows of a prepared statement, past the cursors of Django and psycopg, which need longer than PostgreSQL for
    such a statement. psycopg prepares none itself, because it would forget all prepared statements after each ROLLBACK.
    Types, errors and transactions are those of Django's connection.

    Outside of a transaction the statement only reads. If it is the first one of a request, it is also the check that a
    kept connection still works: on a connection that the server has ended it is sent again, on a new one.
    """
    db: Any = connections[DEFAULT_DB_ALIAS]  # asked once: `connection` looks it up at each use, which takes longer
    is_first = not db.health_check_done and db.connection is not None and not db.in_atomic_block
    if is_first:
        db.health_check_done = True
    else:
        db.close_if_health_check_failed()
    db.ensure_connection()
    raw = db.connection
    try:
        return _read_rows(db, sql, parameters)
    except Exception as error:
        if not is_first or not raw.closed or not is_database_away(error):
            raise
    db.close()
    db.ensure_connection()
    return _read_rows(db, sql, parameters)


def read_first_row(sql: str, parameters: Parameters = ()) -> Row | None:
    """The first row of :func:`read_rows`, or None."""
    rows = read_rows(sql, parameters)
    return rows[0] if rows else None


def read_each(*statements: Statement) -> list[list[Row]]:
    """The rows of each of these prepared statements, which travel in one message. Inside a transaction."""
    db: Any = connections[DEFAULT_DB_ALIAS]
    assert db.in_atomic_block
    begin = _pending_begin(db)
    if _needs_cursor(db, begin):
        with db.cursor() as cursor:
            cursor.execute("; ".join(sql for sql, _ in statements), [v for _, values in statements for v in values])
            found = [cursor.fetchall()]
            while cursor.nextset():
                found.append(cursor.fetchall())
            return found
    return _send_message(db, begin, statements)


def may_send_later(db: Any) -> bool:
    """Whether a statement of this transaction can travel with a later one: its BEGIN is sent, and nobody wants to see
    each statement."""
    return not db.queries_logged and not db.execute_wrappers and not db.needs_rollback


def read_and_end(sql: str, parameters: Parameters, end: bytes) -> tuple[list[Row], list[Any]]:
    """The rows of a prepared statement, and the results of the statements in `end`, which travel in the same message.
    If one fails, those after it do nothing."""
    db: Any = connections[DEFAULT_DB_ALIAS]
    raw = db.connection
    with db.wrap_database_errors:
        first, *others = send_statements(raw, b"; ".join([_execute_text(raw, sql, parameters), end]))
        return _rows_of(Transformer(raw), first), others


def _read_rows(db: Any, sql: str, parameters: Parameters) -> list[Row]:
    begin = _pending_begin(db)
    if _needs_cursor(db, begin):
        with db.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cast("list[Row]", cursor.fetchall() if cursor.description else [])
    if begin is not None:
        return _send_message(db, begin, [(sql, parameters)])[0]
    raw = db.connection
    with db.wrap_database_errors:
        values = Transformer(raw)
        parameters = _in_order(sql, parameters)
        texts = values.dump_sequence(parameters, [PyFormat.AUTO] * len(parameters))
        statement = _prepare(raw, sql, values.types or ())
        result = _checked(raw, raw.pgconn.exec_prepared(statement, texts, values.formats))
        return _rows_of(values, result)


def _needs_cursor(db: Any, begin: PendingBegin | None) -> bool:
    """Whether somebody wants to see each statement, or the transaction has no BEGIN yet, which psycopg sends."""
    raw = db.connection
    return bool(
        db.queries_logged
        or db.needs_rollback
        or (begin is None and (db.execute_wrappers or (not raw.autocommit and raw.pgconn.transaction_status == _IDLE)))
    )


def _send_message(db: Any, begin: PendingBegin | None, statements: Sequence[tuple[str, Parameters]]) -> list[list[Row]]:
    raw = db.connection
    with db.wrap_database_errors:
        calls = [_execute_text(raw, sql, parameters) for sql, parameters in statements]
        # Not before: a statement that cannot be sent must not take the BEGIN away from the next one.
        results = send_statements(raw, b"; ".join(calls if begin is None else [begin.take(), *calls]))
        values = Transformer(raw)
        return [_rows_of(values, result) for result in results[-len(calls) :]]


def _execute_text(raw: Any, sql: str, parameters: Parameters) -> bytes:
    values = Transformer(raw)
    parameters = _in_order(sql, parameters)
    texts = values.dump_sequence(parameters, [PyFormat.TEXT] * len(parameters))
    statement = _prepare(raw, sql, values.types or ())
    quote = pq.Escaping(raw.pgconn).escape_literal
    given = b", ".join([b"NULL" if text is None else bytes(quote(text)) for text in texts])
    return b"EXECUTE %b(%b)" % (statement, given) if given else b"EXECUTE " + statement


def send_statements(raw: Any, text: bytes) -> list[Any]:
    """Send statements in one message, and return their results. Raises the errors of psycopg."""
    raw.pgconn.send_query(text)
    results = raw.wait(generators.execute(raw.pgconn))
    for result in results:
        _checked(raw, result)
    return cast("list[Any]", results)


def _in_order(sql: str, parameters: Parameters) -> Sequence[Any]:
    return [parameters[name] for name in _numbered(sql)[1]] if isinstance(parameters, Mapping) else parameters


def _rows_of(values: Any, result: Any) -> list[Row]:
    values.set_pgresult(result)
    rows: list[Row] = values.load_rows(0, result.ntuples, tuple)
    return rows


class PendingBegin:
    """The BEGIN of a transaction that travels with its first statement, whichever this is: as a wrapper of Django's
    cursors it is sent before their first one."""

    def __init__(self, text: bytes, send: Callable[[bytes], None]) -> None:
        self._text, self._send = text, send
        connection.execute_wrappers.append(self)

    @property
    def is_pending(self) -> bool:
        """Whether nothing was sent yet."""
        return self in connection.execute_wrappers

    def take(self) -> bytes:
        """The text, for a message that begins with it."""
        connection.execute_wrappers.remove(self)
        return self._text

    def __call__(self, execute: Callable[..., Any], *arguments: Any) -> Any:
        self._send(self.take())
        return execute(*arguments)


def _pending_begin(db: Any) -> PendingBegin | None:
    """The BEGIN that the next statement takes along; none where others want to see the statements."""
    wrappers = db.execute_wrappers
    if db.queries_logged or db.needs_rollback or len(wrappers) != 1 or not isinstance(wrappers[0], PendingBegin):
        return None
    return wrappers[0]


_IDLE = pq.TransactionStatus.IDLE
_DONE = {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK}
MAX_PREPARED = 200
"""Statements that a connection keeps; the one that was used longest ago makes room."""


class _Prepared:
    """The names of the statements that are prepared on a connection, by text and types of the values."""

    def __init__(self) -> None:
        self.names: OrderedDict[tuple[str, tuple[int, ...]], bytes] = OrderedDict()
        self.made = 0


_prepared: WeakKeyDictionary[Any, _Prepared] = WeakKeyDictionary()


def _prepare(raw: Any, sql: str, types: tuple[int, ...]) -> bytes:
    kept = _prepared.get(raw)
    if kept is None:
        kept = _prepared[raw] = _Prepared()
    key = sql, types
    name = kept.names.get(key)
    if name is not None:
        kept.names.move_to_end(key)
        return name
    kept.made += 1
    name = b"osmo_%d" % kept.made
    _checked(raw, raw.pgconn.prepare(name, _numbered(sql)[0], types))
    kept.names[key] = name
    if len(kept.names) > MAX_PREPARED:
        _checked(raw, raw.pgconn.exec_(b"DEALLOCATE " + kept.names.popitem(last=False)[1]))
    return name


@lru_cache(maxsize=1024)
def _numbered(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """The statement with `$1`, `$2`, … for its parameters, and the names of these; no names for `%s`."""
    names: dict[str, int] = {}
    count = 0

    def place(found: re.Match[str]) -> str:
        nonlocal count
        if found[0] == "%%":
            return "%"
        if found[1]:
            return f"${names.setdefault(found[1], len(names) + 1)}"
        count += 1
        return f"${count}"

    return _PLACE.sub(place, sql).encode(), tuple(names)


_PLACE = re.compile(r"%%|%s|%\((\w+)\)s")


def _checked(raw: Any, result: Any) -> Any:
    if result.status in _DONE:
        return result
    if raw.closed or result.error_field(pq.DiagnosticField.SQLSTATE) is None:
        # The error is one of the client library: the connection is lost, also where its status does not say so yet,
        # because a message could not be sent.
        raw.close()
        raise errors.OperationalError(result.error_message.decode(errors="replace"))
    raise errors.error_from_result(result)
