"""The line of each backend, kept in the process until a row it was made from changes.

The engine explains a small house in milliseconds, and what is shown is what is. Where thousands wait it takes seconds:
such a line is made behind the back of its readers, never for more than a tenth of the time, and what they see of it is
who waits now, with places and reasons that are some seconds old. Until the first one is made, who asks after one
workflow is told that its place is not found yet; who asks for everybody waits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from threading import Lock, Thread
from uuid import UUID

from django.db import connection, connections

from pools.models import Backend
from pools.transactions import one_snapshot
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES
from scheduling.selectors.pending_queue import (
    PendingQueue,
    add_recent_arrivals,
    build_pending_queue,
    build_unplaced_queue,
)

logger = logging.getLogger(__name__)

LARGE_QUEUE = 2000
"""So many waiting gangs make a line large."""
MIN_LARGE_LIFETIME = 5.0
"""Seconds that a large line is good for, at least."""
LIFETIME_FACTOR = 10
"""A large line is good for so many times what it took to make."""


def get_pending_queue(backend: Backend) -> PendingQueue:
    """The line of this backend: as it is now, or (`is_large`) as it was found a moment ago. One cheap query when
    nothing changed."""
    return _KEPT.setdefault(backend.pk, _BackendCache()).line(backend)


def get_available_queue(backend: Backend, groups: Collection[UUID]) -> PendingQueue:
    """The same for who asks after these groups, without a wait: where a large line is yet to be made, one on which
    nobody has a place."""
    return _KEPT.setdefault(backend.pk, _BackendCache()).at_hand(backend, groups)


def get_exact_queue(backend: Backend) -> PendingQueue:
    """The same with exactly those who wait now, one query more where it is large."""
    line = get_pending_queue(backend)
    return add_recent_arrivals(backend, line) if is_large(line) else line


def is_large(line: PendingQueue) -> bool:
    """Whether so many wait that places and reasons may be some seconds old."""
    return line.length >= LARGE_QUEUE


@dataclass(frozen=True, slots=True)
class _CachedQueue:
    line: PendingQueue
    fingerprint: object
    good_until: float


class _BackendCache:
    """The last line of one backend in this process."""

    def __init__(self) -> None:
        self._making = Lock()
        self._last: _CachedQueue | None = None
        self.renewing: Thread | None = None

    def line(self, backend: Backend) -> PendingQueue:
        """The line, made anew if it has to be."""
        return self._large(backend) or self._exact(backend)

    def at_hand(self, backend: Backend, groups: Collection[UUID]) -> PendingQueue:
        """The line, if it can be had without making a large one."""
        if (large := self._large(backend)) is not None:
            return large
        if not connection.in_atomic_block and is_large(unmade := build_unplaced_queue(backend, groups)):
            self._renew_aside(backend)
            return unmade
        return self._exact(backend)

    def _large(self, backend: Backend) -> PendingQueue | None:
        """The last line if it is a large one; a new one is begun when it is old."""
        last = self._last
        # Inside a transaction there may be changes that are never committed: a dry run.
        if last is None or not is_large(last.line) or connection.in_atomic_block:
            return None
        if time.monotonic() >= last.good_until:
            self._renew_aside(backend)
        return last.line

    def _renew_aside(self, backend: Backend) -> None:
        if self.renewing is None or not self.renewing.is_alive():
            self.renewing = Thread(target=self._renew, args=[backend], daemon=True)
            self.renewing.start()

    def _exact(self, backend: Backend) -> PendingQueue:
        """As the rows are now. One thread makes it, the others wait for it."""
        with self._making:
            begin, last = time.monotonic(), self._last
            if last is not None and last.fingerprint == _fingerprint(backend):
                line, fingerprint = last.line, last.fingerprint
            else:
                with one_snapshot():
                    line, fingerprint = build_pending_queue(backend), _fingerprint(backend)
            now = time.monotonic()
            if not (is_large(line) and connection.in_atomic_block):
                self._last = _CachedQueue(
                    line, fingerprint, now + max(MIN_LARGE_LIFETIME, LIFETIME_FACTOR * (now - begin))
                )
            return line

    def _renew(self, backend: Backend) -> None:
        try:
            self._exact(Backend.objects.get(pk=backend.pk))
        except Exception:
            logger.exception("the line of %s could not be made; the old one is shown", backend.name)
        finally:
            connections.close_all()


_KEPT: dict[int, _BackendCache] = {}

# Every version of a row has its own (ctid, xmin), so the sum of their hashes moves with any change of any of them.
_FINGERPRINT_SQL = f"""
    WITH roots AS (SELECT id FROM pools_pool WHERE backend_id = %(backend)s),
    pool AS (SELECT pool.id, pool.ctid, pool.xmin FROM pools_pool pool
        WHERE pool.id IN (SELECT id FROM roots) OR pool.parent_id IN (SELECT id FROM roots)),
    gang AS (SELECT gang.uuid, gang.ctid, gang.xmin FROM scheduling_group gang
        JOIN scheduling_workflow work ON work.uuid = gang.workflow_id
        WHERE work.root_pool_id IN (SELECT id FROM roots)
            AND work.status IN ({", ".join(f"'{status}'" for status in sorted(ACTIVE_WORKFLOW_STATUSES))})),
    -- in a tree of cohorts what waits here depends on every pool in it, wherever it runs
    lent AS (SELECT pool.id, pool.ctid, pool.xmin
        FROM pools_pool pool JOIN pools_pool root ON root.id = COALESCE(pool.parent_id, pool.id)
        WHERE root.cohort_id IS NOT NULL
            AND EXISTS (SELECT FROM pools_pool WHERE backend_id = %(backend)s AND cohort_id IS NOT NULL)),
    bound AS (SELECT config ->> 'gpu_quota_namespace' AS namespace FROM pools_pool WHERE id IN (SELECT id FROM roots)),
    version AS (
        SELECT 'b' || ctid || xmin AS is FROM pools_backend WHERE id = %(backend)s
        UNION ALL SELECT 'n' || ctid || xmin FROM pools_node WHERE backend_id = %(backend)s
        UNION ALL SELECT 'p' || ctid || xmin FROM pool
        UNION ALL SELECT 'u' || ctid || xmin FROM pools_leafusage WHERE pool_id IN (SELECT id FROM pool)
        UNION ALL SELECT 'l' || ctid || xmin FROM lent
        UNION ALL SELECT 'v' || ctid || xmin FROM pools_leafusage WHERE pool_id IN (SELECT id FROM lent)
        UNION ALL SELECT 'c' || ctid || xmin FROM pools_cohort WHERE EXISTS (SELECT FROM lent)
        UNION ALL SELECT 'q' || ctid || xmin FROM pools_gpuquota WHERE namespace IN (SELECT namespace FROM bound)
        UNION ALL SELECT 'h' || ctid || xmin FROM pools_gpuusage WHERE namespace IN (SELECT namespace FROM bound)
        UNION ALL SELECT 'g' || ctid || xmin FROM gang
        UNION ALL SELECT 't' || task.ctid || task.xmin FROM scheduling_task task
            WHERE task.group_id IN (SELECT uuid FROM gang)
    )
    SELECT count(*), sum(hashtextextended(version.is, 0)) FROM version
"""


def _fingerprint(backend: Backend) -> object:
    with connection.cursor() as cursor:
        cursor.execute(_FINGERPRINT_SQL, {"backend": backend.pk})
        return cursor.fetchone()
