"""Who works with a cluster now, its agent, the keeper of its GPU quotas or a sync of its queues: a row claimed for a
while. No database lock is held while a cluster is spoken to, and a worker that dies loses its claim by itself."""

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
from scheduling.models.lease import LeaseColumns

LEASE_DURATION = timedelta(
    seconds=60
)  # longer than the longest call to a cluster, so that a write never outlives its claim
RENEW_AFTER_SECONDS = 15.0  # seconds
SAFE_WRITE_SECONDS = 40.0  # of a lease, in which a write may begin: the longest call fits into the rest


class AlreadyClaimed(Busy):
    """Somebody else is at it."""


class LeaseLost(Busy):
    """We were too slow, and somebody else has begun."""


class Lease:
    """A claim on a backend's queues, its agent's work or its keeper's (`rows`). `hold` before each write to the
    cluster."""

    def __init__(
        self,
        backend_id: int,
        lease_model: type[LeaseColumns] = QueueSync,
        *,
        duration: timedelta = LEASE_DURATION,
        renew_after_seconds: float | None = None,
    ) -> None:
        self._rows = lease_model._default_manager.filter(pk=backend_id)
        self._length, self._renew_after = duration, renew_after_seconds
        self._holder = uuid.uuid4()
        self._renewed = 0.0

    def claim(self) -> None:
        """Raises AlreadyClaimed. Who lost touch takes up again what is still his."""
        free = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lt=Now()) | Q(lease_holder=self._holder)
        self._renewed = time.monotonic()
        if not self._rows.filter(free).update(lease_holder=self._holder, lease_expires_at=Now() + self._length):
            raise AlreadyClaimed("Another worker is at work on this backend already.", retry_after=1)

    def may_write(self) -> bool:
        """Whether a write may begin now, as far as this process knows; at once and from any thread."""
        return time.monotonic() - self._renewed < SAFE_WRITE_SECONDS

    def renew(self) -> None:
        """Keep it. Raises LeaseLost when it went to somebody else."""
        if time.monotonic() - self._renewed < (RENEW_AFTER_SECONDS if self._renew_after is None else self._renew_after):
            return
        self._renewed = time.monotonic()
        if not self._rows.filter(lease_holder=self._holder).update(lease_expires_at=Now() + self._length):
            self._renewed = 0.0  # every thread of ours finds out at once
            raise LeaseLost("Another worker has taken over the work on this backend.", retry_after=1)

    def release(self) -> None:
        """Somebody else may begin."""
        self._rows.filter(lease_holder=self._holder).update(lease_holder=None, lease_expires_at=None)


@contextmanager
def hold_lease(backend_id: int) -> Iterator[Lease]:
    """The claim for the length of a block. Raises AlreadyClaimed."""
    claim = Lease(backend_id)
    claim.claim()
    try:
        yield claim
    finally:
        claim.release()
