"""The arithmetic of borrowing and lending on a tree of cohorts, pools and leaves (design, Q1, Q2).

Everything is per (flavor, resource). A `ResourceColumn` has one of them for the whole tree, as plain lists, so that a
verdict only computes the path from a leaf to its root. Definitions, for a node x:

    subtree(x)   = nominal(x) + Σ visible(child)              the effective quota that x may use
    local(x)     = 0 without a lending limit, else max(0, subtree(x) − lending limit)    never visible to the parent
    visible(x)   = subtree(x) − local(x) = min(subtree(x), lending limit)
    usage(x)     = own(x) + Σ max(0, usage(child) − local(child))        only the part that spills upward
    T(x)         = subtree(x) − usage(x)              negative: the subtree borrows that much
    available(x) = max(0, local − usage) + min(available(parent), visible − max(0, usage − local) + borrowing limit)
    potential(x) = min(local + potential(parent), subtree + borrowing limit)             the same in an idle tree
    debt(x)      = max(0, −borrowing limit − T(x)); at a root max(0, −T(x))

A limit at a root means nothing. A node on a cycle, or below one, belongs to no tree: nothing starts there, and it
is computed as if it had no parent, so that every read ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Final

from pools.domain.values.amounts import UNLIMITED, Amount, Number


@dataclass(frozen=True, slots=True)
class NodeQuota:
    """The quota of one node for one (flavor, resource). A limit of `UNLIMITED` does not bind."""

    nominal: Amount = 0
    borrowing_limit: Amount = UNLIMITED
    lending_limit: Amount = UNLIMITED


NO_QUOTA = NodeQuota()
AMOUNT_KEYS: Final = tuple(each.name for each in fields(NodeQuota))
"""The keys of a node's amounts, the same in configurations, answers, columns of pools and labels of numbers."""
LIMIT_KEYS: Final = AMOUNT_KEYS[1:]


@dataclass(frozen=True, slots=True)
class QuotaNode:
    """A cohort, pool or leaf. `parent` may name a node that is not given: it then exists implicitly, without quota."""

    name: str
    parent: str | None = None
    quotas: Mapping[str, NodeQuota] = field(default_factory=dict)
    weight: Number = 1


