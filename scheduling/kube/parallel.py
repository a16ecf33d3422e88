"""Several calls to one cluster at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from scheduling.kube.errors import ClusterError, Unreachable

MAX_PARALLEL_CALLS = 4  # with the three watches of an agent still fewer than the connections that are kept
Item = TypeVar("Item")
Result = TypeVar("Result")


def map_bounded(
    items: Collection[Item], operation: Callable[[Item], Result], error_of: Callable[[Result], ClusterError | None]
) -> list[Result]:
    """Do it to each, some at a time; `operation` may only speak to the cluster. An answer that does not come ends it for
    the rest: they would wait for the same silence. Returns what was done, in order."""
    if not items:
        return []
    silent = threading.Event()

    def attempt(thing: Item) -> list[Result]:
        if silent.is_set():
            return []
        done = operation(thing)
        if isinstance(error_of(done), Unreachable):
            silent.set()
        return [done]

    with ThreadPoolExecutor(min(MAX_PARALLEL_CALLS, len(items)), thread_name_prefix="cluster-call") as hands:
        return [done for found in hands.map(attempt, items) for done in found]
