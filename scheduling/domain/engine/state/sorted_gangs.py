"""The waiting and the running gangs of each leaf, sorted in serving order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from pools.domain.amounts import Number
from scheduling.domain.engine.state.records import GangState, QueueState, Signature

OrderKey = tuple[Number, int, Number, str]


class SortedGangs:
    """Gangs by the `order_key` that they had when they were added; the victim order is the reverse."""

    __slots__ = ("_gangs", "_is_shared", "_keys", "order_keys")

    def __init__(self) -> None:
        self._is_shared = False
        self.order_keys: list[OrderKey] = []
        self._gangs: list[GangState] = []
        self._keys: dict[int, OrderKey] = {}

    def __len__(self) -> int:
        return len(self._gangs)

    def __iter__(self) -> Iterator[GangState]:
        return iter(self._gangs)

    def __reversed__(self) -> Iterator[GangState]:
        return reversed(self._gangs)

    def __contains__(self, gang: GangState) -> bool:
        return gang.index in self._keys

    def add(self, gang: GangState) -> None:
        """Insert a gang by its key."""
        self._own_gangs()
        order_key = gang.order_key
        at = bisect_left(self.order_keys, order_key)
        self.order_keys.insert(at, order_key)
        self._gangs.insert(at, gang)
        self._keys[gang.index] = order_key

    def remove(self, gang: GangState) -> None:
        """Remove a gang."""
        self._own_gangs()
        at = bisect_left(self.order_keys, self._keys.pop(gang.index))
        del self.order_keys[at]
        del self._gangs[at]

    @property
    def first(self) -> GangState:
        """The gang that is served first."""
        return self._gangs[0]

    def snapshot(self) -> list[GangState]:
        """The gangs in their order, as they are now. Callers do not change the list."""
        self._is_shared = True
        return self._gangs

    def _own_gangs(self) -> None:
        if self._is_shared:
            self._gangs, self._is_shared = list(self._gangs), False


class LeafPendingQueue:
    """The waiting gangs of one leaf during one phase. A gang that cannot start removes all interchangeable gangs."""

    __slots__ = ("_groups", "_heap", "_out", "_own", "_positions", "leaf")

    def __init__(self, leaf: QueueState, groups: dict[Signature, list[GangState]]) -> None:
        self.leaf = leaf
        self._groups = groups
        self._own: set[Signature] = set()
        """The groups whose lists belong to it and not to the leaf."""
        self._positions = dict.fromkeys(groups, 0)
        self._out: set[Signature] = set()
        self._heap = [(gangs[0].order_key, signature) for signature, gangs in groups.items()]
        heapify(self._heap)

    def head(self) -> GangState | None:
        """The gang to try next, or None when no gang of the leaf is left."""
        while self._heap:
            order, signature = self._heap[0]
            gang = self._front(signature)
            if gang is not None and gang.order_key == order:
                return gang
            heappop(self._heap)
            if gang is not None:
                heappush(self._heap, (gang.order_key, signature))
        return None

    def drop_head_group(self) -> None:
        """Remove the head, which cannot start, with all interchangeable gangs."""
        self._out.add(heappop(self._heap)[1])

    def advance(self) -> None:
        """Go on to the next gang after an attempt for the head."""
        signature = heappop(self._heap)[1]
        self._positions[signature] += 1
        self._push(signature)

    def requeue(self, gang: GangState) -> None:
        """Add a gang that may start more tasks again, with its new signature."""
        signature = gang.signature
        if signature not in self._out:
            at = self._positions.setdefault(signature, 0)
            if signature not in self._own:
                self._groups[signature] = list(self._groups.get(signature, ()))
                self._own.add(signature)
            insort(self._groups[signature], gang, lo=at, key=lambda other: other.order_key)
            self._push(signature)

    def _front(self, signature: Signature) -> GangState | None:
        """The first gang of the group with an unchanged signature: a gang that became a victim waits for the next
        phase."""
        if signature in self._out:
            return None
        group, at = self._groups[signature], self._positions[signature]
        while at < len(group) and group[at].signature != signature:
            at += 1
        self._positions[signature] = at
        return group[at] if at < len(group) else None

    def _push(self, signature: Signature) -> None:
        gang = self._front(signature)
        if gang is not None:
            heappush(self._heap, (gang.order_key, signature))
