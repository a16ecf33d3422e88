"""Which errors say that the database is away, or that a lock was not free in time, rather than that a statement was
wrong.

PostgreSQL ends sessions for reasons that psycopg and Django file under several classes. The states are those of
PostgreSQL's manual, "PostgreSQL Error Codes".
"""

from __future__ import annotations

import psycopg
from django.db import Error, InterfaceError, OperationalError
from psycopg.errors import LockNotAvailable

AWAY_STATES = frozenset(
    {
        "25P03",  # idle_in_transaction_session_timeout has ended the session
        "25P04",  # transaction_timeout has
        "25006",  # the server became a standby, which takes no writes
    }
)
"""States outside of the class of operational errors."""


def is_lock_timeout(error: Error) -> bool:
    """Whether a statement waited for a lock longer than it may."""
    return isinstance(error.__cause__, LockNotAvailable)


def is_database_away(error: BaseException) -> bool:
    """Whether the database, or this session of it, cannot be used now: lost, ended, refused, out of time or space. The
    transaction was not committed, unless the error came instead of the answer to its COMMIT, and it may be repeated."""
    if isinstance(error, OperationalError | InterfaceError | psycopg.OperationalError | psycopg.InterfaceError):
        return True
    cause = error.__cause__ if isinstance(error, Error) else error
    if type(cause) is psycopg.DatabaseError and cause.sqlstate is None:
        return True  # of the client library, which could not send a message
    return isinstance(cause, psycopg.Error) and cause.sqlstate in AWAY_STATES
