"""Nodes by what is free on them, so that the tightest fit is found without looking at every node.

Nodes with the same free amounts form one class; classes are sorted by free GPUs, then by the other resources. The
first class that fits is the fullest node that fits: bin-packing, ties by name. Requests are sparse pairs
`((resource index, amount), …)`; GPUs have the smallest indexes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence

from pools.domain.amounts import Number

Request = tuple[tuple[int, Number], ...]
FreeAmounts = tuple[Number, ...]
NOWHERE = -1
UNLIMITED_SLOTS = 2**62
"""How many tasks that ask for nothing fit on a node."""


def has_enough(have: Sequence[Number], request: Request) -> bool:
    """Whether these amounts hold the request. A plain loop: this is asked more often than anything else."""
    for r, amount in request:  # noqa: SIM110
        if have[r] < amount:
            return False
    return True


class NodeIndex:
    """Free amounts of the nodes, which are numbered in the order of their names.

    `capacity` has one number for each resource, and behind them one for each set of allowed nodes, 1 for its members:
    a request that asks for 1 of it fits only there, and takes nothing of it.
    """

    __slots__ = ("_classes", "_order", "capacity", "free", "names", "total")

    def __init__(self, names: Sequence[str], capacity: Sequence[FreeAmounts], resources: int) -> None:
        self.names = list(names)
        self.capacity = list(capacity)
        self.free: list[FreeAmounts] = list(capacity)
        self.total: list[Number] = [sum(have[r] for have in capacity) for r in range(resources)]
        self._classes: dict[FreeAmounts, list[int]] = {}
        for node, have in enumerate(self.free):
            self._classes.setdefault(have, []).append(node)
        self._order = sorted(self._classes)

    def empty_copy(self) -> NodeIndex:
        """The same nodes with nothing on them."""
        return NodeIndex(self.names, self.capacity, self.width)

    @property
    def width(self) -> int:
        """The number of resources; what stands behind them is a place, not an amount."""
        return len(self.total)

    def __len__(self) -> int:
        return len(self.names)

    def representatives(self) -> list[int]:
        """One node (the first by name) for each distinct state, tightest first."""
        return [self._classes[have][0] for have in self._order]

    def tightest_node(self, request: Request) -> int:
        """The fullest node that has room for the request, or `NOWHERE`."""
        order = self._order
        start = 0
        if request and request[0][0] == 0:
            start = bisect_left(order, (request[0][1],))
        for position in range(start, len(order)):
            have = order[position]
            if has_enough(have, request):
                return self._classes[have][0]
        return NOWHERE

    def full_nodes(self, request: Request) -> Iterator[int]:
        """Every node without room for the request, those with most free first, then by name. Nothing may be taken or
        given meanwhile."""
        for have in reversed(self._order):
            if not has_enough(have, request):
                yield from self._classes[have]

    def full_nodes_among(self, nodes: Iterable[int], request: Request) -> Iterator[int]:
        """The same for a few of the nodes."""
        full = sorted(node for node in nodes if not has_enough(self.free[node], request))
        yield from sorted(full, key=self.free.__getitem__, reverse=True)

    def fits(self, node: int, request: Request) -> bool:
        """Whether this node has room for the request."""
        return has_enough(self.free[node], request)

    def reserve(self, node: int, request: Request) -> None:
        """Use it; a node that is listed with more than it has goes below 0 and takes nothing more."""
        have = list(self.free[node])
        for r, amount in request:
            if r < len(self.total):
                have[r] -= amount
                self.total[r] -= amount
        self._put(node, tuple(have))

    def release(self, node: int, request: Request) -> None:
        """Give it back."""
        have = list(self.free[node])
        for r, amount in request:
            if r < len(self.total):
                have[r] += amount
                self.total[r] += amount
        self._put(node, tuple(have))

    def _put(self, node: int, have: FreeAmounts) -> None:
        old = self.free[node]
        if old == have:
            return
        members = self._classes[old]
        if len(members) == 1:
            del self._classes[old]
            del self._order[bisect_left(self._order, old)]
        else:
            del members[bisect_left(members, node)]
        self.free[node] = have
        if have in self._classes:
            insort(self._classes[have], node)
        else:
            self._classes[have] = [node]
            insort(self._order, have)

    def count_slots(self, request: Request) -> int:
        """How many such requests the nodes could take now."""
        return sum(self._count_class_slots(have, request) * len(self._classes[have]) for have in self._order)

    def _count_class_slots(self, have: FreeAmounts, request: Request) -> int:
        if not has_enough(have, request):
            return 0
        amounts = [int(have[r] // amount) for r, amount in request if r < len(self.total)]
        return min(amounts, default=UNLIMITED_SLOTS)
