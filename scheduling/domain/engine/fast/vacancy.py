"""How a node could be vacated for a request, kept until the tasks of the node change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduling.domain.engine.rules.victims import EvictionUnit
    from scheduling.domain.engine.state.nodes import FreeAmounts, Request
    from scheduling.domain.engine.state.records import GangState
    from scheduling.domain.engine.state.sorted_gangs import OrderKey


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
    by `last_served`. No units: the request would not fit without all movable tasks.

    It holds while the node has this `state` and these `free` amounts (a reservation withholds some of them from some
    gangs), and while the gangs of `orders` (movable gangs of several tasks, which may
    lose one on another node) keep these keys. `queues` are those of all movable gangs of the node."""

    state: int
    free: FreeAmounts
    units: list[EvictionUnit]
    gangs: frozenset[int]
    last_served: ReversedKeys
    orders: tuple[tuple[GangState, OrderKey], ...]
    queues: frozenset[int]

    def holds(self, state: int, free: FreeAmounts) -> bool:
        """Whether it is still true."""
        return self.state == state and self.free == free and all(gang.order_key == key for gang, key in self.orders)


VacancyCache = dict["Request", dict[int, Vacancy]]
"""By request and node, with every preemptible gang movable."""
