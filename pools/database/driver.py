"""The connection of this thread: how its transactions begin, and whether one is open."""

from __future__ import annotations

from typing import cast

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections, transaction

from pools.database.backend.base import DatabaseWrapper, Parameters


def this_connection() -> DatabaseWrapper:
    """Django's connection of this thread. `django.db.connection` looks it up at each use, which takes longer."""
    return cast("DatabaseWrapper", connections[DEFAULT_DB_ALIAS])


def begin(text: str, parameters: Parameters = ()) -> None:
    """Begin the transaction of the atomic block that was just entered with a BEGIN of our own, which takes its settings
    along in one message; psycopg would send one alone before the first statement."""
    db = this_connection()
    db.connection.autocommit = True  # psycopg sends no BEGIN then; Django sends COMMIT or ROLLBACK as usual
    with db.cursor() as cursor:
        cursor.execute(text, parameters)


def restart(text: str) -> None:
    """Begin again, with this text, where a failed statement has ended the transaction. Does nothing otherwise."""
    db = this_connection()
    raw = db.connection
    if raw is not None and raw.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
        raw.rollback()
        transaction.set_rollback(False)
        with db.cursor() as cursor:
            cursor.execute(text)


def is_in_transaction() -> bool:
    """Whether a transaction is open."""
    return this_connection().is_in_transaction()
