"""The agents of a process: one for each Kubernetes backend there is, each in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pools.models import Backend
from scheduling.services.kubernetes.agent import ClusterAgent

STOP_SECONDS = 3.0
HANG_SECONDS = 300.0  # longer than the longest look, which is many calls that each end by themselves


class ClusterWorker(Protocol):
    """Somebody who works with one cluster in a thread: an agent, or the keeper of its GPU quotas. `last_alive_at` is when it
    last gave a sign of life."""

    last_alive_at: float

    def run(self, stop: threading.Event) -> None:
        """Work until told to stop."""

    def wake(self) -> None:
        """Something moved on its backend."""


@dataclass(frozen=True, slots=True)
class _Running:
    agent: ClusterWorker
    thread: threading.Thread
    stop: threading.Event


class ClusterWorkers:
    """Keeps one agent going for each cluster. Several processes may do so: the agent that comes second stands by."""

    def __init__(self, create_worker: Callable[[int], ClusterWorker] = ClusterAgent) -> None:
        self._make = create_worker
        self._running: dict[int, _Running] = {}

    def start_missing(self) -> None:
        """Start an agent for each cluster that has none, or whose agent's thread has ended, and let those go whose
        backend is no cluster any more."""
        wanted = set(Backend.objects.filter(kind=Backend.Kind.KUBERNETES).values_list("pk", flat=True))
        for backend_id in self._running.keys() - wanted:
            self._running.pop(backend_id).stop.set()
        for backend_id in wanted:
            known = self._running.get(backend_id)
            if known is None or not known.thread.is_alive():
                self._running[backend_id] = self._start(backend_id)

    def wake(self, backend_id: int) -> None:
        """Something moved on this backend."""
        if (known := self._running.get(backend_id)) is not None:
            known.agent.wake()

    @property
    def are_alive(self) -> bool:
        """Whether none of them hangs."""
        oldest = time.monotonic() - HANG_SECONDS
        return all(known.agent.last_alive_at > oldest for known in self._running.values())

    def stop(self) -> None:
        """Tell all to stop and give them a moment. What they leave half done the next one finds."""
        for known in self._running.values():
            known.stop.set()
            known.agent.wake()
        end = time.monotonic() + STOP_SECONDS
        for known in self._running.values():
            known.thread.join(max(0.0, end - time.monotonic()))

    def _start(self, backend_id: int) -> _Running:
        agent, stop = self._make(backend_id), threading.Event()
        thread = threading.Thread(target=agent.run, args=[stop], name=f"cluster-{backend_id}", daemon=True)
        thread.start()
        return _Running(agent, thread, stop)
