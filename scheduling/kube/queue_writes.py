"""Doing the steps of a plan in a cluster: several parts of the tree at a time, each part in its order. Network only."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from scheduling.domain.queues.desired import QueueTarget
from scheduling.domain.queues.plan import QueueStep, independent_chains
from scheduling.kube import errors
from scheduling.kube.backoff import Backoff
from scheduling.kube.errors import ClusterError
from scheduling.kube.port import Cluster
from scheduling.kube.queues import ClusterWrite, apply_write

logger = logging.getLogger(__name__)

MAX_PARALLEL_WRITES = (
    6  # fewer than the connections that are kept; an API server is quicker when it can commit several at once
)
LEASE_CHECK_SECONDS = 5.0
_FAULTS_IN_A_ROW = 3  # after so many writes that failed one after another the cluster is left in peace
_PATIENCE = 30.0  # seconds that one run waits in all when the API server asks for pauses
_OF_ONE_OBJECT = (
    errors.WriteConflict,
    errors.InvalidObject,
    errors.AlreadyExists,
    errors.ObjectNotFound,
    errors.ServerError,
)
"""What one object may meet while the cluster is well; everything else ends the run."""
_OF_THE_CLUSTER = (errors.KindMissing,)


@dataclass
class WriteProgress:
    """How far the writes of one run came. `fatal` is what ended it before its time."""

    done: list[ClusterWrite] = field(default_factory=list)
    remaining: list[ClusterWrite] = field(default_factory=list)
    failures: list[tuple[ClusterWrite, ClusterError]] = field(default_factory=list)
    fatal_error: ClusterError | None = None


class QueueWriter:
    """One run's writes. A step that fails bars what comes later at the same place of the tree, and nothing else; when
    nothing works any more the rest is left."""

    def __init__(self, cluster: Cluster, place: QueueTarget, *, may_write: Callable[[], bool]) -> None:
        """`may_write_gpu_quota` says before each write, from any thread and at once, whether this run may still write."""
        self._cluster, self._place, self._is_ours = cluster, place, may_write
        self._work = WriteProgress()
        self._lock = threading.Lock()  # of what this object remembers; nobody speaks to the cluster while holding it
        self._stop = threading.Event()
        self._pauses = Backoff(first_pause=1.0, max_pause=10.0)
        self._in_a_row = 0
        self._patience = 0.0

    def run(self, writes: Sequence[ClusterWrite], *, renew_lease: Callable[[], None]) -> WriteProgress:
        """Do them. `renew_lease` is called now and then, in this thread; what it raises ends the run."""
        self._patience = time.monotonic() + _PATIENCE
        roots = [
            step for step in writes if isinstance(step, QueueStep) and step.queue is not None and not step.queue.parent
        ]
        for step in roots:  # everything stands below it
            if not self._is_ours():
                self._work.remaining.append(step)
                self._stop.set()
            elif not self._take(step):
                self._stop.set()
        parts = independent_chains(step for step in writes if not any(step is root for root in roots))
        renew_lease()
        if parts:
            self._side_by_side(parts, renew_lease)
        order = {id(step): number for number, step in enumerate(writes)}
        for some in (self._work.done, self._work.remaining):
            some.sort(key=lambda step: order[id(step)])
        return self._work

    def _side_by_side(self, parts: list[list[ClusterWrite]], renew: Callable[[], None]) -> None:
        with ThreadPoolExecutor(min(MAX_PARALLEL_WRITES, len(parts)), thread_name_prefix="queue-write") as hands:
            running: set[Future[None]] = {hands.submit(self._part, part) for part in parts}
            try:
                while running:
                    over, running = wait(running, timeout=LEASE_CHECK_SECONDS, return_when=FIRST_EXCEPTION)
                    for part in over:
                        part.result()
                    renew()
            except BaseException:
                self._stop.set()  # the pool waits for those under way when it is left
                raise

    def _part(self, part: list[ClusterWrite]) -> None:
        barred: set[str] = set()
        for step in part:
            if self._stop.is_set() or not self._is_ours() or not barred.isdisjoint(step.affected_names):
                with self._lock:
                    self._work.remaining.append(step)
            elif self._take(step):
                continue
            barred.update(step.affected_names)

    def _take(self, step: ClusterWrite) -> bool:
        """One step; whether it is done."""
        try:
            self._take_with_pauses(step)
        except ClusterError as error:
            self._failed(step, error)
            return False
        with self._lock:
            self._work.done.append(step)
            self._in_a_row = 0
        return True

    def _take_with_pauses(self, step: ClusterWrite) -> None:
        while True:
            try:
                apply_write(self._cluster, self._place, step)
            except errors.TooManyRequests as error:
                with self._lock:
                    pause = self._pauses.next_pause(at_least=error.retry_after)
                if time.monotonic() + pause > self._patience or self._stop.is_set():
                    raise
                self._stop.wait(pause)
            else:
                return

    def _failed(self, step: ClusterWrite, error: ClusterError) -> None:
        logger.warning("%s: %s", step.description, error)
        with self._lock:
            self._work.remaining.append(step)
            self._work.failures.append((step, error))
            self._in_a_row += 1
            is_everybodys = isinstance(error, _OF_THE_CLUSTER) or not isinstance(error, _OF_ONE_OBJECT)
            if is_everybodys or self._in_a_row >= _FAULTS_IN_A_ROW:
                self._work.fatal_error = self._work.fatal_error or error
                self._stop.set()