class ResourceColumn:
    """One (flavor, resource) of a whole tree. `parents[i]` is an index or −1; parents may be in any order."""

    __slots__ = (
        "_deep_first",
        "_potential",
        "_quotas",
        "borrowing",
        "local",
        "nominal",
        "own",
        "parents",
        "subtree",
        "usage",
        "visible",
    )

    def __init__(self, parents: Sequence[int], deep_first: Sequence[int], quotas: Sequence[NodeQuota]) -> None:
        """`deep_first` lists every index once, children before their parents."""
        size = len(parents)
        self._quotas = quotas
        self.parents = parents
        self._deep_first = deep_first
        self.nominal = [quota.nominal for quota in quotas]
        self.borrowing = [quota.borrowing_limit for quota in quotas]
        self.subtree: list[Amount] = list(self.nominal)
        self.local: list[Amount] = [0] * size
        self.visible: list[Amount] = [0] * size
        self.own: list[Number] = [0] * size
        self.usage: list[Number] = [0] * size
        self._potential: list[Amount] | None = None
        """Computed at the first use; it depends on quotas and limits alone."""
        for x in deep_first:
            parent, lending = parents[x], quotas[x].lending_limit
            self.visible[x] = self.subtree[x]
            if parent < 0:
                continue
            if lending != UNLIMITED:
                self.local[x] = max(0, self.subtree[x] - lending)
                self.visible[x] = min(self.subtree[x], lending)
            self.subtree[parent] = self.subtree[parent] + self.visible[x]

    def with_lending(self, rises: Mapping[int, Amount]) -> ResourceColumn:
        """The same numbers with the finite lending limits of these nodes higher by these amounts."""
        quotas = list(self._quotas)
        for x, amount in rises.items():
            quotas[x] = replace(quotas[x], lending_limit=quotas[x].lending_limit + amount)
        found = ResourceColumn(self.parents, self._deep_first, quotas)
        found.set_usage(dict(enumerate(self.own)))
        return found

    def set_usage(self, own: Mapping[int, Number]) -> None:
        """Replace all usage by the own usage of each node, and spill it upward."""
        self.own = [own.get(x, 0) for x in range(len(self.parents))]
        self.usage = list(self.own)
        for x in self._deep_first:
            parent = self.parents[x]
            if parent >= 0 and self.usage[x] > self.local[x]:
                # local is finite here: nothing is greater than unlimited
                self.usage[parent] += self.usage[x] - self.local[x]  # type: ignore[assignment]

    def reserve(self, x: int, amount: Number) -> None:
        """Use `amount` more at x; the part that the local quota cannot hold spills to the parent."""
        self.own[x] += amount
        while x >= 0 and amount > 0:
            room = self.local[x] - self.usage[x]
            self.usage[x] += amount
            if room > 0:
                if amount <= room:
                    return
                amount = amount - room  # type: ignore[assignment]
            x = self.parents[x]

    def release(self, x: int, amount: Number) -> None:
        """Undo `reserve`: the spilled part is released first."""
        self.own[x] -= amount
        while x >= 0 and amount > 0:
            spilled = self.usage[x] - self.local[x]
            self.usage[x] -= amount
            if spilled <= 0:
                return
            amount = min(amount, spilled)  # type: ignore[assignment]
            x = self.parents[x]

    @contextmanager
    def changed(self, changes: Iterable[tuple[int, Number]]) -> Iterator[None]:
        """Read inside it as if each of these nodes used this amount more, or less below 0."""
        done = list(changes)
        for x, amount in done:
            self._use(x, amount)
        try:
            yield
        finally:
            for x, amount in reversed(done):
                self._use(x, -amount)

    def _use(self, x: int, amount: Number) -> None:
        if amount > 0:
            self.reserve(x, amount)
        else:
            self.release(x, -amount)

    def balance(self, x: int) -> Amount:
        """The balance of the subtree; negative means that it borrows."""
        return self.subtree[x] - self.usage[x]

    def available(self, x: int) -> Amount:
        """The amount that x may still use, given all nodes up to the root. Negative if a limit on the path is in
        debt."""
        room_below: Amount = 0
        most: Amount = UNLIMITED
        while (parent := self.parents[x]) >= 0:
            room_below += max(0, self.local[x] - self.usage[x])
            if self.borrowing[x] != UNLIMITED:
                most = min(most, room_below + self._own_bound(x))
            x = parent
        return min(most, room_below + self.balance(x))

    def available_of_all(self) -> list[Amount]:
        """`available` of every node, computed once from the roots down."""
        found: list[Amount] = [0] * len(self.parents)
        for x in reversed(self._deep_first):
            parent = self.parents[x]
            if parent < 0:
                found[x] = self.balance(x)
                continue
            above = min(found[parent], self._own_bound(x))
            found[x] = above + max(0, self.local[x] - self.usage[x])
        return found

    def _own_bound(self, x: int) -> Amount:
        """The most that x may get from its parent by its borrowing limit, in addition to its unused local quota."""
        return self.visible[x] + self.borrowing[x] + min(0, self.local[x] - self.usage[x])

    def potential(self, x: int) -> Amount:
        """The amount that x could use if the whole tree were idle: a larger request can never start."""
        if self._potential is None:
            self._potential = self._potentials()
        return self._potential[x]

    def _potentials(self) -> list[Amount]:
        found = list(self.subtree)
        for x in reversed(self._deep_first):
            parent = self.parents[x]
            if parent >= 0:
                found[x] = min(self.local[x] + found[parent], self.subtree[x] + self.borrowing[x])
        return found

    def debt(self, x: int) -> Amount:
        """The usage of x beyond its limits, after a limit was reduced below it; else 0."""
        allowed = self.borrowing[x] if self.parents[x] >= 0 else 0
        return 0 if allowed == UNLIMITED else max(0, -(self.balance(x) + allowed))

    def binding_limit(self, x: int) -> tuple[int, str]:
        """The node and its limit that decide `available(x)`: `borrowing_limit`, or at a root `quota`."""
        path = self._path_to_root(x)
        node, limit, above = path[-1], "quota", self.balance(path[-1])
        for below in reversed(path[:-1]):
            if self.borrowing[below] != UNLIMITED and self._own_bound(below) < above:
                node, limit, above = below, "borrowing_limit", self._own_bound(below)
            above += max(0, self.local[below] - self.usage[below])
        return node, limit

    def binding_potential_limit(self, x: int) -> tuple[int, str]:
        """The node and its limit that decide `potential(x)`, as in `binding_limit`."""
        while (parent := self.parents[x]) >= 0:
            if self.subtree[x] + self.borrowing[x] < self.local[x] + self.potential(parent):
                return x, "borrowing_limit"
            x = parent
        return x, "quota"

    def _path_to_root(self, x: int) -> list[int]:
        """The path from x to its root, both included."""
        path = [x]
        while (parent := self.parents[path[-1]]) >= 0:
            path.append(parent)
        return path


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The reason why a request does not fit: the blocking node and its limit, and the numbers of the requesting
    leaf."""

    key: str
    node: str
    limit: str
    requested: Amount
    available: Amount
    potential: Amount


class QuotaTree:
    """A forest of nodes with their usage. The usage of a node is that of its own work of every priority, without its
    children."""

    def __init__(self, nodes: Iterable[QuotaNode], usage: Mapping[str, Mapping[str, Number]] | None = None) -> None:
        given = {node.name: node for node in nodes}
        for node in list(given.values()):
            if node.parent is not None and node.parent not in given:
                given[node.parent] = QuotaNode(node.parent)
        self.nodes: dict[str, QuotaNode] = given
        self.names = list(given)
        self.index = {name: x for x, name in enumerate(self.names)}
        self._usage = {name: dict(amounts) for name, amounts in (usage or {}).items() if name in given}
        parents = [-1 if node.parent is None else self.index[node.parent] for node in given.values()]
        deep_first, self.cyclic_indexes = children_first_order(parents)
        self.children_first = deep_first
        self.cycles = [[self.names[x] for x in cycle] for cycle in find_cycles(parents)]
        self.parents = [-1 if x in self.cyclic_indexes else parent for x, parent in enumerate(parents)]
        keys = {key for node in given.values() for key in node.quotas}
        keys.update(key for amounts in self._usage.values() for key in amounts)
        self.keys = sorted(keys)
        self.columns = {key: self._column(key, deep_first) for key in self.keys}

    def _column(self, key: str, deep_first: Sequence[int]) -> ResourceColumn:
        column = ResourceColumn(
            self.parents, deep_first, [node.quotas.get(key, NO_QUOTA) for node in self.nodes.values()]
        )
        column.set_usage({self.index[name]: amounts.get(key, 0) for name, amounts in self._usage.items()})
        return column

    def is_active(self, name: str) -> bool:
        """False for a node on a cycle or below one: nothing new starts there, running work continues."""
        return self.index[name] not in self.cyclic_indexes

    def cycle_of(self, name: str) -> list[str]:
        """The cycle of parents that the node is on or below; empty if there is none."""
        if self.is_active(name):
            return []
        path = [name]
        while (parent := self.nodes[path[-1]].parent) is not None and parent not in path:
            path.append(parent)
        return [] if parent is None else path[path.index(parent) :]

    def available(self, name: str, key: str) -> Amount:
        """The amount that the leaf may start now; never below 0, and 0 on or below a cycle."""
        if key not in self.columns or not self.is_active(name):
            return 0
        return max(0, self.columns[key].available(self.index[name]))

    def shortfalls(self, name: str, request: Mapping[str, Number]) -> list[Shortfall]:
        """The reasons why the request does not fit at the leaf, one for each key; empty if it fits. A request of 0
        always fits."""
        x = self.index[name]
        found = []
        for key in sorted(request):
            requested, column = request[key], self.columns.get(key)
            if requested <= 0:
                continue
            if not self.is_active(name):
                found.append(Shortfall(key, name, "cycle", requested, 0, 0))
            elif column is None:
                found.append(Shortfall(key, name, "quota", requested, 0, 0))
            elif requested > (free := column.available(x)):
                node, limit = column.binding_limit(x)
                found.append(Shortfall(key, self.names[node], limit, requested, max(0, free), column.potential(x)))
        return found


def find_cycles(parents: Sequence[int]) -> list[list[int]]:
    """Every cycle once, beginning at its smallest index, in the order of its parent links."""
    seen = [0] * len(parents)
    found = []
    for start in range(len(parents)):
        walk, x = start + 1, start
        while x >= 0 and not seen[x]:
            seen[x] = walk
            x = parents[x]
        if x >= 0 and seen[x] == walk:
            cycle = [x]
            while parents[cycle[-1]] != x:
                cycle.append(parents[cycle[-1]])
            first = cycle.index(min(cycle))
            found.append(cycle[first:] + cycle[:first])
    return found


def children_first_order(parents: Sequence[int]) -> tuple[list[int], frozenset[int]]:
    """All indexes, children before parents; nodes on a cycle or below one are at the end of the list."""
    children: list[list[int]] = [[] for _ in parents]
    roots = []
    for x, parent in enumerate(parents):
        if parent < 0:
            roots.append(x)
        else:
            children[parent].append(x)
    top_first = roots
    for x in top_first:
        top_first.extend(children[x])
    cyclic = frozenset(range(len(parents))).difference(top_first)
    return [*reversed(top_first), *sorted(cyclic)], cyclic
