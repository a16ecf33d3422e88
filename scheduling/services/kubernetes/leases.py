"""Leases on the work with one cluster: its agent, its GPU quota controller, the sync of its queues. A lease is a row
that is claimed for a limited time, because no database lock is held during calls to a cluster. A worker that dies loses
its lease when the time is over."""

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

LEASE_DURATION = timedelta(seconds=60)  # longer than the longest call, so that a write never outlives its lease
RENEW_AFTER_SECONDS = 15.0
SAFE_WRITE_SECONDS = 40.0  # after a renewal, in which a write may begin: the longest call fits into the rest


class AlreadyClaimed(Busy):
    """Another worker holds the lease."""


class LeaseLost(Busy):
    """The lease ran out and another worker has claimed it."""


class Lease:
    """A lease on the work of one kind (`lease_model`) with a backend. Call `renew` before each write to the cluster."""

    def __init__(
        self,
        backend_id: int,
        lease_model: type[LeaseColumns] = QueueSync,
        *,
        duration: timedelta = LEASE_DURATION,
        renew_after_seconds: float | None = None,
    ) -> None:
        self._rows = lease_model._default_manager.filter(pk=backend_id)
        self._duration, self._renew_after = duration, renew_after_seconds
        self._holder = uuid.uuid4()
        self._renewed = 0.0

    def claim(self) -> None:
        """Claim the lease, or claim it again. Raises AlreadyClaimed."""
        free = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lt=Now()) | Q(lease_holder=self._holder)
        self._renewed = time.monotonic()
        if not self._rows.filter(free).update(lease_holder=self._holder, lease_expires_at=Now() + self._duration):
            raise AlreadyClaimed("Another worker is at work on this backend already.", retry_after=1)

    def may_write(self) -> bool:
        """Whether a write may begin now, as far as this process knows. Answers at once, from any thread."""
        return time.monotonic() - self._renewed < SAFE_WRITE_SECONDS

    def renew(self) -> None:
        """Extend the lease when it is time. Raises LeaseLost when another worker has claimed it."""
        if time.monotonic() - self._renewed < (RENEW_AFTER_SECONDS if self._renew_after is None else self._renew_after):
            return
        self._renewed = time.monotonic()
        if not self._rows.filter(lease_holder=self._holder).update(lease_expires_at=Now() + self._duration):
            self._renewed = 0.0  # stops the writes of all threads at once
            raise LeaseLost("Another worker has taken over the work on this backend.", retry_after=1)

    def release(self) -> None:
        """Let another worker claim the lease."""
        self._rows.filter(lease_holder=self._holder).update(lease_holder=None, lease_expires_at=None)


@contextmanager
def hold_lease(backend_id: int) -> Iterator[Lease]:
    """A lease on the queues of a backend for the duration of a block. Raises AlreadyClaimed."""
    lease = Lease(backend_id)
    lease.claim()
    try:
        yield lease
    finally:
        lease.release()
