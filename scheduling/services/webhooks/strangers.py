"""Counting of reviews without the right mark. A caller without the mark is anybody, so it writes no row of its own:
each process adds up the attempts by backend, and one statement every few seconds stores the sums."""

from __future__ import annotations

import logging
import threading
import time

from django.db import Error

from pools.database.statements import execute_sql

logger = logging.getLogger(__name__)

STORE_EVERY_SECONDS = 5.0
MAX_NAMES = 64
"""Names of backends that are remembered between two statements; attempts under further names are not counted."""

_counts: dict[str, int] = {}
_lock = threading.Lock()
_stored_at = float("-inf")


def count_stranger(backend: str) -> None:
    """Count a review that came for this name without its mark. Never raises; most calls make no query, whether the
    backend exists or not."""
    global _stored_at  # noqa: PLW0603 (one counter for each process)
    with _lock:
        if backend in _counts or len(_counts) < MAX_NAMES:
            _counts[backend] = _counts.get(backend, 0) + 1
        if time.monotonic() - _stored_at < STORE_EVERY_SECONDS:
            return
        _stored_at = time.monotonic()
        due = dict(_counts)
        _counts.clear()
    try:
        execute_sql(_ADD, [[_storable(name) for name in due], list(due.values())])
    except Error:
        logger.warning("%s unmarked reviews were not counted", sum(due.values()))


def _storable(name: str) -> str:
    return name.replace("\x00", "").encode("utf-8", "replace").decode()


_ADD = """
    INSERT INTO scheduling_unmarkedreviews (backend_id, attempts, first_at, last_at)
    SELECT backend.id, sum(due.attempts), now(), now()
    FROM unnest(%s::text[], %s::bigint[]) AS due (name, attempts) JOIN pools_backend backend ON backend.name = due.name
    GROUP BY backend.id
    ON CONFLICT (backend_id) DO UPDATE SET
        attempts = scheduling_unmarkedreviews.attempts + excluded.attempts, last_at = excluded.last_at
"""
