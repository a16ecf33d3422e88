"""Consolidation: free capacity by moving tasks only. Every task that leaves its node moves to another node at once.

Node after node is vacated for the largest task that does not fit, first the node with the fewest gangs to move, and
among equals the node whose work is served last. At most `MAX_MOVED_GANGS` gangs move for one other (KAI's bound).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scheduling.domain.engine.eviction import EvictionResult, EvictionSearch
from scheduling.domain.engine.nodes import NOWHERE, Request, has_enough
from scheduling.domain.engine.sorted_gangs import OrderKey
from scheduling.domain.engine.state import WAITING, GangState
from scheduling.domain.engine.victims import EvictionUnit
from scheduling.domain.engine.world import World

MAX_MOVED_GANGS = 16
MAX_FIRST_NODES = 8
"""How many first nodes are tried before the search gives up."""

MAX_COMPARED_NODES = 64
"""How many nodes that could be vacated are compared, nodes with most free first."""

IsMovable = Callable[[GangState], bool]


def start_by_moving(
    search: EvictionSearch, movable: IsMovable, among: Iterable[GangState] | None = None
) -> EvictionResult | None:
    """Start the gang after moving others, or change nothing and return None. Quotas must allow the gang already.
    `among`: a set that contains all movable gangs, if it is known."""
    world, gang = search.world, search.gang
    tasks = gang.next_tasks()
    for first in _candidates(world, _largest_need(gang), movable, set(), among)[:MAX_FIRST_NODES]:
        if len(tasks) == 1 and not gang.has_choice and not _may_all_move(world, first, gang.needs[tasks[0]]):
            continue
        before = world.mark()
        units = _vacate(search, first, movable, among)
        if units is None:
            world.undo(before)
            continue
        result = search.finish(units, lambda result: not result.evicted)
        if result is not None:
            return result
    return None


def _may_all_move(world: World, units: list[EvictionUnit], need: Request) -> bool:
    """Whether each of these tasks of one node has room, were it alone, on another node or beside the need on its old
    one. A quick check before a trial: the one task of the need fits on no node but this one."""
    nodes, node = world.nodes, units[0].nodes[0]
    if nodes is None or nodes.tightest_node(need) != NOWHERE:
        return True
    left = list(nodes.free[node])
    moving = [unit.gang.needs[i] for unit in units for i in unit.tasks]
    for sign, request in [(-1, need), *((1, each) for each in moving)]:
        for r, amount in request:
            if r < nodes.width:
                left[r] += sign * amount
    return all(has_enough(left, request) or nodes.fits_beside(node, request) for request in set(moving))


def _vacate(
    search: EvictionSearch, first: list[EvictionUnit], movable: IsMovable, among: Iterable[GangState] | None
) -> list[EvictionUnit] | None:
    """Take tasks off their nodes, those of `first` before others, until the gang fits; None if too many gangs move."""
    world = search.world
    units: list[EvictionUnit] = []
    moving: set[int] = set()
    leaving = first
    while True:
        for unit in leaving:
            world.stop(unit.gang, unit.tasks)
            moving.add(unit.gang.index)
            units.append(unit)
        if len(moving) > MAX_MOVED_GANGS:
            return None
        if search.can_start():
            return units
        following = _candidates(world, _largest_need(search.gang), movable, moving, among)
        if not following:
            return None
        leaving = following[0]


def _largest_need(gang: GangState) -> Request:
    return max(gang.needs[i] for i, status in enumerate(gang.status) if status == WAITING)


def _candidates(
    world: World, request: Request, movable: IsMovable, moving: set[int], among: Iterable[GangState] | None
) -> list[list[EvictionUnit]]:
    """The tasks to move for each node that could be vacated for the request, cheapest node first."""
    candidates: list[tuple[tuple[int, int, _ReversedKeys, int], list[EvictionUnit]]] = []
    if world.nodes is None or world.firm is None:
        return []
    if among is None:
        nodes = world.nodes.full_nodes(request)
    else:
        used_nodes = {node for gang in among for node in gang.node if node != NOWHERE}
        nodes = world.nodes.full_nodes_among(used_nodes, request)
    for node in nodes:
        if len(candidates) >= MAX_COMPARED_NODES:
            break
        if not world.firm.fits(node, request):
            continue
        free = {r: world.nodes.free[node][r] for r, _amount in request}
        movable_tasks: dict[GangState, list[int]] = {}
        for other, i in world.on_node[node]:
            if movable(other):
                movable_tasks.setdefault(other, []).append(i)
        units: list[EvictionUnit] = []
        gangs = sorted(movable_tasks, key=lambda gang: gang.order_key, reverse=True)
        for gang in gangs:
            tasks = sorted(movable_tasks[gang], reverse=True)
            while tasks and any(free[r] < amount for r, amount in request):
                i = tasks.pop(0)
                units.append(EvictionUnit(gang, (i,), (node,)))
                for r, amount in gang.requests[i]:
                    if r in free:
                        free[r] += amount
        if all(free[r] >= amount for r, amount in request):
            new = {unit.gang.index for unit in units} - moving
            last_served = _ReversedKeys([gang.order_key for gang in gangs if any(unit.gang is gang for unit in units)])
            candidates.append(((len(new), len(units), last_served, node), units))
    return [units for _cost, units in sorted(candidates, key=lambda entry: entry[0])]


class _ReversedKeys:
    """Sorts gangs that are served last to the front."""

    __slots__ = ("orders",)

    def __init__(self, orders: list[OrderKey]) -> None:
        self.orders = orders

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ReversedKeys) and self.orders == other.orders

    def __hash__(self) -> int:
        return hash(tuple(self.orders))

    def __lt__(self, other: _ReversedKeys) -> bool:
        return other.orders < self.orders
