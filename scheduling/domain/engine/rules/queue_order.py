"""Which queue is next (design, K3): on each level the children compete with the best gang below each of them.

Every criterion is one part of a key, so that a level is a heap. A change in a leaf changes the keys on its path only;
stale entries stay in the heap and are recognised by their stamp.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

from scheduling.domain.engine.fast.wanted import Shape, WantedGroups
from scheduling.domain.engine.state.nodes import Request
from scheduling.domain.engine.state.records import GangState, QueueState, Rank
from scheduling.domain.engine.state.sorted_gangs import LeafPendingQueue

_TOP = -1


def service_key(queue: QueueState, ask: Request) -> Rank:
    """The sort key of a queue among its siblings when `ask` is the request of the best gang below it; small is
    first."""
    after = list(queue.alloc)
    for r, amount in ask:
        after[r] += amount
    allocatable, is_above_quota = queue.allocatable, False
    for have, quota in zip(after, queue.quota, strict=True):
        if have > quota:
            is_above_quota = True
            break
    return (
        _is_over_fair_share(queue),
        is_above_quota,
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
    for have, fair in zip(queue.alloc, queue.fair, strict=True):  # noqa: SIM110  plain loops: these calls are frequent
        if have <= fair:
            return False
    return True


class QueueOrder:
    """The leaves with waiting gangs, in the order in which they are served."""

    def __init__(self, pending: Mapping[int, LeafPendingQueue]) -> None:
        self._pending = pending
        self._heaps: dict[int, list[tuple[Any, int, int, QueueState]]] = {_TOP: []}
        self._stamps: dict[int, int] = {}
        self._heads: dict[int, GangState | None] = {}
        self._keys: dict[int, Rank] = {}
        self.refresh_all([leaf_queue.leaf for leaf_queue in pending.values()])

    def next_leaf(self) -> QueueState | None:
        """The leaf whose first gang is tried next."""
        queue = self._best_child(_TOP)
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
            leaf_queue = self._pending.get(queue.index)
            head = None if leaf_queue is None else leaf_queue.head()
        self._heads[queue.index] = head
        if head is not None:
            level = _TOP if queue.parent is None else queue.parent.index
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


class KeptQueueOrder(QueueOrder):
    """The same order over groups that are kept from one phase to the next. A top queue whose turn is far away is ranked
    by the key that it had the last time, and looked into only when its turn comes."""

    def __init__(self, wanted: WantedGroups, shapes: frozenset[Shape]) -> None:
        self.pending: dict[int, LeafPendingQueue] = {}
        super().__init__(self.pending)
        self._wanted, self._shapes = wanted, shapes
        self._closed: dict[int, list[QueueState]] = {}
        """Leaves with gangs of each top queue that it has not looked into."""
        for leaf in wanted.leaves(shapes).values():
            self._closed.setdefault(leaf.path[-1].index, []).append(leaf)
        for index, leaves in list(self._closed.items()):
            top, known = leaves[0].path[-1], wanted.orders.setdefault(index, {})
            key = known.get(shapes)
            if key is None and not all(leaf.parent is top for leaf in leaves):
                known[shapes] = self._open(top)
                continue
            if key is None:
                key = known[shapes] = self._key_of(top, leaves)
            heappush(self._heaps[_TOP], (key, index, 0, top))
            self._stamps[index] = 0

    def next_leaf(self) -> QueueState | None:
        """The leaf whose first gang is tried next."""
        while (top := self._best_child(_TOP)) is not None and top.index in self._closed:
            self._open(top)
        return super().next_leaf()

    def _key_of(self, top: QueueState, leaves: Sequence[QueueState]) -> Rank:
        """The key of a top queue with leaves directly below it, without a look at all their groups."""
        heads = [(*self._wanted.head(leaf, self._shapes, service_key), leaf.index) for leaf in leaves]
        _key, request, _index = min(heads, key=_by_key)
        return service_key(top, request)

    def _open(self, top: QueueState) -> Rank:
        """Rank the leaves below a top queue. Returns its key."""
        leaves = self._closed.pop(top.index)
        for leaf in leaves:
            self.pending[leaf.index] = self._wanted.pending_queue(leaf, self._shapes)
        self.refresh_all(leaves)
        return self._keys[top.index]


def _by_key(head: tuple[Rank, Request, int]) -> tuple[Rank, int]:
    return head[0], head[2]
