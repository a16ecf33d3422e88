"""Several calls to one cluster at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from scheduling.kube.errors import ClusterError, Unreachable

HANDS = 4  # with the three watches of an agent still fewer than the connections that are kept
Thing = TypeVar("Thing")
Done = TypeVar("Done")


def each(
    things: Collection[Thing], deed: Callable[[Thing], Done], fault_of: Callable[[Done], ClusterError | None]
) -> list[Done]:
    """Do it to each, some at a time; `deed` may only speak to the cluster. An answer that does not come ends it for
    the rest: they would wait for the same silence. Returns what was done, in order."""
    if not things:
        return []
    silent = threading.Event()

    def attempt(thing: Thing) -> list[Done]:
        if silent.is_set():
            return []
        done = deed(thing)
        if isinstance(fault_of(done), Unreachable):
            silent.set()
        return [done]

    with ThreadPoolExecutor(min(HANDS, len(things)), thread_name_prefix="cluster-call") as hands:
        return [done for found in hands.map(attempt, things) for done in found]
