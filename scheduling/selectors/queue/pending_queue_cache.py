"""The pending queue of each backend, cached in the process until its token moves (docs/changes.md).

For a small queue the engine needs milliseconds, and readers always get the current one. For a large queue it needs
seconds: such a queue is built in the background, for at most a tenth of the time, and readers get exactly the gangs
that wait now, with positions and reasons that are some seconds old. Until the first large queue is built, a request for
one workflow gets no position, and a request for all gangs waits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from threading import Lock, Thread
from typing import cast
from uuid import UUID

from django.apps import apps
from django.db import connections

from pools.database.transactions import one_snapshot, sees_uncommitted_changes
from pools.models import Backend
from scheduling.selectors.queue.pending_queue import (
    PendingQueue,
    add_recent_arrivals,
    build_pending_queue,
    build_unplaced_queue,
    read_queue_token,
)

logger = logging.getLogger(__name__)

MIN_LARGE_LIFETIME = 5.0
"""The least seconds for which a large queue is used."""
LIFETIME_FACTOR = 10
"""The lifetime of a large queue, as a multiple of the duration of its build."""


class PendingQueueCache:
    """The pending queues of this process. The scheduling app owns the one that serves requests
    (:class:`scheduling.apps.SchedulingConfig`); it is closed when the process ends."""

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._is_closed = False

    def get(self, backend: Backend) -> PendingQueue:
        """The current queue, or the last one if it is large. One cheap query when nothing changed."""
        return self._entry(backend).large_queue(backend) or self._entry(backend).current_queue(backend)

    def get_exact(self, backend: Backend, *, pools: Collection[str] = ()) -> PendingQueue:
        """As `get`, but with exactly the gangs that wait now; one more query if the queue is large. With names of
        leaves, a large queue has only their gangs."""
        queue = self.get(backend)
        return add_recent_arrivals(backend, queue, pools=pools) if queue.is_large else queue

    def get_available(self, backend: Backend, groups: Collection[UUID]) -> PendingQueue:
        """The queue for a request about these groups, without a wait: if the first large queue is not built yet, a
        queue without positions."""
        entry = self._entry(backend)
        if (large := entry.large_queue(backend)) is not None:
            return large
        if not sees_uncommitted_changes() and (unplaced := build_unplaced_queue(backend, groups)).is_large:
            entry.start_refresh(backend)
            return unplaced
        return entry.current_queue(backend)

    def expire(self, backend: Backend) -> None:
        """Let the next reader of a large queue start its refresh."""
        self._entry(backend).expire()

    def close(self, seconds: float = 2.0) -> None:
        """Start no more refreshes, and wait for those that are running."""
        self._is_closed = True
        for entry in self._entries.values():
            entry.join(seconds)

    def _entry(self, backend: Backend) -> _Entry:
        return self._entries.setdefault(backend.pk, _Entry(self))

    @property
    def is_closed(self) -> bool:
        """Whether no refresh may start any more."""
        return self._is_closed


@dataclass(frozen=True, slots=True)
class _CachedQueue:
    queue: PendingQueue
    token: str
    good_until: float


class _Entry:
    """The last queue of one backend."""

    def __init__(self, cache: PendingQueueCache) -> None:
        self._cache = cache
        self._building = Lock()
        self._last: _CachedQueue | None = None
        self._refresher: Thread | None = None

    def large_queue(self, backend: Backend) -> PendingQueue | None:
        """The last queue if it is large; its refresh is started when it is old."""
        last = self._last
        if last is None or not last.queue.is_large or sees_uncommitted_changes():
            return None
        if time.monotonic() >= last.good_until:
            self.start_refresh(backend)
        return last.queue

    def current_queue(self, backend: Backend) -> PendingQueue:
        """The queue of the current rows. One thread builds it, the others wait for it."""
        with self._building:
            begin, last = time.monotonic(), self._last
            with one_snapshot():
                token = read_queue_token(backend)
                queue = last.queue if last is not None and last.token == token else build_pending_queue(backend)
            now = time.monotonic()
            if not (queue.is_large and sees_uncommitted_changes()):
                lifetime = max(MIN_LARGE_LIFETIME, LIFETIME_FACTOR * (now - begin))
                self._last = _CachedQueue(queue, token, now + lifetime)
            return queue

    def start_refresh(self, backend: Backend) -> None:
        """Build a new queue in the background, unless a refresh is running."""
        if self._cache.is_closed or (self._refresher is not None and self._refresher.is_alive()):
            return
        self._refresher = Thread(target=self._refresh, args=[backend], name="pending-queue-refresh", daemon=True)
        self._refresher.start()

    def expire(self) -> None:
        """Treat the last queue as old."""
        if self._last is not None:
            self._last = replace(self._last, good_until=0.0)

    def join(self, seconds: float) -> None:
        """Wait for a refresh that is running."""
        if self._refresher is not None:
            self._refresher.join(seconds)

    def _refresh(self, backend: Backend) -> None:
        try:
            self.current_queue(Backend.objects.get(pk=backend.pk))
        except Exception:
            logger.exception("the pending queue of %s could not be built; the old one is still used", backend.name)
        finally:
            connections.close_all()


def pending_queues() -> PendingQueueCache:
    """The cache of this process, which the scheduling app owns."""
    return cast("PendingQueueCache", apps.get_app_config("scheduling").pending_queues)  # type: ignore[attr-defined]
