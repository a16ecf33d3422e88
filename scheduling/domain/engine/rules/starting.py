"""Starts: the next attempt of a gang, and the phase in which waiting gangs use free capacity in turn.

A gang that may use several flavors (design, K8) has a record for each (`GangState.choices`), side by side in the order
of its leaf, so that they are tried in order. Two switches of its top queue change that (Kueue's flavor fungibility):
with `when_can_borrow: next`, a later choice inside the quota comes before one that would borrow; with
`when_can_preempt: preempt`, a choice waits while moves and evictions would let an earlier one start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from scheduling.domain.engine.facts import WhenCanBorrow, WhenCanPreempt
from scheduling.domain.engine.rules.gates import firm_room, fits_in, may_start, start_room
from scheduling.domain.engine.rules.groups import ANY_SHAPE, GroupJudge, LeafPendingQueue, Shape
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.state.records import GangState, QueueState, place_one_by_one, sum_requests, task_choices
from scheduling.domain.engine.steps import StepAction, StepLog
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
    return [change.task for change in world.journal[before:]]


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


class WouldStart(Protocol):
    """Whether a gang would start if it was tried first, moves and evictions included."""

    def __call__(self, gang: GangState, queue: QueueState, *, inside_quota: bool) -> bool:
        """With `inside_quota`: without borrowing."""


class ChoiceOrder:
    """The order in which the choices of gangs are tried, by the switches of their top queues."""

    def __init__(self, would_start: WouldStart | None = None) -> None:
        self._would_start = would_start
        self._held: set[str] = set()
        """The gangs of which a choice waited in this pass for an earlier one."""
        self._in_vain: set[str] = set()
        """The gangs of which a choice waited for an earlier one that did not start."""

    def begin_pass(self) -> None:
        """Another pass begins."""
        self._held.clear()

    def ends_waiting(self) -> bool:
        """Whether a pass that changed nothing has choices that waited for earlier ones. They wait no more."""
        self._in_vain |= self._held
        return bool(self._held)

    def tried_at(self, gang: GangState) -> tuple[GangState, ...]:
        """The choices that are tried at the turn of this one, in order: itself last. Where it would borrow, those
        behind it that would not may come first."""
        queue = gang.queue
        if not gang.choices or queue is None or not _would_borrow(gang, queue):
            return (gang,)
        if not self.prefers_quota(queue):
            return (gang,)
        inside = [
            each
            for each in gang.choices[gang.choice + 1 :]
            if not (each.is_elsewhere or _would_borrow(each, queue) or self.waits_for_earlier(each, queue))
        ]
        return (*inside, gang)

    def prefers_free(self, queue: QueueState) -> bool:
        """Whether a later choice without moves and evictions comes before an earlier one with them."""
        return queue.path[-1].fact.when_can_preempt != WhenCanPreempt.PREEMPT

    def prefers_quota(self, queue: QueueState) -> bool:
        """Whether a later choice inside the quota comes before an earlier one that borrows."""
        return queue.path[-1].fact.when_can_borrow == WhenCanBorrow.NEXT

    def waits_for_earlier(self, gang: GangState, queue: QueueState) -> bool:
        """Whether this choice waits in this pass, because moves or evictions would let an earlier one start."""
        if not gang.choices or gang.choice == 0 or self._would_start is None or gang.holds_something:
            return False
        if queue.path[-1].fact.when_can_preempt != WhenCanPreempt.PREEMPT or gang.fact.name in self._in_vain:
            return False
        inside = self.prefers_quota(queue) and not _would_borrow(gang, queue)
        earlier = gang.choices[: gang.choice]
        if not any(self._would_start(each, queue, inside_quota=inside) for each in earlier):
            return False
        self._held.add(gang.fact.name)
        return True


def _would_borrow(gang: GangState, queue: QueueState) -> bool:
    """Whether the gang would hold more than the quota of its leaf. Work that is not preemptible starts only inside."""
    return gang.preemptible and any(queue.alloc[r] + n > queue.quota[r] for r, n in gang.next_request)


def is_over_quota(gang: GangState, queue: QueueState) -> bool:
    """Whether the leaf of a gang that has started is above its quota in what the gang holds."""
    return gang.preemptible and any(queue.alloc[r] > queue.quota[r] for r, _n in gang.running_request)


def pending_queues(world: World, is_wanted: Callable[[GangState, QueueState], bool]) -> dict[int, LeafPendingQueue]:
    """The pending queue of each leaf with waiting gangs that pass the filter; of interchangeable gangs one is judged
    for all, except that each choice of several is judged alone."""
    pending = {}
    for queue in world.queues:
        if queue.children or queue.is_cyclic:
            continue
        groups = {}
        for signature, group in queue.waiting.items():
            if not world.has_choices:
                if is_wanted(group.first, queue):
                    groups[signature] = list(group)
                continue
            alike = next((gang for gang in group if not gang.choices), None)
            are_wanted = alike is not None and is_wanted(alike, queue)
            gangs = [gang for gang in group if (is_wanted(gang, queue) if gang.choices else are_wanted)]
            if gangs:
                groups[signature] = gangs
        if groups:
            pending[queue.index] = LeafPendingQueue(queue, groups)
    return pending


def _shapes_to_start(world: World, leaf: QueueState) -> tuple[Any, GroupJudge] | None:
    """The number of tasks of each need that a gang of the leaf starts at once, if its quotas let it start now. Capacity
    only shrinks during the phase, so gangs that cannot start at its beginning are left out."""
    if not leaf.is_open:
        return None
    room, firm = start_room(world, leaf), firm_room(leaf)

    def judge(gang: GangState) -> Shape | None:
        if gang.choices and not world.feasibility.is_possible_choice(gang, leaf):
            return None
        tasks = gang.next_tasks()
        if not gang.tree.is_single_leaf or len(tasks) < sum(gang.waiting):
            # It may start in more than one way; only the attempt decides.
            return ANY_SHAPE
        request = gang.next_request
        if not (fits_in(room, request) and (gang.preemptible or fits_in(firm, request)) and gang.is_complete):
            return None
        needs = [gang.needs[i] for i in tasks]
        return tuple(sorted((need, needs.count(need)) for need in set(needs)))

    return (room, firm), judge


def _may_fit(world: World, shape: Shape) -> bool:
    """Whether every need of the shape, alone, fits often enough on the nodes."""
    nodes = world.nodes
    return nodes is None or all(nodes.has_slots(need, count) for need, count in shape)


def run_start_phase(world: World, step_log: StepLog, choices: ChoiceOrder) -> bool:
    """Start gangs in turn until no free capacity can be used. Returns whether anything started."""
    policy, shortcuts = world.policy, world.shortcuts
    if policy is not None:
        policy.refresh()
    groups = shortcuts.groups(world, StepAction.START, lambda leaf: _shapes_to_start(world, leaf))
    shapes = {shape for shape in groups.shapes() if _may_fit(world, shape)}
    order = shortcuts.start_order(groups, shapes)
    has_started = False
    while shapes and (leaf := order.next_leaf()) is not None:
        leaf_queue = order.pending[leaf.index]
        gang = leaf_queue.head()
        if gang is None:
            break
        if gang.choices and choices.waits_for_earlier(gang, leaf):
            leaf_queue.advance()
            order.refresh(leaf)
            continue
        for each in choices.tried_at(gang) if gang.choices else (gang,):
            gang = each
            tasks = attempt_start(world, gang) if policy is None or policy.begin_attempt(gang) else []
            if policy is not None:
                policy.end_attempt()
            if tasks:
                break
        if tasks:
            has_started = True
            step_log.record(StepAction.START, gang, tasks)
            leaf_queue.advance()
            world.make_final()
            if policy is not None and policy.is_reserved(gang):
                policy.refresh()  # for the next gang of the leaf
            shapes = {shape for shape in shapes if _may_fit(world, shape)}
            if any(gang.waiting):
                leaf_queue.requeue(gang)
                shapes.add(ANY_SHAPE)
        else:
            leaf_queue.drop_head_group()
        order.refresh(leaf)
    return has_started
