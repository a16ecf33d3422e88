"""Consolidation: free capacity by moving tasks only. Every task that leaves its node moves to another node at once.

Node after node is vacated for the largest task that does not fit, first the node with the fewest gangs to move, and
among equals the node whose work is served last. At most `MAX_MOVED_GANGS` gangs move for one other (KAI's bound).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from scheduling.domain.engine.rules.eviction import EvictionSearch
from scheduling.domain.engine.rules.victims import EvictionResult
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.state.evicted import EvictionUnit
from scheduling.domain.engine.state.nodes import NOWHERE, Request, has_enough
from scheduling.domain.engine.state.records import WAITING, GangState

MAX_MOVED_GANGS = 16
MAX_FIRST_NODES = 8
"""The most first nodes that are tried before the search gives up."""

MAX_COMPARED_NODES = 64
"""The most nodes that are compared of those that could be vacated, nodes with most free first."""


@dataclass(frozen=True, slots=True)
class MovableGangs:
    """The gangs that may move: those that pass the `test`. `nodes`: all nodes that they use; None: any."""

    test: Callable[[GangState], bool]
    nodes: Collection[int] | None = None


def start_by_moving(search: EvictionSearch, movable: MovableGangs) -> EvictionResult | None:
    """Start the gang after moving others, or change nothing and return None. Quotas must allow the gang already."""
    world, gang = search.world, search.gang
    tasks = gang.next_tasks()
    room = _RoomForMoved(world, gang)
    for first in _candidates(world, _largest_need(gang), movable, set(), MAX_FIRST_NODES):
        # Under a policy these checks decide: a trial that a reservation makes fail says nothing about other gangs.
        if len(tasks) == 1 and not gang.has_choice and not _may_all_move(world, first, gang.needs[tasks[0]]):
            continue
        before = world.mark()
        units = _vacate(search, first, movable, room)
        if units is None:
            world.undo(before)
            continue
        result = search.finish(units, lambda result: not result.evicted)
        if result is not None:
            return result
    return None


def _may_all_move(world: World, units: list[EvictionUnit], need: Request) -> bool:
    """Whether each of these tasks of one node, if it were alone, has room on another node, or next to the need on its
    old one. A quick check before a trial: the one task of the need fits on no node but this one."""
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


class _RoomForMoved:
    """A quick check of what is about to move, for a gang of equal tasks that request GPUs of one kind only.

    A slot is free capacity for one such task on one node. Nodes are vacated only until there are as many slots as
    tasks, so the slots that are left next to the gang are at most the surplus of the last node. A task that moves uses
    up at least as many slots as it is times larger."""

    def __init__(self, world: World, gang: GangState) -> None:
        self._slots_left: int | None = None
        tasks = gang.next_tasks()
        needs = {gang.needs[i] for i in tasks}
        if world.nodes is None or gang.has_choice or not gang.tree.is_single_leaf or len(needs) != 1:
            return
        (need,) = needs
        kinds = 1 if gang.queue is None else max(1, gang.queue.kinds)
        if len(need) == 1 and need[0][0] < kinds and not world.nodes.has_slots(need, len(tasks)):
            self._kind, self._gpus = need[0]
            self._slots_left = int(world.nodes.largest(self._kind) // self._gpus) - 1

    def is_enough(self, units: Iterable[EvictionUnit]) -> bool:
        """Whether there may be room for all of these tasks and the gang together."""
        left = self._slots_left
        if left is None:
            return True
        for unit in units:
            for i in unit.tasks:
                for r, amount in unit.gang.requests[i]:
                    if r == self._kind:
                        left -= int(amount // self._gpus)
        return left >= 0


def _vacate(
    search: EvictionSearch, first: list[EvictionUnit], movable: MovableGangs, room: _RoomForMoved
) -> list[EvictionUnit] | None:
    """Take tasks off their nodes, those of `first` before others, until the gang fits; None if too many gangs move or
    some of them cannot find room."""
    world = search.world
    units: list[EvictionUnit] = []
    moving: set[int] = set()
    leaving = first
    while True:
        units += leaving
        moving.update(unit.gang.index for unit in leaving)
        if len(moving) > MAX_MOVED_GANGS or not room.is_enough(units):
            return None
        for unit in leaving:
            world.stop(unit.gang, unit.tasks)
        if search.can_start():
            return units
        following = _candidates(world, _largest_need(search.gang), movable, moving, 1)
        if not following:
            return None
        leaving = following[0]


def _largest_need(gang: GangState) -> Request:
    return max(gang.needs[i] for i, status in enumerate(gang.status) if status == WAITING)


def _candidates(
    world: World, request: Request, movable: MovableGangs, moving: set[int], most: int
) -> list[list[EvictionUnit]]:
    """The tasks to move for each node that could be vacated for the request, cheapest node first; at most `most`
    nodes."""
    if world.nodes is None or world.firm is None:
        return []
    found: list[list[EvictionUnit]] = []
    for node in world.nodes.full_nodes(request):
        if len(found) >= MAX_COMPARED_NODES:
            break
        if movable.nodes is not None and node not in movable.nodes:
            continue
        units = _vacancy(world, node, request, movable)
        if units:
            found.append(units)
    found.sort(key=lambda units: units[0].nodes)
    found.sort(key=lambda units: [gang.order_key for gang in dict.fromkeys(unit.gang for unit in units)], reverse=True)
    found.sort(key=lambda units: (len({unit.gang.index for unit in units} - moving), len(units)))
    return found[:most]


def _vacancy(world: World, node: int, request: Request, movable: MovableGangs) -> list[EvictionUnit]:
    """The tasks that would leave the node so that the request fits on it, last served first; empty if it would not fit
    without all movable tasks."""
    assert world.nodes is not None
    assert world.firm is not None
    if not world.firm.fits(node, request):
        return []
    free = {r: world.nodes.free[node][r] for r, _amount in request}
    tasks: dict[GangState, list[int]] = {}
    for gang, i in world.on_node[node]:
        if movable.test(gang):
            tasks.setdefault(gang, []).append(i)
    units: list[EvictionUnit] = []
    for gang in sorted(tasks, key=lambda gang: gang.order_key, reverse=True):
        for i in sorted(tasks[gang], reverse=True):
            if all(free[r] >= amount for r, amount in request):
                return units
            units.append(EvictionUnit(gang, (i,), (node,)))
            for r, amount in gang.requests[i]:
                if r in free:
                    free[r] += amount
    return units if all(free[r] >= amount for r, amount in request) else []
