"""Which open transactions may still write into this database.

A snapshot of PostgreSQL names the open transactions of the whole server. A session belongs to one database for its
whole life, so a transaction of a session of another database never writes here, and nothing of ours has to wait for it.
`pg_locks` tells every role which session holds which transaction, and `pg_stat_activity` which database that session is
in (PostgreSQL, "System Views").
"""

from __future__ import annotations

import time
from threading import Lock

from pools.database.statements import execute_sql

PATIENCE_SECONDS = 1.0
"""Most transactions end within milliseconds; only a longer one is looked at, so that a busy server gets no further
query."""

# A session that one of the views does not name may be one of ours. A transaction that ends between the two reads has
# committed before any later query, so a horizon beyond it loses nothing.
_ELSEWHERE = """
    SELECT running.id::text FROM pg_snapshot_xip(%s::pg_snapshot) AS running (id) WHERE EXISTS (
        SELECT FROM pg_locks held JOIN pg_stat_activity session ON session.pid = held.pid
        WHERE held.locktype = 'transactionid' AND held.mode = 'ExclusiveLock' AND held.granted
            AND held.transactionid = running.id::xid
            AND session.datid <> (SELECT oid FROM pg_database WHERE datname = current_database())
        UNION ALL
        SELECT FROM pg_prepared_xacts prepared
        WHERE prepared.transaction = running.id::xid AND prepared.database <> current_database()
    )
"""


def oldest_open_transaction(snapshot: str) -> int:
    """The number before which every transaction that writes into this database has ended in the snapshot, given in
    PostgreSQL's notation (`10:20:10,14,15`). Transactions of other databases are left out once they last longer than
    `PATIENCE_SECONDS`."""
    oldest, end, others = snapshot.split(":")
    if not others or not _oldest.has_lasted(int(oldest)):
        return int(oldest)
    elsewhere = transactions_elsewhere(snapshot)
    return min((number for number in map(int, others.split(",")) if number not in elsewhere), default=int(end))


def current_snapshot() -> str:
    """The current snapshot in PostgreSQL's notation, which tells which transactions have ended: `10:20:10,14,15`."""
    return str(execute_sql("SELECT pg_current_snapshot()::text").fetchone()[0])


def has_open_transaction_before(number: int) -> bool:
    """Whether another transaction with a lower number than this one is open that may write into this database."""
    snapshot = current_snapshot()
    earlier = {each for each in map(int, filter(None, snapshot.split(":")[2].split(","))) if each < number}
    return bool(earlier) and bool(earlier - transactions_elsewhere(snapshot))


def transactions_elsewhere(snapshot: str) -> set[int]:
    """Those open transactions of a snapshot that belong to other databases of the server."""
    return {int(number) for (number,) in execute_sql(_ELSEWHERE, [snapshot])}


class _Oldest:
    """Since when this process has seen the same oldest transaction."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._number, self._since = 0, 0.0

    def has_lasted(self, number: int) -> bool:
        with self._lock:
            if number > self._number:
                self._number, self._since = number, time.monotonic()
            return time.monotonic() - self._since >= PATIENCE_SECONDS


_oldest = _Oldest()
