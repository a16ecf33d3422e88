"""Who syncs the queues of a backend now: a row claimed for a while. No database lock is held while a cluster is spoken
to, and a worker that dies loses its claim by itself."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db.models import Q
from django.db.models.functions import Now

from pools.domain.errors import Busy
from scheduling.models import QueueSync

LEASE = timedelta(seconds=60)  # longer than the longest call to a cluster, so that a write never outlives its claim
RENEW_AFTER = 15.0  # seconds


class AlreadySyncing(Busy):
    """Somebody else is at it."""


class LeaseLost(Busy):
    """We were too slow, and somebody else has begun."""


class Lease:
    """A claim on a backend's queues. `hold` before each write to the cluster."""

    def __init__(self, backend_id: int) -> None:
        self._backend_id = backend_id
        self._holder = uuid.uuid4()
        self._renewed = 0.0

    def claim(self) -> None:
        """Raises AlreadySyncing."""
        free = Q(held_until__isnull=True) | Q(held_until__lt=Now())
        self._renewed = time.monotonic()
        if not QueueSync.objects.filter(free, pk=self._backend_id).update(
            holder=self._holder, held_until=Now() + LEASE
        ):
            raise AlreadySyncing("The queues of this backend are being synced already.", retry_after=1)

    def hold(self) -> None:
        """Keep it. Raises LeaseLost when it went to somebody else."""
        if time.monotonic() - self._renewed < RENEW_AFTER:
            return
        self._renewed = time.monotonic()
        mine = QueueSync.objects.filter(pk=self._backend_id, holder=self._holder)
        if not mine.update(held_until=Now() + LEASE):
            raise LeaseLost("Another worker has taken over the sync of this backend.", retry_after=1)

    def let_go(self) -> None:
        """Somebody else may begin."""
        QueueSync.objects.filter(pk=self._backend_id, holder=self._holder).update(holder=None, held_until=None)


@contextmanager
def lease(backend_id: int) -> Iterator[Lease]:
    """The claim for the length of a block. Raises AlreadySyncing."""
    claim = Lease(backend_id)
    claim.claim()
    try:
        yield claim
    finally:
        claim.let_go()
