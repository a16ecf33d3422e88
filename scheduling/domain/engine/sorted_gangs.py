"""Gangs in line: the waiting and the running ones of each leaf, kept in the order they are served."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from pools.domain.amounts import Number
from scheduling.domain.engine.state import GangState, QueueState, Signature

OrderKey = tuple[Number, int, Number, str]


class SortedGangs:
    """Gangs by `order` as it was when they came in; the victim order is the reverse."""

    __slots__ = ("_gangs", "_keys", "places")

    def __init__(self) -> None:
        self.places: list[OrderKey] = []
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
        """Add one at its place."""
        place = gang.order_key
        at = bisect_left(self.places, place)
        self.places.insert(at, place)
        self._gangs.insert(at, gang)
        self._keys[gang.index] = place

    def remove(self, gang: GangState) -> None:
        """Take one out, wherever it stands."""
        at = bisect_left(self.places, self._keys.pop(gang.index))
        del self.places[at]
        del self._gangs[at]

    def copy(self) -> list[GangState]:
        """The gangs as they stand now."""
        return list(self._gangs)


class LeafPendingQueue:
    """The waiting gangs of one leaf during one phase. What cannot start takes all gangs like it out of the phase."""

    __slots__ = ("_groups", "_heap", "_out", "_positions", "leaf")

    def __init__(self, leaf: QueueState, groups: dict[Signature, list[GangState]]) -> None:
        self.leaf = leaf
        self._groups = groups
        self._positions = dict.fromkeys(groups, 0)
        self._out: set[Signature] = set()
        self._heap = [(gangs[0].order_key, signature) for signature, gangs in groups.items()]
        heapify(self._heap)

    def head(self) -> GangState | None:
        """The gang to try next, or None when the leaf is through."""
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
        """The head cannot start, and so nobody like it."""
        self._out.add(heappop(self._heap)[1])

    def advance(self) -> None:
        """Go on to the next one; the head has had its turn."""
        signature = heappop(self._heap)[1]
        self._positions[signature] += 1
        self._push(signature)

    def requeue(self, gang: GangState) -> None:
        """A gang that may take more stands in line again, as what it is now."""
        signature = gang.signature
        if signature not in self._out:
            at = self._positions.setdefault(signature, 0)
            insort(self._groups.setdefault(signature, []), gang, lo=at, key=lambda other: other.order_key)
            self._push(signature)

    def _front(self, signature: Signature) -> GangState | None:
        """The first gang of the group that is still what it was: one that became a victim waits for the next phase."""
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
