"""The least amounts that must become free for a gang, node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pools.domain.values.amounts import Number, is_gpu
from scheduling.domain.engine.reasons.node_bars import NO_BARS, BarTrials, NodeBars, nodes_text
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.state.nodes import NOWHERE, FreeAmounts, NodeIndex, Request, has_enough
from scheduling.domain.engine.state.placement import place_requests
from scheduling.domain.engine.state.records import GangState, sum_requests


@dataclass(frozen=True, slots=True)
class NodeShortage:
    """The amounts that one node lacks."""

    node: str
    missing: Request


@dataclass(frozen=True, slots=True)
class Shortage:
    """`free` is the part of the free amounts that the gang can use. `is_fragmented`: enough is free in sum, but not on
    the right nodes. `largest`: the most that is free on one node for its largest task, with those nodes. `barred`:
    what keeps the tasks from nodes on which they would fit, now or (`is_permanent`) if those were empty. `size`: a
    sentence about too small nodes, with `{}` for the amounts."""

    requested: Request
    free: Request
    missing: Request
    node_shortages: tuple[NodeShortage, ...]
    is_fragmented: bool
    is_permanent: bool
    largest: tuple[Request, tuple[str, ...]] = ((), ())
    barred: NodeBars = NO_BARS
    size: tuple[str, Request] = ("", ())


class ShortageFinder:
    """Shortages, searched once for all gangs with equal requests to the nodes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[object, Shortage | None] = {}
        self._empty: NodeIndex | None = None

    def find(self, gang: GangState, tasks: Sequence[int]) -> Shortage | None:
        """The shortage for these tasks of the gang, or None if they fit."""
        nodes = self._world.nodes
        if nodes is None:
            return None
        needs = tuple(gang.needs[i] for i in tasks)
        key: object = needs
        topology = gang.fact.topology
        if topology or any(need and need[-1][0] >= nodes.width for need in needs):
            # Several causes may leave equal sets of nodes.
            key = needs, tuple(gang.fact.tasks[i].bars for i in tasks), topology
        if key not in self._known:
            self._known[key] = self._search(nodes, gang, tasks, needs)
        return self._known[key]

    def _search(
        self, nodes: NodeIndex, gang: GangState, tasks: Sequence[int], requests: Sequence[Request]
    ) -> Shortage | None:
        found = place_requests(nodes, requests)
        if found is not None:
            _release_all(nodes, found, requests)
        trials = self._trials(nodes, gang, tasks, nodes.capacity)
        is_split = bool(gang.fact.topology) and not trials.fits_without(())
        if found is not None and not is_split:
            return None
        requested = tuple((r, amount) for r, amount in sum_requests(requests) if r < nodes.width)
        fragmented = all(nodes.total[r] >= amount for r, amount in requested)
        nodes_when_empty = self._on_empty(nodes, requests)
        if nodes_when_empty is None or is_split:
            size = ("", ()) if nodes_when_empty else self._size(nodes, requests, requested)
            return Shortage(
                requested, (), requested, (), is_fragmented=fragmented, is_permanent=True, barred=trials.find(),
                size=size,
            )  # fmt: skip
        fill = _LeastShortFill(nodes, requests)
        where = fill.find_node_shortages()
        if fill.overfills:
            where = _node_shortages(nodes, nodes_when_empty, requests) or where
        missing = sum_requests([short.missing for short in where])
        lacking = dict(missing)
        free = tuple((r, amount - lacking.get(r, 0)) for r, amount in requested)
        largest = _largest_piece(nodes, max(requests))
        barred = self._trials(nodes, gang, tasks, nodes.free).find()
        return Shortage(
            requested, free, missing, where, is_fragmented=fragmented, is_permanent=False, largest=largest,
            barred=barred,
        )  # fmt: skip

    def _trials(
        self, nodes: NodeIndex, gang: GangState, tasks: Sequence[int], amounts: Sequence[FreeAmounts]
    ) -> BarTrials:
        facts, requests = [gang.fact.tasks[i] for i in tasks], [gang.requests[i] for i in tasks]
        return BarTrials(nodes, amounts, facts, requests, gang.fact.topology)

    def _size(self, nodes: NodeIndex, requests: Sequence[Request], requested: Request) -> tuple[str, Request]:
        """The way in which the nodes that the tasks may use are too small: each of them, or all together."""
        for request in requests:
            if self._on_empty(nodes, [request]) is None:
                sets = tuple(pair for pair in request if pair[0] >= nodes.width)
                mine = [have for have in nodes.capacity if has_enough(have, sets)]
                amounts = [(r, max((have[r] for have in mine), default=0)) for r, _amount in request if r < nodes.width]
                short = [(r, most) for r, most in amounts if most < dict(request)[r]]
                size = "The largest node that it may use has {}." if mine else "It may use no node."
                return size + self._shared(nodes, request), tuple(short)
        if len(set(requests)) == 1 and self._empty is not None:
            fitting = self._empty.count_slots(requests[0], len(requests))
            return f"The nodes that it may use hold {fitting} of its {len(requests)} tasks.", ()
        total = [(r, sum(have[r] for have in nodes.capacity)) for r, _amount in requested]
        short = [(r, most) for r, most in total if most < dict(requested)[r]]
        return "All nodes together have {}." if short else "", tuple(short)

    def _shared(self, nodes: NodeIndex, request: Request) -> str:
        """The nodes that the task may use and whose parts of GPUs would be enough if they counted."""
        gpus = next((amount for r, amount in request if r < nodes.width and is_gpu(self._world.keys[r])), 0)
        parts = {node.name: node.parts for node in self._world.facts.nodes or () if node.parts}
        sets = tuple(pair for pair in request if pair[0] >= nodes.width)
        names = [
            name
            for name, have in zip(nodes.names, nodes.capacity, strict=True)
            if gpus and parts.get(name, 0) >= gpus and has_enough(have, sets)
        ]
        if not names:
            return ""
        return f" {nodes_text(names)} share{'s' * (len(names) == 1)} GPUs, whose parts are not counted."

    def _on_empty(self, nodes: NodeIndex, requests: Sequence[Request]) -> list[int] | None:
        """The nodes of the requests on empty nodes, or None if they never fit."""
        if self._empty is None:
            self._empty = nodes.empty_copy()
        found = place_requests(self._empty, requests)
        if found is not None:
            _release_all(self._empty, found, requests)
        return found


