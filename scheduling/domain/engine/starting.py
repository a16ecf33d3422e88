"""Starts: the next attempt of a gang, and the phase in which waiting gangs use free capacity in turn."""

from __future__ import annotations

from collections.abc import Callable

from scheduling.domain.engine.gates import may_start
from scheduling.domain.engine.nodes import Request
from scheduling.domain.engine.queue_order import QueueOrder
from scheduling.domain.engine.sorted_gangs import LeafPendingQueue
from scheduling.domain.engine.state import GangState, QueueState, place_one_by_one, sum_requests, task_choices
from scheduling.domain.engine.steps import StepAction, StepLog
from scheduling.domain.engine.world import World
from scheduling.domain.gang import ROOT, Growth


def attempt_start(world: World, gang: GangState) -> list[int]:
    """Start the next tasks of a gang if quotas and nodes allow it: all that its minimum needs, or one more. Returns the
    started tasks; empty if none."""
    before = world.mark()
    if gang.tree.is_single_leaf:
        missing = max(1, gang.tree.thresholds[ROOT] - gang.active[ROOT])
        if missing > gang.waiting[ROOT] or not _start_some(world, gang, ROOT, missing):
            return []
    else:
        growth = Growth(
            gang.tree,
            list(gang.active),
            list(gang.waiting),
            lambda leaf, count: _start_some(world, gang, leaf, count),
            mark=world.mark,
            undo=world.undo,
            cost=gang.min_cost,
        )
        if not growth.attempt() and not _start_at_once(world, gang):
            return []
    return [i for _gang, i, _node in world.journal[before:]]


def _start_some(world: World, gang: GangState, leaf: int, count: int) -> bool:
    if any(_start(world, gang, tasks) for tasks in task_choices(gang, leaf, count)):
        return True
    return place_one_by_one(gang, leaf, count, lambda i: _start(world, gang, [i]), world.mark, world.undo)


def _start_at_once(world: World, gang: GangState) -> bool:
    """Try all together: placed one after the other, a child may use nodes that only a later child could use."""
    if gang.is_satisfied or not gang.is_complete:
        return False
    if _start(world, gang, gang.next_tasks()):
        return True
    least = gang.cheapest_tasks() if gang.has_choice else None
    return least is not None and _start(world, gang, least)


def _start(world: World, gang: GangState, tasks: list[int]) -> bool:
    request = sum_requests([gang.requests[i] for i in tasks])
    allowed = gang.queue is not None and may_start(world, gang.queue, request, preemptible=gang.preemptible)
    return allowed and world.start(gang, tasks)


def pending_queues(world: World, is_wanted: Callable[[GangState, QueueState], bool]) -> dict[int, LeafPendingQueue]:
    """The pending queue of each leaf with waiting gangs that pass the filter; of interchangeable gangs one is judged
    for all."""
    pending = {}
    for queue in world.queues:
        if queue.children or queue.is_cyclic:
            continue
        groups = {}
        for signature, group in queue.waiting.items():
            if is_wanted(next(iter(group)), queue):
                groups[signature] = group.copy()
        if groups:
            pending[queue.index] = LeafPendingQueue(queue, groups)
    return pending


class _Startable:
    """A filter at the beginning of the phase. Capacity only shrinks during the phase, so gangs that cannot start now
    are left out."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._slots: dict[Request, int] = {}

    def __call__(self, gang: GangState, queue: QueueState) -> bool:
        world = self._world
        if not queue.is_open:
            return False
        tasks = gang.next_tasks()
        if not gang.tree.is_single_leaf or len(tasks) < sum(gang.waiting):
            # It may start in more than one way; only the attempt decides.
            return True
        if not (gang.is_complete and may_start(world, queue, gang.next_request, preemptible=gang.preemptible)):
            return False
        needs = [gang.needs[i] for i in tasks]
        return all(self._free_slots(need) >= needs.count(need) for need in set(needs))

    def _free_slots(self, request: Request) -> int:
        """How many such requests fit on the nodes."""
        if request not in self._slots:
            nodes = self._world.nodes
            self._slots[request] = 2**62 if nodes is None else nodes.count_slots(request)
        return self._slots[request]


def run_start_phase(world: World, step_log: StepLog) -> bool:
    """Start gangs in turn until no free capacity can be used. Returns whether anything started."""
    pending = pending_queues(world, _Startable(world))
    order = QueueOrder(pending)
    has_started = False
    while (leaf := order.next_leaf()) is not None:
        leaf_queue = pending[leaf.index]
        gang = leaf_queue.head()
        if gang is None:
            break
        tasks = attempt_start(world, gang)
        if tasks:
            has_started = True
            step_log.record(StepAction.START, gang, tasks)
            leaf_queue.advance()
            world.update_lists(gang)
            if any(gang.waiting):
                leaf_queue.requeue(gang)
            world.journal.clear()
        else:
            leaf_queue.drop_head_group()
        order.refresh(leaf)
    return has_started
