"""Causing a race on purpose: writers that wait for each other between check and write, with the lock or the database
triggers removed to show what they prevent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.db import connection

from pools import locking
from pools.models import Pool


class Rendezvous:
    """Lets `parties` callers of a function wait for one another after it has returned, so that all have read before any
    writes. A caller that waits alone (because a lock holds the others) continues after a short timeout; without the
    lock all callers arrive, and the timeout is long enough for a busy machine. `seconds` overrides the timeout."""

    timeout_seconds = 1.0

    def __init__(self, parties: int, seconds: float | None = None) -> None:
        self._barrier = threading.Barrier(parties)
        self._seconds = seconds

    def wait(self) -> None:
        """Wait for the other parties, or continue alone after the timeout."""
        with suppress(threading.BrokenBarrierError):
            self._barrier.wait(self.timeout_seconds if self._seconds is None else self._seconds)

    def after_call(self, patch: pytest.MonkeyPatch, where: Any, name: str) -> Rendezvous:
        """Let callers of `where.name` wait for each other after its return."""
        real = getattr(where, name)

        def read_then_meet(*args: Any, **kwargs: Any) -> Any:
            found = real(*args, **kwargs)
            self.wait()
            return found

        patch.setattr(where, name, read_then_meet)
        return self


def remove_tree_lock(patch: pytest.MonkeyPatch, *modules: Any) -> None:
    """Let services read the tree without its lock."""

    def plain_read(root_id: int) -> Pool:
        return Pool.objects.get(pk=root_id)

    for module in modules:
        patch.setattr(module, "lock_pool_tree", plain_read)
    patch.setattr(Rendezvous, "timeout_seconds", 30.0)
    patch.setattr(locking, "_LOCK_LEAF_SQL", locking._LOCK_LEAF_SQL.replace("FOR NO KEY UPDATE", ""))


@contextmanager
def without_triggers(table: str, *triggers: str) -> Iterator[None]:
    """Disable named database triggers for all sessions, and enable them again."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tgname FROM pg_trigger WHERE tgrelid = %s::regclass AND tgname ~ %s",
            [table, "^pgtrigger_(" + "|".join(triggers) + ")_"],
        )
        found = [name for (name,) in cursor.fetchall()]
        assert len(found) == len(triggers), (found, triggers)
        for name in found:
            cursor.execute(f'ALTER TABLE {table} DISABLE TRIGGER "{name}"')
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            for name in found:
                cursor.execute(f'ALTER TABLE {table} ENABLE TRIGGER "{name}"')
