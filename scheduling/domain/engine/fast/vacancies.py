"""How nodes could be vacated with every preemptible gang movable, kept until the tasks of a node change."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.domain.engine.rules.vacancy import MovableGangs, Vacancy, find_vacancy
from scheduling.domain.engine.state.nodes import FreeAmounts, Request
from scheduling.domain.engine.state.records import GangState, OrderKey
from scheduling.domain.engine.state.world_state import WorldState

MAX_REQUESTS = 64
"""Beyond so many requests the findings start anew."""


@dataclass(frozen=True, slots=True)
class KeptVacancy:
    """A finding about a node. It holds while the node has these `tasks` and `free` amounts (a reservation withholds
    some of them from some gangs), and while the gangs of `orders` (movable gangs of several tasks, which may lose one
    on another node) keep these keys. `queues` are those of all movable gangs of the node."""

    found: Vacancy | None
    tasks: dict[tuple[GangState, int], None]
    free: FreeAmounts
    orders: tuple[tuple[GangState, OrderKey], ...]
    queues: frozenset[int]

    def holds(self, tasks: dict[tuple[GangState, int], None], free: FreeAmounts) -> bool:
        """Whether it is still true."""
        return (
            self.free == free
            and self.tasks == tasks
            and all(gang.order_key == order_key for gang, order_key in self.orders)
        )


class Vacancies:
    """The findings of one world."""

    def __init__(self) -> None:
        self._known: dict[Request, dict[int, KeptVacancy]] = {}

    def vacancy(self, world: WorldState, node: int, request: Request, movable: MovableGangs) -> Vacancy | None:
        """The finding for all preemptible gangs is also that for fewer, if none of the others is on the node."""
        assert world.nodes is not None
        if movable.among is not None:
            return find_vacancy(world, node, request, movable)
        of_request = self._known.get(request)
        if of_request is None:
            if len(self._known) >= MAX_REQUESTS:
                self._known.clear()
            of_request = self._known[request] = {}
        kept = of_request.get(node)
        if kept is None or not kept.holds(world.on_node[node], world.nodes.free[node]):
            kept = of_request[node] = _find(world, node, request)
        if movable.is_all or (movable.without is not None and movable.without not in kept.queues):
            return kept.found
        return find_vacancy(world, node, request, movable)


_ALL = MovableGangs(lambda gang: gang.preemptible)


def _find(world: WorldState, node: int, request: Request) -> KeptVacancy:
    assert world.nodes is not None
    tasks = dict(world.on_node[node])
    movable = {gang for gang, _task in tasks if gang.preemptible}
    return KeptVacancy(
        find_vacancy(world, node, request, _ALL),
        tasks,
        world.nodes.free[node],
        tuple((gang, gang.order_key) for gang in movable if len(gang.status) > 1),
        frozenset(gang.queue.index for gang in movable if gang.queue is not None),
    )
