"""The queue that is served next (design, K3): on each level the children compete with the best gang below each of them.

Every criterion is one part of a key, so that a level is a heap. A change in a leaf changes the keys on its path only;
stale entries stay in the heap and are recognised by their stamp.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any

from pools.domain.values.amounts import UNLIMITED, Amount, Number
from scheduling.domain.engine.rules.groups import LeafPendingQueue
from scheduling.domain.engine.state.kinds import counted_resources
from scheduling.domain.engine.state.nodes import Request
from scheduling.domain.engine.state.records import GangState, QueueState, Rank

TOP = -1

MAX_RATIOS = 2**16
"""The most ratios that are remembered."""

ShareRatio = tuple[float, Number, tuple[float, Number]]
"""A ratio that compares fast and exactly: division is monotone, so floats decide wherever they differ. The last part is
the same ratio with its sign turned, for orders that begin with the greatest."""

_NO_SHARE: ShareRatio = (0.0, 0, (0.0, 0))


@lru_cache(MAX_RATIOS)
def _ratio(allocated: Number, allocatable: Amount) -> ShareRatio:
    exact = Fraction(allocated) * 1000 if allocatable == 0 else Fraction(allocated) / Fraction(allocatable)
    return float(exact), exact, (-float(exact), -exact)


def dominant_share(allocated: Sequence[Number], allocatable: Sequence[Amount]) -> ShareRatio:
    """The largest allocated / allocatable of all resources; with nothing allocatable, 1000 times what is held."""
    largest = _NO_SHARE
    for have, most in zip(allocated, allocatable, strict=True):
        if have > 0 and most != UNLIMITED:
            largest = max(largest, _ratio(have, most))
    return largest


def service_key(queue: QueueState, request: Request) -> Rank:
    """The sort key of a queue among its siblings when this is the request of the best gang below it; small is
    first."""
    after: Sequence[Number] = list(queue.alloc)
    for r, amount in request:
        after[r] += amount  # type: ignore[index]
    alloc, quotas, allocatable, is_above_quota = queue.alloc, queue.quota, queue.allocatable, False
    which = counted_resources(queue, request) if queue.kinds > 1 else None
    if which is not None:
        after, alloc = [after[r] for r in which], [alloc[r] for r in which]
        quotas, allocatable = [quotas[r] for r in which], [allocatable[r] for r in which]
    for have, quota in zip(after, quotas, strict=True):
        if have > quota:
            is_above_quota = True
            break
    return (
        _is_over_fair_share(queue, which),
        is_above_quota,
        -queue.fact.priority,
        any(queue.allocatable[r] == 0 for r, _amount in request),
        dominant_share(after, allocatable),
        dominant_share(alloc, allocatable),
        tuple(allocatable),
        queue.fact.created,
        queue.fact.name,
    )


def victim_rank(queue: QueueState, request: Request) -> Rank:
    """The reverse order, without a gang, for choosing victims for a request; small is first. Kept until `alloc`
    changes."""
    if queue.kinds < 2:
        if queue.rank is None:
            queue.rank = _victim_rank(queue, None)
        return queue.rank  # type: ignore[no-any-return]
    ranks: dict[tuple[int, ...] | None, Rank] | None = queue.rank
    if ranks is None:
        ranks = queue.rank = {}
    which = counted_resources(queue, request)
    if which not in ranks:
        ranks[which] = _victim_rank(queue, which)
    return ranks[which]


def _victim_rank(queue: QueueState, which: tuple[int, ...] | None) -> Rank:
    alloc, quotas, allocatable = queue.alloc, queue.quota, queue.allocatable
    if which is not None:
        alloc, quotas = [alloc[r] for r in which], [quotas[r] for r in which]
        allocatable = [allocatable[r] for r in which]
    return (
        not _is_over_fair_share(queue, which),
        all(have <= quota for have, quota in zip(alloc, quotas, strict=True)),
        queue.fact.priority,
        dominant_share(alloc, allocatable)[2],
        tuple([-most for most in allocatable]),
        -queue.fact.created,
        -queue.index,
    )


def is_within_all_quotas(queue: QueueState, request: Request) -> bool:
    """Whether the queue is inside its quota in every resource that counts for the request; a part of its rank."""
    rank = queue.rank if queue.kinds < 2 else None
    return bool((rank or victim_rank(queue, request))[1])


def _is_over_fair_share(queue: QueueState, which: tuple[int, ...] | None) -> bool:
    if which is not None:
        return all(queue.alloc[r] > queue.fair[r] for r in which)
    for have, fair in zip(queue.alloc, queue.fair, strict=True):  # noqa: SIM110  plain loops: these calls are frequent
        if have <= fair:
            return False
    return True


class QueueOrder:
    """The leaves with waiting gangs, in the order in which they are served."""

    def __init__(self, pending: dict[int, LeafPendingQueue]) -> None:
        self.pending = pending
        self._heaps: dict[int, list[tuple[Any, int, int, QueueState]]] = {TOP: []}
        self._stamps: dict[int, int] = {}
        self._heads: dict[int, GangState | None] = {}
        self._keys: dict[int, Rank] = {}
        self.refresh_all([leaf_queue.leaf for leaf_queue in pending.values()])

    def next_leaf(self) -> QueueState | None:
        """The leaf whose first gang is tried next."""
        queue = self._best_child(TOP)
        while queue is not None and queue.children:
            queue = self._best_child(queue.index)
        return queue

    def refresh(self, leaf: QueueState) -> None:
        """Update the keys after a change of the leaf's first gang or of its usage."""
        for queue in leaf.path:
            self._refresh_one(queue)

    def refresh_all(self, leaves: Iterable[QueueState]) -> None:
        """Update the keys of all these leaves, and of each queue above them once."""
        above: dict[int, QueueState] = {}
        for leaf in leaves:
            self._refresh_one(leaf)
            above.update((queue.index, queue) for queue in leaf.path[1:])
        for queue in sorted(above.values(), key=lambda queue: len(queue.path), reverse=True):
            self._refresh_one(queue)

    def _refresh_one(self, queue: QueueState) -> None:
        stamp = self._stamps[queue.index] = self._stamps.get(queue.index, 0) + 1
        if queue.children:
            best = self._best_child(queue.index)
            head = None if best is None else self._heads[best.index]
        else:
            leaf_queue = self.pending.get(queue.index)
            head = None if leaf_queue is None else leaf_queue.head()
        self._heads[queue.index] = head
        if head is not None:
            level = TOP if queue.parent is None else queue.parent.index
            key = self._keys[queue.index] = service_key(queue, head.next_request)
            heappush(self._heaps.setdefault(level, []), (key, queue.index, stamp, queue))

    def _best_child(self, level: int) -> QueueState | None:
        heap = self._heaps.get(level)
        while heap:
            _key, index, stamp, queue = heap[0]
            if self._stamps[index] == stamp:
                return queue
            heappop(heap)
        return None
