"""Results of costly reads, kept for as long as nothing at all is committed.

PostgreSQL describes a snapshot by the transactions that it sees (`pg_current_snapshot()`). Two snapshots with the same
description see the same rows, because each commit of a change, of whichever table, changes the description. So a result
that was read in one of them is the result of the other one too, and nothing has to say when it is old.

Each connection keeps its own results and loses them with its end: after a crash of the database, which may lose the
last commits of those that did not wait for the disk, the number of a transaction could be used a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from pools.database.driver import driver_connection
from pools.database.prepared import read_rows
from pools.database.transactions import is_in_snapshot

Result = TypeVar("Result")

_kept: WeakKeyDictionary[Any, dict[Hashable, tuple[str, Any]]] = WeakKeyDictionary()


def read_if_changed(key: Hashable, read: Callable[[], Result]) -> Result:
    """The result of `read`, or the last one with this key if nothing was committed since.

    `read` depends on nothing but rows of the database: not on the time, and on no argument that `key` does not have.
    Nobody changes the result. There are few keys, because the results of all of them stay in memory. Outside of a
    snapshot (:func:`pools.database.transactions.one_snapshot`) each call reads.
    """
    if not is_in_snapshot():
        return read()
    kept = _kept.setdefault(driver_connection(), {})
    snapshot = _describe_snapshot()
    last = kept.get(key)
    if last is not None and last[0] == snapshot:
        found: Result = last[1]
        return found
    result = read()
    kept[key] = snapshot, result
    return result


def _describe_snapshot() -> str:
    """The snapshot of the open transaction."""
    found: str = read_rows("SELECT pg_current_snapshot()::text")[0][0]
    return found
