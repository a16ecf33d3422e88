"""Leases on the work with one cluster: its agent, its GPU quota controller, the sync of its queues. A lease is a row
that is claimed for a limited time, because no database lock is held during calls to a cluster. A worker that dies loses
its lease when the time is over.

The database's clock alone decides when a lease has expired. A holder trusts its lease for a shorter time, by a clock of
its own that no person sets and that goes on while the machine sleeps, counted from before the last renewal was sent. So
a holder that was frozen, or has lost the database, begins no write after another one may have claimed the lease.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Q
from django.db.models.functions import Now

from pools.domain.errors import Busy
from scheduling.models import QueueSync
from scheduling.models.leases.lease import LeaseColumns


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """The `duration` of a lease, and seconds after the last renewal: `renew_after` it is renewed, until `safe_for` a
    write may begin."""

    duration: timedelta
    renew_after: float
    safe_for: float


SYNC_TIMING = LeaseTiming(timedelta(seconds=60), renew_after=15.0, safe_for=40.0)
"""The longest call fits into the rest, so that a write never outlives its lease."""

LOOP_TIMING = LeaseTiming(timedelta(seconds=7), renew_after=2.0, safe_for=4.5)
"""Of loops that follow a cluster: short, so that a replacement works seconds after a process was killed. A call may
outlive the lease. That does no harm: creations are by name, and every other write of a loop names the version or the
uid that it is about, or is compared again by the replacement."""


class AlreadyClaimed(Busy):
    """Another worker holds the lease."""


class LeaseLost(Busy):
    """The lease ran out and another worker has claimed it."""


class HeldElsewhere(LeaseLost):
    """Another installation holds the Lease in the cluster."""


class Lease:
    """A lease on the work of one kind (`lease_model`) with a backend. Call `renew` before each write to the cluster."""

    def __init__(
        self,
        backend_id: int,
        lease_model: type[LeaseColumns] = QueueSync,
        timing: LeaseTiming | None = None,
    ) -> None:
        self._rows = lease_model._default_manager.filter(pk=backend_id)
        self.timing = timing or SYNC_TIMING
        self.holder = uuid.uuid4()
        self._renewed = -math.inf

    def claim(self) -> None:
        """Claim the lease, or claim it again. Raises AlreadyClaimed."""
        free = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lt=Now()) | Q(lease_holder=self.holder)
        began = _clock()
        if not self._rows.filter(free).update(lease_holder=self.holder, lease_expires_at=Now() + self.timing.duration):
            raise AlreadyClaimed("Another worker is at work on this cluster already.", retry_after=1)
        self._renewed = began

    def may_write(self) -> bool:
        """Whether a write may begin now, as far as this process knows. Answers at once, from any thread."""
        return _clock() - self._renewed < self.timing.safe_for

    def renew(self) -> None:
        """Extend the lease when it is time; from any thread. Raises LeaseLost when another worker has claimed it."""
        began = _clock()
        if began - self._renewed < self.timing.renew_after:
            return
        if not self._rows.filter(lease_holder=self.holder).update(lease_expires_at=Now() + self.timing.duration):
            self._renewed = -math.inf  # stops the writes of all threads at once
            raise LeaseLost("Another worker has taken over the work on this backend.", retry_after=1)
        self._renewed = began

    def release(self) -> None:
        """Let another worker claim the lease."""
        self._renewed = -math.inf
        self._rows.filter(lease_holder=self.holder).update(lease_holder=None, lease_expires_at=None)


def _clock() -> float:
    """Seconds of a clock that nobody sets, and that also counts while the machine is suspended, where there is one."""
    return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@contextmanager
def hold_lease(backend_id: int) -> Iterator[Lease]:
    """A lease on the queues of a backend for the duration of a block. Raises AlreadyClaimed."""
    lease = Lease(backend_id)
    lease.claim()
    try:
        yield lease
    finally:
        lease.release()
