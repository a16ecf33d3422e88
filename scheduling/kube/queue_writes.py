"""Doing the steps of a plan in a cluster: several parts of the tree at a time, each part in its order. Network only."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from scheduling.domain.queues.desired import Place
from scheduling.domain.queues.plan import Step, chains
from scheduling.kube import errors
from scheduling.kube.backoff import Backoff
from scheduling.kube.errors import ClusterError
from scheduling.kube.port import Cluster
from scheduling.kube.queues import AnyStep, take

logger = logging.getLogger(__name__)

HANDS = 6  # fewer than the connections that are kept; an API server is quicker when it can commit several at once
RENEW_SECONDS = 5.0
_FAULTS_IN_A_ROW = 3  # after so many writes that failed one after another the cluster is left in peace
_PATIENCE = 30.0  # seconds that one run waits in all when the API server asks for pauses
_OF_ONE_OBJECT = (errors.Conflict, errors.Invalid, errors.AlreadyExists, errors.NotFound, errors.ServerFault)
"""What one object may meet while the cluster is well; everything else ends the run."""
_OF_THE_CLUSTER = (errors.KindMissing,)


@dataclass
class Work:
    """How far the writes of one run came. `fatal` is what ended it before its time."""

    done: list[AnyStep] = field(default_factory=list)
    left: list[AnyStep] = field(default_factory=list)
    faults: list[tuple[AnyStep, ClusterError]] = field(default_factory=list)
    fatal: ClusterError | None = None


class Writer:
    """One run's writes. A step that fails bars what comes later at the same place of the tree, and nothing else; when
    nothing works any more the rest is left."""

    def __init__(self, cluster: Cluster, place: Place, *, is_ours: Callable[[], bool]) -> None:
        """`is_ours` says before each write, from any thread and at once, whether this run may still write."""
        self._cluster, self._place, self._is_ours = cluster, place, is_ours
        self._work = Work()
        self._lock = threading.Lock()  # of what this object remembers; nobody speaks to the cluster while holding it
        self._stop = threading.Event()
        self._pauses = Backoff(first=1.0, most=10.0)
        self._in_a_row = 0
        self._patience = 0.0

    def run(self, steps: Sequence[AnyStep], *, renew: Callable[[], None]) -> Work:
        """Do them. `renew` is called now and then, in this thread; what it raises ends the run."""
        self._patience = time.monotonic() + _PATIENCE
        roots = [step for step in steps if isinstance(step, Step) and step.queue is not None and not step.queue.parent]
        for step in roots:  # everything stands below it
            if not self._is_ours():
                self._work.left.append(step)
                self._stop.set()
            elif not self._take(step):
                self._stop.set()
        parts = chains(step for step in steps if not any(step is root for root in roots))
        renew()
        if parts:
            self._side_by_side(parts, renew)
        order = {id(step): number for number, step in enumerate(steps)}
        for some in (self._work.done, self._work.left):
            some.sort(key=lambda step: order[id(step)])
        return self._work

    def _side_by_side(self, parts: list[list[AnyStep]], renew: Callable[[], None]) -> None:
        with ThreadPoolExecutor(min(HANDS, len(parts)), thread_name_prefix="queue-write") as hands:
            running: set[Future[None]] = {hands.submit(self._part, part) for part in parts}
            try:
                while running:
                    over, running = wait(running, timeout=RENEW_SECONDS, return_when=FIRST_EXCEPTION)
                    for part in over:
                        part.result()
                    renew()
            except BaseException:
                self._stop.set()  # the pool waits for those under way when it is left
                raise

    def _part(self, part: list[AnyStep]) -> None:
        barred: set[str] = set()
        for step in part:
            if self._stop.is_set() or not self._is_ours() or not barred.isdisjoint(step.places):
                with self._lock:
                    self._work.left.append(step)
            elif self._take(step):
                continue
            barred.update(step.places)

    def _take(self, step: AnyStep) -> bool:
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

    def _take_with_pauses(self, step: AnyStep) -> None:
        while True:
            try:
                take(self._cluster, self._place, step)
            except errors.TooMany as error:
                with self._lock:
                    pause = self._pauses.pause(at_least=error.retry_after)
                if time.monotonic() + pause > self._patience or self._stop.is_set():
                    raise
                self._stop.wait(pause)
            else:
                return

    def _failed(self, step: AnyStep, error: ClusterError) -> None:
        logger.warning("%s: %s", step.sentence, error)
        with self._lock:
            self._work.left.append(step)
            self._work.faults.append((step, error))
            self._in_a_row += 1
            is_everybodys = isinstance(error, _OF_THE_CLUSTER) or not isinstance(error, _OF_ONE_OBJECT)
            if is_everybodys or self._in_a_row >= _FAULTS_IN_A_ROW:
                self._work.fatal = self._work.fatal or error
                self._stop.set()
