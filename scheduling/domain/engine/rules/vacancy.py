"""How one node could be vacated for a request by moving tasks away."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from scheduling.domain.engine.state.evicted import EvictionUnit
from scheduling.domain.engine.state.nodes import Request
from scheduling.domain.engine.state.records import GangState, OrderKey
from scheduling.domain.engine.state.world_state import WorldState


class ReversedKeys:
    """Sorts gangs that are served last to the front."""

    __slots__ = ("orders",)

    def __init__(self, orders: list[OrderKey]) -> None:
        self.orders = orders

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReversedKeys) and self.orders == other.orders

    def __hash__(self) -> int:
        return hash(tuple(self.orders))

    def __lt__(self, other: ReversedKeys) -> bool:
        return other.orders < self.orders


@dataclass(frozen=True, slots=True)
class Vacancy:
    """The tasks that would leave a node so that the request fits on it: `units` of `gangs` (by index), which are sorted
    by `last_served`."""

    units: list[EvictionUnit]
    gangs: frozenset[int]
    last_served: ReversedKeys


@dataclass(frozen=True, slots=True)
class MovableGangs:
    """The gangs that may move: those that pass the `test`. `is_all`: every preemptible gang with running tasks passes.
    `without`: every one outside of the queue of this index does. `among`: a set that contains all of them."""

    test: Callable[[GangState], bool]
    is_all: bool = False
    without: int | None = None
    among: Iterable[GangState] | None = None


def find_vacancy(world: WorldState, node: int, request: Request, movable: MovableGangs) -> Vacancy | None:
    """How the node could be vacated; None if the request would not fit without all movable tasks."""
    assert world.nodes is not None
    assert world.firm is not None
    if not world.firm.fits(node, request):
        return None
    before = world.nodes.free[node]
    free = {r: before[r] for r, _amount in request}
    movable_tasks: dict[GangState, list[int]] = {}
    for other, i in world.on_node[node]:
        if movable.test(other):
            movable_tasks.setdefault(other, []).append(i)
    units: list[EvictionUnit] = []
    leaving: dict[GangState, None] = {}
    for gang in sorted(movable_tasks, key=lambda gang: gang.order_key, reverse=True):
        for i in sorted(movable_tasks[gang], reverse=True):
            if all(free[r] >= amount for r, amount in request):
                break
            units.append(EvictionUnit(gang, (i,), (node,)))
            leaving[gang] = None
            for r, amount in gang.requests[i]:
                if r in free:
                    free[r] += amount
    if not units or any(free[r] < amount for r, amount in request):
        return None
    return Vacancy(units, frozenset(gang.index for gang in leaving), ReversedKeys([gang.order_key for gang in leaving]))
