"""The requirements of the server behind DATABASE_URL (docs/database.md, "What the server must be"): new enough, with a
session of its own for each connection, and the same one for both roles."""

from __future__ import annotations

import select
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from typing import Any

import psycopg
from django.core.exceptions import ImproperlyConfigured
from psycopg import pq

OLDEST_VERSION = 15
ANSWER_SECONDS = 3.0
"""The longest wait for a session; a pooler whose sessions are all taken would answer after minutes."""
MOST_OTHERS = 5
_REFUSED_PARAMETER = ("unsupported startup parameter", "unsupported options startup parameter")


def refuse_unfit_server(parameters: Mapping[str, Any]) -> None:
    """Raises ImproperlyConfigured if the server of these parameters of a connection is too old, or is a pooler that
    does not give each connection a session. A server that does not answer refuses nothing. Connections of its own are
    used, because the caller may fork."""
    parameters = {**parameters, "autocommit": True}
    try:
        with psycopg.connect(**parameters) as first:
            version = first.info.server_version
            if version < OLDEST_VERSION * 10_000:
                found = f"{version // 10_000}.{version % 10_000}"
                raise ImproperlyConfigured(f"PostgreSQL {OLDEST_VERSION} or newer is needed ({found} found).")
            if _gives_away_its_session(first, parameters):
                raise ImproperlyConfigured(
                    "A connection pooler (such as PgBouncer) between OSMO Admin and PostgreSQL gives each transaction "
                    "another session, and prepared statements and locks of a session are lost. Set pool_mode = session "
                    "there, or connect to PostgreSQL itself; OSMO_DB_POOL_SIZE keeps connections open "
                    "(docs/database.md)."
                )
    except psycopg.Error as problem:
        if (reason := pooler_refusal(problem)) is not None:
            raise ImproperlyConfigured(reason) from problem


def pooler_refusal(problem: Exception) -> str | None:
    """The sentence for a pooler that refuses our connections because of what they set at their start."""
    if not any(text in str(problem) for text in _REFUSED_PARAMETER):
        return None
    return (
        "A connection pooler (such as PgBouncer) answers in place of PostgreSQL and refuses the parameter `options`, "
        "with which each connection sets its limits. Set ignore_startup_parameters = options and pool_mode = session "
        "there, or connect to PostgreSQL itself (docs/database.md)."
    )


def database_identity(session: psycopg.Connection[Any]) -> tuple[object, ...]:
    """Equal for two sessions if they are in the same database of the same server, or of a standby of it, by whatever
    address."""
    row = session.execute(
        "SELECT system_identifier, (SELECT oid FROM pg_database WHERE datname = current_database())"
        " FROM pg_control_system()"
    ).fetchone()
    assert row is not None
    return tuple(row)


def _gives_away_its_session(first: psycopg.Connection[Any], parameters: Mapping[str, Any]) -> bool:
    """Whether this connection loses its process of the server between two transactions. PostgreSQL itself tells each
    client the number of its process; a pooler tells another number. Then further connections keep transactions open,
    each of which takes a process that is free, until one of them gets the process of the first connection, or the first
    one gets another."""
    query = b"SELECT pg_backend_pid()"
    ours = _process_of(first, query)
    if ours is None or ours == first.pgconn.backend_pid:
        return False
    with ExitStack() as others:
        for _ in range(MOST_OTHERS):
            other = others.enter_context(closing(psycopg.connect(**parameters)))
            try:
                theirs = _process_of(other, b"BEGIN; " + query)
            except psycopg.errors.ProtocolViolation:
                return True  # PgBouncer refuses BEGIN where each statement may go to another process
            if theirs is None:
                return False  # it waits for a session, and ours is not given to it
            if theirs == ours or _process_of(first, query) != ours:
                return True
    return False


def _process_of(session: psycopg.Connection[Any], query: bytes) -> int | None:
    """The number in the last row of a query; None without an answer in time. Raises the errors of psycopg."""
    pgconn, ends_at = session.pgconn, time.monotonic() + ANSWER_SECONDS
    pgconn.send_query(query)
    found = None
    while True:
        while pgconn.is_busy():
            if not select.select([pgconn.socket], [], [], max(0.0, ends_at - time.monotonic()))[0]:
                return None
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            return found
        if result.status not in {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK}:
            raise psycopg.errors.error_from_result(result)
        if result.ntuples:
            found = int(result.get_value(0, 0) or 0)
