"""Applies a plan to a cluster: several parts of the queue tree at a time, each part in its order. Network only."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from scheduling.domain.queues.desired import QueueTarget
from scheduling.domain.queues.plan import QueueStep, independent_chains
from scheduling.kube.connection import errors
from scheduling.kube.connection.backoff import Backoff
from scheduling.kube.connection.errors import ClusterError
from scheduling.kube.connection.port import Cluster
from scheduling.kube.queues.queue_steps import ClusterWrite, apply_write

logger = logging.getLogger(__name__)

# Fewer than the connections in the pool; an API server commits several writes at once faster than one by one.
MAX_PARALLEL_WRITES = 6
LEASE_CHECK_SECONDS = 2.0
_MAX_CONSECUTIVE_FAILURES = 3  # then the run ends
_MAX_WAIT_SECONDS = 30.0  # of one run in all, when the API server asks for pauses
_ERRORS_OF_ONE_OBJECT = (
    errors.WriteConflict,
    errors.InvalidObject,
    errors.AlreadyExists,
    errors.ObjectNotFound,
    errors.BeingDeleted,
    errors.ServerError,
)
"""Errors that concern one object while the cluster works; every other error ends the run."""
_ERRORS_OF_THE_CLUSTER = (errors.KindMissing,)


@dataclass
class WriteProgress:
    """The progress of the writes of one run. `fatal_error` ended the run early."""

    done: list[ClusterWrite] = field(default_factory=list)
    remaining: list[ClusterWrite] = field(default_factory=list)
    failures: list[tuple[ClusterWrite, ClusterError]] = field(default_factory=list)
    fatal_error: ClusterError | None = None


class QueueWriter:
    """The writes of one run. A failed step blocks only the later steps for the same part of the tree."""

    def __init__(self, cluster: Cluster, target: QueueTarget, *, may_write: Callable[[], bool]) -> None:
        """`may_write` is called before each write, from any thread, and returns at once."""
        self._cluster, self._target, self._may_write = cluster, target, may_write
        self._progress = WriteProgress()
        self._lock = threading.Lock()  # of this object's state; no thread speaks to the cluster while it holds the lock
        self._stop = threading.Event()
        self._backoff = Backoff(first_pause=1.0, max_pause=10.0)
        self._consecutive_failures = 0
        self._wait_deadline = 0.0

    def run(self, writes: Sequence[ClusterWrite], *, renew_lease: Callable[[], None]) -> WriteProgress:
        """Apply the writes. `renew_lease` is called repeatedly, in this thread; an exception of it ends the run."""
        self._wait_deadline = time.monotonic() + _MAX_WAIT_SECONDS
        roots = [
            write
            for write in writes
            if isinstance(write, QueueStep) and write.queue is not None and not write.queue.parent
        ]
        for write in roots:  # the whole tree is below it
            if not self._may_write():
                self._progress.remaining.append(write)
                self._stop.set()
            elif not self._apply(write):
                self._stop.set()
        chains = independent_chains(write for write in writes if not any(write is root for root in roots))
        renew_lease()
        if chains:
            self._apply_chains(chains, renew_lease)
        order = {id(write): number for number, write in enumerate(writes)}
        for part in (self._progress.done, self._progress.remaining):
            part.sort(key=lambda write: order[id(write)])
        return self._progress

    def _apply_chains(self, chains: list[list[ClusterWrite]], renew_lease: Callable[[], None]) -> None:
        with ThreadPoolExecutor(min(MAX_PARALLEL_WRITES, len(chains)), thread_name_prefix="queue-write") as executor:
            running: set[Future[None]] = {executor.submit(self._apply_chain, chain) for chain in chains}
            try:
                while running:
                    finished, running = wait(running, timeout=LEASE_CHECK_SECONDS, return_when=FIRST_EXCEPTION)
                    for future in finished:
                        future.result()
                    renew_lease()
            except BaseException:
                self._stop.set()  # leaving the executor waits for the running writes
                raise

    def _apply_chain(self, chain: list[ClusterWrite]) -> None:
        blocked: set[str] = set()
        for write in chain:
            if self._stop.is_set() or not self._may_write() or not blocked.isdisjoint(write.affected_names):
                with self._lock:
                    self._progress.remaining.append(write)
            elif self._apply(write):
                continue
            blocked.update(write.affected_names)

    def _apply(self, write: ClusterWrite) -> bool:
        """Apply one write; whether it succeeded."""
        try:
            self._apply_with_pauses(write)
        except ClusterError as error:
            self._record_failure(write, error)
            return False
        with self._lock:
            self._progress.done.append(write)
            self._consecutive_failures = 0
        return True

    def _apply_with_pauses(self, write: ClusterWrite) -> None:
        while True:
            try:
                apply_write(self._cluster, self._target, write)
            except errors.TooManyRequests as error:
                with self._lock:
                    pause = self._backoff.next_pause(at_least=error.retry_after)
                if time.monotonic() + pause > self._wait_deadline or self._stop.is_set():
                    raise
                self._stop.wait(pause)
            else:
                return

    def _record_failure(self, write: ClusterWrite, error: ClusterError) -> None:
        logger.warning("%s: %s", write.description, error)
        with self._lock:
            self._progress.remaining.append(write)
            self._progress.failures.append((write, error))
            self._consecutive_failures += not isinstance(error, errors.BeingDeleted)
            is_of_one_object = isinstance(error, _ERRORS_OF_ONE_OBJECT) and not isinstance(
                error, _ERRORS_OF_THE_CLUSTER
            )
            if not is_of_one_object or self._consecutive_failures >= _MAX_CONSECUTIVE_FAILURES:
                self._progress.fatal_error = self._progress.fatal_error or error
                self._stop.set()
