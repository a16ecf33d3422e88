"""The loops of a process: one for each Kubernetes backend, each in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pools.database.one_by_one import left_out_on_error
from pools.selectors.clusters import managed_clusters, observed_clusters
from scheduling.services.kubernetes.agent import ClusterAgent
from scheduling.services.kubernetes.leased_loop import LeasedLoop

STOP_SECONDS = 3.0
HANG_SECONDS = 300.0  # longer than the longest round, which is many calls that each have a time limit


@dataclass(frozen=True, slots=True)
class _RunningLoop:
    loop: LeasedLoop
    thread: threading.Thread
    stop: threading.Event
    make: Callable[[int], LeasedLoop]

    @property
    def is_hanging(self) -> bool:
        return self.loop.last_alive_at < time.monotonic() - HANG_SECONDS


class ClusterWorkers:
    """Runs one loop for each managed cluster, and one that only reads for each observed cluster (None: nothing runs
    there). Several processes may run loops for the same cluster; a lease lets one loop work at a time."""

    def __init__(
        self,
        create_loop: Callable[[int], LeasedLoop] = ClusterAgent,
        create_observer: Callable[[int], LeasedLoop] | None = None,
    ) -> None:
        self._create_loop, self._create_observer = create_loop, create_observer
        self._running: dict[int, _RunningLoop] = {}

    def start_missing(self) -> None:
        """Start a loop for each cluster that has no running loop, and stop the loops of removed backends."""
        makers = dict.fromkeys(managed_clusters().values_list("pk", flat=True), self._create_loop)
        if self._create_observer is not None:
            makers |= dict.fromkeys(observed_clusters().values_list("pk", flat=True), self._create_observer)
        for backend_id in self._running.keys() - makers.keys():
            self._running.pop(backend_id).stop.set()
        for backend_id, make in makers.items():
            running = self._running.get(backend_id)
            if running is not None and running.make is not make:  # its mode has changed
                running.stop.set()
                running.loop.wake()
            if running is None or not running.thread.is_alive():
                with left_out_on_error("the loop of a cluster", backend_id):
                    self._running[backend_id] = self._start(backend_id, make)

    def wake(self, backend_id: int) -> None:
        """Wake the loop of this backend, because something changed there."""
        if (running := self._running.get(backend_id)) is not None:
            running.loop.wake()

    def end_pauses(self, backend_id: int) -> None:
        """End the pauses of the loop of this backend, because its cluster answers again."""
        if (running := self._running.get(backend_id)) is not None:
            running.loop.end_pauses()

    def renew_leases(self) -> None:
        """Renew the leases of all loops that do not hang, also of those that wait for an answer of their cluster."""
        for running in list(self._running.values()):
            if not running.is_hanging:
                with left_out_on_error("the lease of a cluster", running.loop.backend_id):
                    running.loop.renew_lease()

    @property
    def are_alive(self) -> bool:
        """Whether no loop hangs."""
        return not any(running.is_hanging for running in self._running.values())

    def stop(self) -> None:
        """Stop all loops and wait for them a little. Another process, or the next start, does their unfinished work."""
        for running in self._running.values():
            running.stop.set()
            running.loop.wake()
        deadline = time.monotonic() + STOP_SECONDS
        for running in self._running.values():
            running.thread.join(max(0.0, deadline - time.monotonic()))

    def _start(self, backend_id: int, make: Callable[[int], LeasedLoop]) -> _RunningLoop:
        loop, stop = make(backend_id), threading.Event()
        thread = threading.Thread(target=loop.run, args=[stop], name=f"cluster-{backend_id}", daemon=True)
        thread.start()
        return _RunningLoop(loop, thread, stop, make)