def _largest_piece(nodes: NodeIndex, request: Request) -> tuple[Request, tuple[str, ...]]:
    """The most of the first resource of the request that is free on a node which it may use, and those nodes."""
    if not request or request[0][0] >= nodes.width:
        return (), ()  # it asks for no amount
    r = request[0][0]
    sets = tuple(pair for pair in request if pair[0] >= nodes.width)
    free = {node: max(0, have[r]) for node, have in enumerate(nodes.free) if has_enough(have, sets)}
    most = max(free.values(), default=0)
    return ((r, most),), tuple(nodes.names[node] for node, have in free.items() if have == most)


def _release_all(nodes: NodeIndex, where: Sequence[int], requests: Sequence[Request]) -> None:
    for node, request in zip(where, requests, strict=True):
        nodes.release(node, request)


def _node_shortages(nodes: NodeIndex, where: Sequence[int], requests: Sequence[Request]) -> tuple[NodeShortage, ...]:
    """The amounts that each node lacks for the requests assigned to it."""
    requested: dict[int, list[Request]] = {}
    for node, request in zip(where, requests, strict=True):
        requested.setdefault(node, []).append(request)
    found = []
    for node, here in sorted(requested.items()):
        free = nodes.free[node]
        lack = [(r, amount - free[r]) for r, amount in sum_requests(here) if r < nodes.width and amount > free[r]]
        if lack:
            found.append(NodeShortage(nodes.names[node], tuple(lack)))
    return tuple(found)


class _LeastShortFill:
    """Places requests that fit, largest first, and the others where least is missing. `overfills`: some node got more
    than its capacity, or a task that it may not run."""

    def __init__(self, nodes: NodeIndex, requests: Sequence[Request]) -> None:
        self._nodes, self._requests = nodes, requests
        self.overfills = False
        self._here: dict[int, list[Number]] = {}
        self._lacking: dict[int, dict[int, Number]] = {}

    def find_node_shortages(self) -> tuple[NodeShortage, ...]:
        """The shortage of each node, by name; the nodes stay unchanged."""
        nodes, changes = self._nodes, []
        for request in sorted(self._requests, reverse=True):
            node = nodes.tightest_node(request)
            if node == NOWHERE:
                node = self._nearest_node(request)
                lack = self._missing_amounts(node, request)
                nodes.release(node, lack)
                changes.append((node, tuple((r, -amount) for r, amount in lack)))
                for r, amount in lack:
                    held = self._lacking.setdefault(node, {})
                    held[r] = held.get(r, 0) + amount
            nodes.reserve(node, request)
            changes.append((node, request))
            mine = self._here.setdefault(node, [0] * len(nodes.total))
            for r, amount in request:
                if r < nodes.width:
                    mine[r] += amount
        for node, request in reversed(changes):
            nodes.release(node, request)
        return tuple(
            NodeShortage(nodes.names[node], tuple(sorted(lack.items()))) for node, lack in sorted(self._lacking.items())
        )

    def _missing_amounts(self, node: int, request: Request) -> Request:
        free, width = self._nodes.free[node], self._nodes.width
        return tuple((r, amount - free[r]) for r, amount in request if r < width and amount > free[r])

    def _nearest_node(self, request: Request) -> int:
        """The large enough node that lacks least; without such a node, the node that lacks least."""
        nodes = self._nodes
        best: int = NOWHERE
        least: tuple[bool, Number, Request] | None = None
        seen: set[tuple[FreeAmounts, FreeAmounts]] = set()
        for node, capacity in enumerate(nodes.capacity):
            mine = self._here.get(node)
            if mine is None:  # of nodes that are alike the first by name
                alike = nodes.free[node], capacity
                if alike in seen:
                    continue
                seen.add(alike)
            small = any(amount + (mine[r] if mine and r < nodes.width else 0) > capacity[r] for r, amount in request)
            cost = (
                small,
                dict(self._missing_amounts(node, request)).get(request[0][0], 0),
                self._missing_amounts(node, request),
            )
            if least is None or cost < least:
                best, least = node, cost
        self.overfills = self.overfills or (least is not None and least[0])
        return best
