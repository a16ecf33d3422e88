"""Several calls to one cluster at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from scheduling.kube.connection.errors import ClusterError, is_silence

MAX_PARALLEL_CALLS = 4  # with the three watches of an agent still fewer than the connections in the pool
Item = TypeVar("Item")
Result = TypeVar("Result")


def map_bounded(
    items: Collection[Item], operation: Callable[[Item], Result], error_of: Callable[[Result], ClusterError | None]
) -> list[Result]:
    """The results of `operation` for these items, in order; a few calls run at a time. `operation` may only speak to
    the cluster. After a silence the remaining items are skipped, because they would wait for the same timeout."""
    if not items:
        return []
    is_silent = threading.Event()

    def call(item: Item) -> list[Result]:
        if is_silent.is_set():
            return []
        result = operation(item)
        if is_silence(error_of(result)):
            is_silent.set()
        return [result]

    with ThreadPoolExecutor(min(MAX_PARALLEL_CALLS, len(items)), thread_name_prefix="cluster-call") as executor:
        return [result for results in executor.map(call, items) for result in results]
