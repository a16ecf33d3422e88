"""Which queue is next (kai.md 6.3): on each level the children compete with the best gang below each of them.

Every criterion is one part of a key, so that a level is a heap. A change in a leaf changes the keys on its path only;
stale entries stay in the heap and are recognised by their stamp.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any

from scheduling.domain.engine.nodes import Request
from scheduling.domain.engine.sorted_gangs import LeafPendingQueue
from scheduling.domain.engine.state import GangState, QueueState, Rank

_TOP = -1


def service_key(queue: QueueState, ask: Request) -> Rank:
    """The sort key of a queue among its siblings when `ask` is the request of the best gang below it; small is
    first."""
    after = list(queue.alloc)
    for r, amount in ask:
        after[r] += amount
    allocatable = queue.allocatable
    return (
        _is_over_fair_share(queue),
        any(have > quota for have, quota in zip(after, queue.quota, strict=True)),
        -queue.fact.priority,
        any(allocatable[r] == 0 for r, _amount in ask),
        queue.ratios.dominant_share(after, allocatable),
        queue.ratios.dominant_share(queue.alloc, allocatable),
        tuple(allocatable),
        queue.fact.created,
        queue.fact.name,
    )


def victim_rank(queue: QueueState) -> Rank:
    """The reverse order, without a gang, for choosing victims; small is first. Kept until `alloc` changes."""
    if queue.rank is None:
        queue.rank = (
            not _is_over_fair_share(queue),
            all(have <= quota for have, quota in zip(queue.alloc, queue.quota, strict=True)),
            queue.fact.priority,
            queue.ratios.dominant_share(queue.alloc, queue.allocatable)[2],
            tuple([-most for most in queue.allocatable]),
            -queue.fact.created,
            -queue.index,
        )
    return queue.rank


def _is_over_fair_share(queue: QueueState) -> bool:
    return all(have > fair for have, fair in zip(queue.alloc, queue.fair, strict=True))


class QueueOrder:
    """The leaves with waiting gangs, in the order in which they are served."""

    def __init__(self, pending: Mapping[int, LeafPendingQueue]) -> None:
        self._pending = pending
        self._heaps: dict[int, list[tuple[Any, int, int, QueueState]]] = {_TOP: []}
        self._stamps: dict[int, int] = {}
        self._heads: dict[int, GangState | None] = {}
        for leaf_queue in pending.values():
            self.refresh(leaf_queue.leaf)

    def next_leaf(self) -> QueueState | None:
        """The leaf whose first gang is tried next."""
        queue = self._best_child(_TOP)
        while queue is not None and queue.children:
            queue = self._best_child(queue.index)
        return queue

    def refresh(self, leaf: QueueState) -> None:
        """Update the keys after a change of the leaf's first gang or of its usage."""
        for queue in leaf.path:
            stamp = self._stamps[queue.index] = self._stamps.get(queue.index, 0) + 1
            if queue.children:
                best = self._best_child(queue.index)
                head = None if best is None else self._heads[best.index]
            else:
                leaf_queue = self._pending.get(queue.index)
                head = None if leaf_queue is None else leaf_queue.head()
            self._heads[queue.index] = head
            if head is not None:
                level = _TOP if queue.parent is None else queue.parent.index
                heappush(
                    self._heaps.setdefault(level, []),
                    (service_key(queue, head.next_request), queue.index, stamp, queue),
                )

    def _best_child(self, level: int) -> QueueState | None:
        heap = self._heaps.get(level)
        while heap:
            _key, index, stamp, queue = heap[0]
            if self._stamps[index] == stamp:
                return queue
            heappop(heap)
        return None
