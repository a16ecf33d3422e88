"""A loop that works with one cluster while it holds a lease: the base of the agent, the observer and the GPU quota
controller.

Any number of processes may run a loop for the same backend; one holds the lease and works, the others stand by. A loop
that loses its lease or meets an error starts again after a pause, so nothing but a stop or the removal of the backend
ends it.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import ClassVar

from django.db import DatabaseError, InterfaceError, connection
from django.db.models import QuerySet

from pools.domain.errors import Busy
from pools.models import Backend
from pools.selectors.clusters import managed_clusters, observed_clusters
from scheduling.kube.connection import errors, metrics
from scheduling.kube.connection.backoff import Backoff
from scheduling.kube.connection.error_messages import error_message
from scheduling.kube.connection.errors import ClusterError
from scheduling.services.kubernetes.leases import AlreadyClaimed, Lease, LeaseLost

logger = logging.getLogger(__name__)


NOT_COUNTED = "The use of nodes by others is not counted"
"""What does not happen where pods or devices cannot be listed."""


class BackendRemoved(Exception):
    """The backend no longer exists, is no longer a Kubernetes cluster, or has another mode."""


class LeasedLoop(ABC):
    """The loop of one backend. :meth:`run` works until it is stopped or the backend is removed; :meth:`wake` says that
    something changed in the ledger. `last_alive_at` (monotonic seconds) is the last sign of life."""

    title: ClassVar[str]
    """The loop's name in the log."""

    def __init__(self, backend_id: int, lease: Lease, *, standby_seconds: float) -> None:
        self.backend_id = backend_id
        self.last_alive_at = time.monotonic()
        self._lease, self._standby_seconds = lease, standby_seconds
        self._is_leased = False
        self._wake = threading.Event()

    def wake(self) -> None:
        """Something changed in the ledger: work soon."""
        self._wake.set()

    def end_pauses(self) -> None:
        """The cluster answers after an outage: try again what waits in a pause after a failure."""
        self.wake()

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set or the backend is removed. Errors are logged and followed by a growing pause."""
        backoff = Backoff(0.5, 30)
        while not stop.is_set():
            self.last_alive_at = time.monotonic()
            try:
                self._ensure_lease_row()
                self._work_under_lease(stop, backoff)
                pause = self._standby_seconds
            except BackendRemoved:
                break
            except (AlreadyClaimed, LeaseLost):
                pause = self._standby_seconds
            except (DatabaseError, InterfaceError, Busy) as error:
                logger.warning("the %s of backend %s waits for the database: %s", self.title, self.backend_id, error)
                pause = backoff.next_pause()
            except Exception:
                logger.exception("the %s of backend %s failed and will start again", self.title, self.backend_id)
                pause = backoff.next_pause()
            with suppress(DatabaseError, InterfaceError):
                connection.close()
            stop.wait(pause)
        connection.close()

    def _work_under_lease(self, stop: threading.Event, backoff: Backoff) -> None:
        self._lease.claim()
        self._is_leased = True
        metrics.count_lease(self.title, "claimed")
        try:
            self._work(stop, backoff)
        except LeaseLost:
            metrics.count_lease(self.title, "lost")
            raise
        finally:
            self._is_leased = False
            with suppress(DatabaseError, InterfaceError):
                self._lease.release()

    def _keep_lease(self) -> None:
        """Give a sign of life and renew the lease; called before anything that takes time. Raises LeaseLost."""
        self.last_alive_at = time.monotonic()
        if self._is_leased:
            self._lease.renew()

    def renew_lease(self) -> None:
        """Renew the lease when it is time, from another thread than the loop's, while the loop waits for its cluster. A
        lost lease stops the loop's writes; the loop itself notices the loss when it renews."""
        if self._is_leased:
            with suppress(LeaseLost):
                self._lease.renew()

    def _require_lease(self) -> None:
        """Called before each write to the cluster, or of what was seen there. Raises LeaseLost."""
        if self._is_leased and not self._lease.may_write():
            raise LeaseLost("The lease on this backend may have run out; nothing is written without it.", retry_after=1)

    @abstractmethod
    def _ensure_lease_row(self) -> None:
        """Create the row that holds the lease, if it is missing. Raises BackendRemoved."""

    @abstractmethod
    def _work(self, stop: threading.Event, backoff: Backoff) -> None:
        """Work until `stop` is set, resetting `backoff` after each success. Raises LeaseLost."""


class ContactLoop(LeasedLoop):
    """A loop with heartbeats: it asks from time to time whether its cluster answers. `_error` is that of a cluster that
    does not; `_refusals` are the errors of one that does, by what does not happen because of them."""

    def __init__(self, backend_id: int, lease: Lease, *, standby_seconds: float) -> None:
        super().__init__(backend_id, lease, standby_seconds=standby_seconds)
        self._due: dict[str, float] = {}
        self._error: ClusterError | None = None
        self._refusals: dict[str, str] = {}
        self._heartbeat_backoff = Backoff(1, 15)

    def _record_error(self, error: ClusterError, effect: str = "") -> None:
        """A cluster that does not answer gets no further calls until a heartbeat succeeds. Heartbeats report what it
        refuses, with its `effect`."""
        logger.info("the %s of backend %s: %s", self.title, self.backend_id, error)
        if errors.is_silence(error):
            self._error = error
            self._due["heartbeat"] = 0.0
        elif effect and not isinstance(error, errors.TooManyRequests | errors.WriteConflict):  # these end by themselves
            self._refusals.setdefault(effect, f"{effect}: {error_message(error)}")

    def _is_due(self, task: str, interval: float) -> bool:
        """Whether the task is due; if it is, it is due again after this many seconds."""
        now = time.monotonic()
        if self._due.get(task, 0.0) > now:
            return False
        self._due[task] = now + interval
        return True


def kubernetes_backend(backend_id: int) -> Backend:
    """The backend that we manage, as it is now. Raises BackendRemoved."""
    return _only(managed_clusters(), backend_id)


def observed_backend(backend_id: int) -> Backend:
    """The backend that we observe, as it is now. Raises BackendRemoved."""
    return _only(observed_clusters(), backend_id)


def _only(clusters: QuerySet[Backend], backend_id: int) -> Backend:
    backend = clusters.filter(pk=backend_id).first()
    if backend is None:
        raise BackendRemoved
    return backend
