"""Making room by moving only: nobody loses anything, every task that leaves its node stands on another at once.

One node after the other is cleared for the largest task that does not fit, the node with the fewest gangs to move
first, and among equals the one whose work is served last. At most `MAX_MOVED_GANGS` gangs move for one other (KAI's bound).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scheduling.domain.engine.eviction import EvictionResult, EvictionSearch
from scheduling.domain.engine.nodes import NOWHERE, Request
from scheduling.domain.engine.sorted_gangs import OrderKey
from scheduling.domain.engine.state import WAITING, GangState
from scheduling.domain.engine.victims import EvictionUnit
from scheduling.domain.engine.world import World

MAX_MOVED_GANGS = 16
MAX_FIRST_NODES = 8
"""How many first nodes are tried before the search gives up."""

MAX_COMPARED_NODES = 64
"""How many nodes that could be cleared are compared; those with most room are looked at first."""

IsMovable = Callable[[GangState], bool]


def start_by_moving(
    taking: EvictionSearch, movable: IsMovable, among: Iterable[GangState] | None = None
) -> EvictionResult | None:
    """Start the gang after moving others, or change nothing and return None. Quotas must allow the gang already.
    `among`: where everybody who is movable can be found, if that is known."""
    world, gang = taking.world, taking.gang
    for first in _candidates(world, _largest(gang), movable, set(), among)[:MAX_FIRST_NODES]:
        before = world.mark()
        units = _vacate(taking, first, movable, among)
        if units is None:
            world.undo(before)
            continue
        taken = taking.finish(units, lambda taken: not taken.evicted)
        if taken is not None:
            return taken
    return None


def _vacate(
    taking: EvictionSearch, first: list[EvictionUnit], movable: IsMovable, among: Iterable[GangState] | None
) -> list[EvictionUnit] | None:
    """Take tasks off their nodes, those of `first` before others, until the gang fits; None if that takes too many."""
    world = taking.world
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
        if taking.can_start():
            return units
        following = _candidates(world, _largest(taking.gang), movable, moving, among)
        if not following:
            return None
        leaving = following[0]


def _largest(gang: GangState) -> Request:
    return max(gang.needs[i] for i, status in enumerate(gang.status) if status == WAITING)


def _candidates(
    world: World, request: Request, movable: IsMovable, moving: set[int], among: Iterable[GangState] | None
) -> list[list[EvictionUnit]]:
    """The nodes that could be cleared for the request, cheapest first: the tasks that would leave."""
    found: list[tuple[tuple[int, int, _ReversedKeys, int], list[EvictionUnit]]] = []
    if world.nodes is None or world.firm is None:
        return []
    if among is None:
        nodes = world.nodes.full_nodes(request)
    else:
        standing_on = {node for gang in among for node in gang.node if node != NOWHERE}
        nodes = world.nodes.full_nodes_among(standing_on, request)
    for node in nodes:
        if len(found) >= MAX_COMPARED_NODES:
            break
        if not world.firm.fits(node, request):
            continue
        free = {r: world.nodes.free[node][r] for r, _amount in request}
        standing: dict[int, list[int]] = {}
        for index, i in world.on_node[node]:
            if movable(world.gangs[index]):
                standing.setdefault(index, []).append(i)
        units: list[EvictionUnit] = []
        gangs = sorted((world.gangs[index] for index in standing), key=lambda gang: gang.order_key, reverse=True)
        for gang in gangs:
            tasks = sorted(standing[gang.index], reverse=True)
            while tasks and any(free[r] < amount for r, amount in request):
                i = tasks.pop(0)
                units.append(EvictionUnit(gang, (i,), (node,)))
                for r, amount in gang.requests[i]:
                    if r in free:
                        free[r] += amount
        if all(free[r] >= amount for r, amount in request):
            new = {unit.gang.index for unit in units} - moving
            last_served = _ReversedKeys([gang.order_key for gang in gangs if any(unit.gang is gang for unit in units)])
            found.append(((len(new), len(units), last_served, node), units))
    return [units for _cost, units in sorted(found, key=lambda entry: entry[0])]


class _ReversedKeys:
    """Sorts what is served last to the front."""

    __slots__ = ("orders",)

    def __init__(self, orders: list[OrderKey]) -> None:
        self.orders = orders

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ReversedKeys) and self.orders == other.orders

    def __hash__(self) -> int:
        return hash(tuple(self.orders))

    def __lt__(self, other: _ReversedKeys) -> bool:
        return other.orders < self.orders
