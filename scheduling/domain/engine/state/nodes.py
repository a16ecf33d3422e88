"""Nodes indexed by their free amounts, so that the tightest fit is found without a search over every node.

Nodes with the same free amounts form one class; classes are sorted by free GPUs, then by the other resources. The
first class that fits is the fullest node that fits: bin-packing, ties by name. Requests are sparse pairs
`((resource index, amount), …)`; GPUs have the smallest indexes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence

from pools.domain.values.amounts import Number

Request = tuple[tuple[int, Number], ...]
FreeAmounts = tuple[Number, ...]
NOWHERE = -1
UNLIMITED_SLOTS = 2**62
"""The number of tasks with an empty request that fit on a node."""


def has_enough(have: Sequence[Number], request: Request) -> bool:
    """Whether these amounts cover the request. A plain loop, because this is the most frequent call."""
    for r, amount in request:  # noqa: SIM110
        if have[r] < amount:
            return False
    return True


class NodeIndex:
    """Free amounts of the nodes, which are numbered in the order of their names.

    `capacity` has one number for each resource, followed by one for each set of allowed nodes, which is 1 for its
    members. A request for 1 of such a set fits only on its members and uses nothing up.
    """

    __slots__ = ("_classes", "_largest", "_order", "capacity", "free", "names", "total")

    def __init__(self, names: Sequence[str], capacity: Sequence[FreeAmounts], resources: int) -> None:
        self.names = list(names)
        self.capacity = list(capacity)
        self.free: list[FreeAmounts] = list(capacity)
        self.total: list[Number] = [sum(have[r] for have in capacity) for r in range(resources)]
        """The free amounts together. A node that is overfull counts as nothing: it takes nothing from the others."""
        self._largest: dict[int, Number] = {}
        self._classes: dict[FreeAmounts, list[int]] = {}
        for node, have in enumerate(self.free):
            self._classes.setdefault(have, []).append(node)
        self._order = sorted(self._classes)

    def empty_copy(self) -> NodeIndex:
        """The same nodes without any task."""
        return NodeIndex(self.names, self.capacity, self.width)

    @property
    def is_used(self) -> bool:
        """Whether something is reserved on some node."""
        return self.free != self.capacity

    @property
    def width(self) -> int:
        """The number of resources; the numbers behind them mean sets of nodes, not amounts."""
        return len(self.total)

    @property
    def full_width(self) -> int:
        """The number of resources and of sets of nodes."""
        return len(self.capacity[0]) if self.capacity else self.width

    def __len__(self) -> int:
        return len(self.names)

    def largest(self, r: int) -> Number:
        """The most of a resource that a node has in all."""
        if r not in self._largest:
            self._largest[r] = max((have[r] for have in self.capacity), default=0)
        return self._largest[r]

    def is_overfull(self, r: int) -> bool:
        """Whether some node has less than nothing of the resource."""
        return any(have[r] < 0 for have in self._order)

    def representatives(self) -> list[int]:
        """One node (the first by name) for each distinct state, tightest first."""
        return [self._classes[have][0] for have in self._order]

    def tightest_node(self, request: Request) -> int:
        """The fullest node that the request fits on, or `NOWHERE`."""
        order = self._order
        start = 0
        if request and request[0][0] == 0:
            start = bisect_left(order, (request[0][1],))
        for position in range(start, len(order)):
            have = order[position]
            if has_enough(have, request):
                return self._classes[have][0]
        return NOWHERE

    def fits_beside(self, node: int, request: Request) -> bool:
        """Whether the request fits on a node other than this one."""
        for have in reversed(self._order):
            if has_enough(have, request) and (len(self._classes[have]) > 1 or self._classes[have][0] != node):
                return True
        return False

    def full_nodes(self, request: Request) -> Iterator[int]:
        """Every node that the request does not fit on, nodes with most free first, then by name. Amounts may not change
        during the iteration."""
        for have in reversed(self._order):
            if not has_enough(have, request):
                yield from self._classes[have]

    def fits(self, node: int, request: Request) -> bool:
        """Whether the request fits on this node."""
        return has_enough(self.free[node], request)

    def fits_any(self, node: int, requests: Iterable[Request]) -> bool:
        """Whether one of the requests fits on this node."""
        have = self.free[node]
        for request in requests:  # noqa: SIM110  a plain loop is quick, and this call is frequent
            if has_enough(have, request):
                return True
        return False

    def reserve(self, node: int, request: Request) -> None:
        """Subtract the request from the free amounts. An overfull node goes below 0 and fits nothing more."""
        have, total = list(self.free[node]), self.total
        for r, amount in request:
            if r < len(total):
                before = have[r]
                have[r] -= amount
                total[r] -= amount if have[r] >= 0 else max(0, before)
        self._put(node, tuple(have))

    def release(self, node: int, request: Request) -> None:
        """Add the request to the free amounts."""
        have, total = list(self.free[node]), self.total
        for r, amount in request:
            if r < len(total):
                before = have[r]
                have[r] += amount
                total[r] += amount if before >= 0 else max(0, have[r])
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

    def has_slots(self, request: Request, count: int) -> bool:
        """Whether `count` such requests fit on the nodes now."""
        return count <= 0 or self.count_slots(request, count) >= count

    def count_slots(self, request: Request, most: int) -> int:
        """The number of such requests that fit on the nodes now; it stops counting at `most`."""
        order = self._order
        start = bisect_left(order, (request[0][1],)) if request and request[0][0] == 0 else 0
        found = 0
        for position in range(start, len(order)):
            have = order[position]
            if has_enough(have, request):
                found += self.slots_in(have, request) * len(self._classes[have])
                if found >= most:
                    break
        return found

    def slots_in(self, have: Sequence[Number], request: Request) -> int:
        """The number of such requests that fit into these free amounts of one node."""
        if not has_enough(have, request):
            return 0
        amounts = [int(have[r] // amount) for r, amount in request if r < len(self.total)]
        return min(amounts, default=UNLIMITED_SLOTS)
