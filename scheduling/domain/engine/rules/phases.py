"""The phases with moves and evictions: consolidate, reclaim, preempt; and giving up.

An attempt starts the minimum of a gang, or one more pod of a gang that has its minimum (design, K4, K6: an elastic
pod has the same rights as a minimum, and competes again for the next pod). A gang whose attempt fails has no other one
in the phase, nor has any interchangeable gang of its leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pools.domain.values.amounts import Number
from scheduling.domain.engine.rules.consolidation import MovableGangs, start_by_moving
from scheduling.domain.engine.rules.eviction import EvictionSearch
from scheduling.domain.engine.rules.gates import (
    firm_room,
    fits_in,
    is_within_limits,
    is_within_quota,
    may_start,
    most_at_once,
)
from scheduling.domain.engine.rules.groups import ANY_SHAPE, GroupJudge, Judge, Shape, WaitingGroups
from scheduling.domain.engine.rules.queue_order import QueueOrder
from scheduling.domain.engine.rules.shortcuts import SearchShortcut
from scheduling.domain.engine.rules.starting import ChoiceOrder, attempt_start, is_over_quota
from scheduling.domain.engine.rules.victims import (
    AcceptResult,
    EvictionResult,
    GuestVictims,
    PreemptVictims,
    ReclaimVictims,
    VictimSource,
    is_fair_after,
)
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.state.kinds import counted_resources
from scheduling.domain.engine.state.nodes import Request
from scheduling.domain.engine.state.records import FINISHED, RUNNING, GangState, QueueState
from scheduling.domain.engine.steps import EvictionRule, StepAction, StepLog

MAX_REMEMBERED = 8
"""The most failed gangs of one leaf and priority that are remembered."""

Solution = tuple[EvictionSearch, EvictionResult]
HelpAttempt = Callable[[GangState, QueueState], Solution | None]
MayHelp = Callable[[GangState, QueueState], bool]
"""Whether an attempt could succeed in the state at the beginning of the phase; True where that is not known."""


class FailedGangs:
    """Gangs that could not start in one phase. A gang of the same leaf and priority that requests no less is not tried
    either: wherever it fits, the smaller one would fit too. After evictions for another gang it could overtake the
    smaller one."""

    def __init__(self) -> None:
        self._failed: dict[tuple[int, int, bool], list[list[Request]]] = {}

    def covers(self, gang: GangState, leaf: QueueState) -> bool:
        """Whether a gang with no larger request has failed already."""
        if not gang.tree.is_single_leaf or gang.has_choice:
            return False
        mine = self._profile(gang)
        return any(_requests_no_less(mine, other) for other in self._failed.get(self._key(gang, leaf), ()))

    def add(self, gang: GangState, leaf: QueueState) -> None:
        """Remember a gang that could not start."""
        known = self._failed.setdefault(self._key(gang, leaf), [])
        if gang.tree.is_single_leaf and len(known) < MAX_REMEMBERED:
            known.append(self._profile(gang))

    @staticmethod
    def _key(gang: GangState, leaf: QueueState) -> tuple[int, int, bool]:
        return leaf.index, gang.fact.priority, gang.preemptible

    @staticmethod
    def _profile(gang: GangState) -> list[Request]:
        return sorted((gang.needs[i] for i in gang.next_tasks()), reverse=True)


def _requests_no_less(mine: list[Request], other: list[Request]) -> bool:
    if len(mine) < len(other):
        return False
    return all(
        len(a) == len(b) and all(r == s and n >= m for (r, n), (s, m) in zip(a, b, strict=True))
        for a, b in zip(mine, other, strict=False)
    )


class Phases:
    """The phases of one cycle."""

    def __init__(self, world: World, step_log: StepLog, choices: ChoiceOrder | None = None) -> None:
        self._world, self._step_log = world, step_log
        self._choices = choices or ChoiceOrder()
        self._no_moves: set[tuple[object, ...]] = set()
        """Keys of gangs that no moves can help in this phase; interchangeable gangs of all leaves share one search."""

    def consolidate(self) -> bool:
        """Start preemptible gangs that only the nodes block, by moving other gangs."""

        def judge(leaf: QueueState) -> tuple[Any, GroupJudge] | None:
            bounds, is_worth_it = _worth_in(self._world, leaf)
            return bounds, lambda gang: gang.next_request if gang.preemptible and is_worth_it(gang) else None

        world = self._world

        def has_free_total(request: Shape) -> bool:
            return world.nodes is not None and world.has_free_total(request)

        return self._help_each(StepAction.MOVE, judge, has_free_total, self._move_for)

    def reclaim(self) -> bool:
        """Start gangs of leaves inside their fair share with GPUs that other leaves have borrowed."""

        def judge(leaf: QueueState) -> tuple[Any, GroupJudge] | None:
            room = [fair - have for fair, have in zip(leaf.fair, leaf.alloc, strict=True)]
            if leaf.kinds < 2 and min(room, default=0) < 0:
                return None
            bounds, is_worth_it = _worth_in(self._world, leaf)

            def judge_group(gang: GangState) -> Shape | None:
                request = gang.next_request
                if leaf.kinds > 1:
                    counted = counted_resources(leaf, request) or range(len(room))
                    if any(room[r] < 0 for r in counted):
                        return None
                return ANY_SHAPE if fits_in(room, request) and is_worth_it(gang) else None

            return (room, bounds), judge_group

        def may_help(gang: GangState, queue: QueueState) -> bool:
            return self._may_move(gang, queue) or self._would_find(self._reclaim_victims, gang, queue)

        return self._help_each(StepAction.RECLAIM, judge, lambda _shape: True, self._reclaim_for, may_help)

    def preempt(self) -> bool:
        """Start gangs of a higher priority in place of lower ones of the same leaf."""

        def judge(leaf: QueueState) -> tuple[Any, GroupJudge] | None:
            # Running gangs are sorted by priority, the lowest last.
            last = next(reversed(leaf.running), None) if leaf.running is not None else None
            if last is None:
                return None
            lowest, (bounds, is_worth_it) = last.fact.priority, _worth_in(self._world, leaf)

            def judge_group(gang: GangState) -> Shape | None:
                return ANY_SHAPE if lowest < gang.fact.priority and is_worth_it(gang) else None

            return (lowest, bounds), judge_group

        def may_help(gang: GangState, queue: QueueState) -> bool:
            return self._may_move(gang, queue) or self._would_find(self._preempt_victims, gang, queue)

        return self._help_each(StepAction.PREEMPT, judge, lambda _shape: True, self._preempt_for, may_help)

    def take_back(self) -> bool:
        """Start reserved gangs whose nodes are free but for guests, and for lower work of their own leaf."""
        world, policy = self._world, self._world.policy
        has_started = False
        for gang, queue, guests in () if policy is None else policy.taking_back():
            if not _is_worth_trying(gang, queue) or not any(gang.waiting) or gang.is_running:
                continue
            search = EvictionSearch(world, gang)
            source = GuestVictims(world, queue, gang, guests)
            result = None
            if policy is not None and policy.begin_attempt(gang):
                accept = partial(_is_fair_but_for, guests, queue, gang.next_request)
                result = search.find_victims(source, accept)
            if policy is not None:
                policy.end_attempt()
            if result is not None:
                search.commit(result, StepAction.PREEMPT, self._step_log, EvictionRule.RESERVATION)
                has_started = True
        return has_started

    def give_up(self) -> bool:
        """Stop gangs that are below their minimum. Releasing tasks still count; a gang with completed tasks is about to
        end and is left alone."""
        has_stopped = False
        for _name, gang in sorted(self._world.incomplete.items()):
            if FINISHED in gang.status:
                continue
            used = [a + r for a, r in zip(gang.active, gang.released, strict=True)]
            if gang.tree.is_satisfied(used):
                continue
            tasks = [i for i, status in enumerate(gang.status) if status == RUNNING]
            self._step_log.record(StepAction.GIVE_UP, gang, tasks)
            self._world.stop(gang, tasks)
            self._world.make_final()
            has_stopped = True
        return has_stopped

    def would_start(self, gang: GangState, queue: QueueState, *, inside_quota: bool = False) -> bool:
        """Whether the next pass would start the gang, were it tried first, and with `inside_quota` without borrowing;
        the state stays as it is."""
        world, policy = self._world, self._world.policy
        if not _is_worth_trying(gang, queue):
            return False
        self._no_moves.clear()
        before = world.mark()
        for attempt in self._attempts_worth_it(gang, queue):
            in_place = attempt == self._preempt_for
            is_free = policy is None or policy.begin_attempt(gang, in_place=in_place)
            has_started = is_free and bool(attempt(gang, queue))
            has_started = has_started and not (inside_quota and is_over_quota(gang, queue))
            world.undo(before)
            if policy is not None:
                policy.end_attempt()
            if has_started:
                return True
        return False

    def _attempts_worth_it(
        self, gang: GangState, queue: QueueState
    ) -> Iterator[Callable[[GangState, QueueState], object]]:
        """The phases in their order, without those that cannot help this gang."""
        policy, priority = self._world.policy, gang.fact.priority
        yield self._start_for
        if gang.preemptible:
            yield self._move_for
        if _is_inside_fair_share(gang, queue):
            yield self._reclaim_for
        # With reservations it may use the place of lower work without an eviction now.
        is_held = policy is not None and policy.has_reservations
        if is_held or any(other.fact.priority < priority for other in queue.running or ()):
            yield self._preempt_for

    # -- attempts for one gang ---------------------------------------------------------------------------------------

    def _start_for(self, gang: GangState, _queue: QueueState) -> list[int]:
        return attempt_start(self._world, gang)

    def _move_for(self, gang: GangState, queue: QueueState) -> Solution | None:
        """By moves of other gangs; for preemptible gangs."""
        movable = MovableGangs(lambda other: other.preemptible and other is not gang)
        return self._help_by_moving(gang, queue, movable, ()) if gang.preemptible else None

    def _reclaim_for(self, gang: GangState, queue: QueueState) -> Solution | None:
        """By a reclaim from other leaves."""
        if not _is_inside_fair_share(gang, queue):
            return None
        movable = MovableGangs(lambda other: other.preemptible and other.queue is not queue)
        return self._help_by_moving(gang, queue, movable, ()) or self._reclaim_victims(gang, queue)

    def _reclaim_victims(self, gang: GangState, queue: QueueState) -> Solution | None:
        world, request = self._world, gang.next_request

        def accept(result: EvictionResult) -> bool:
            return is_fair_after(queue, request, result.evicted_by_leaf())

        source = ReclaimVictims(world, queue, request)
        shortcut = world.shortcuts.reclaim(world, gang, queue, source, is_general=self._is_general())
        return self._search_victims(gang, source, accept, shortcut)

    def _preempt_for(self, gang: GangState, queue: QueueState) -> Solution | None:
        """By a preemption of lower work of its leaf."""
        priority = gang.fact.priority

        def lower(other: GangState) -> bool:
            return other.preemptible and other.queue is queue and other.fact.priority < priority

        used = {node for other in queue.running or () if lower(other) for node in other.node}
        found = self._help_by_moving(gang, queue, MovableGangs(lower, used), (queue.index, priority))
        if found is not None and not self._leaves_quota():
            found[0].undo()
            found = None
        return found or self._preempt_victims(gang, queue)

    def _preempt_victims(self, gang: GangState, queue: QueueState) -> Solution | None:
        world, before = self._world, [list(above.alloc) for above in queue.path]

        def accept(_result: EvictionResult) -> bool:
            return self._leaves_quota() and (not gang.preemptible or _keeps_borrowing_bounded(queue, before))

        source = PreemptVictims(world, queue, gang.fact.priority)
        shortcut = world.shortcuts.preempt(world, gang, queue, is_general=self._is_general())
        return self._search_victims(gang, source, accept, shortcut)

    def _search_victims(
        self, gang: GangState, source: VictimSource, accept: AcceptResult, shortcut: SearchShortcut
    ) -> Solution | None:
        search = EvictionSearch(self._world, gang)
        result = search.find_victims(source, accept, shortcut)
        return None if result is None else (search, result)

    def _leaves_quota(self) -> bool:
        return self._world.policy is None or self._world.policy.leaves_quota()

    def _help_each(
        self,
        action: StepAction,
        judge: Judge,
        is_possible: Callable[[Shape], bool],
        help_one: HelpAttempt,
        may_help: MayHelp | None = None,
    ) -> bool:
        world, shortcuts = self._world, self._world.shortcuts
        in_place = action is StepAction.PREEMPT
        self._no_moves.clear()
        groups = shortcuts.groups(world, action, judge)
        shapes = [shape for shape in groups.shapes() if is_possible(shape)]
        if shortcuts.tries_first and may_help and not self._may_help_any(may_help, groups, shapes, in_place=in_place):
            return False
        pending = groups.pending(shapes)
        order, failed, policy = QueueOrder(pending), FailedGangs(), world.policy
        helped = False
        while (leaf := order.next_leaf()) is not None:
            leaf_queue = pending[leaf.index]
            gang = leaf_queue.head()
            if gang is None:
                break
            if gang.choices and self._choices.waits_for_earlier(gang, leaf):
                leaf_queue.advance()
                order.refresh(leaf)
                continue
            # The phase itself has filled queues since the filter.
            is_worth_it = _is_worth_trying(gang, leaf) and not failed.covers(gang, leaf)
            is_held_back = is_worth_it and policy is not None and not policy.begin_attempt(gang, in_place=in_place)
            solution = help_one(gang, leaf) if is_worth_it and not is_held_back else None
            is_general = not is_held_back
            if policy is not None:
                # Where a reservation is in the way, other gangs may still start.
                is_general = is_general and not policy.is_withholding
                policy.end_attempt()
            if solution is not None and gang.choices:
                gang, solution = self._better_choice(gang, leaf, solution, help_one, in_place=in_place)
            if solution is None:
                if is_general:
                    failed.add(gang, leaf)
                leaf_queue.drop_head_group()
                order.refresh(leaf)
                continue
            helped = True
            leaf_queue.advance()
            search, result = solution
            changed = search.commit(result, action, self._step_log)
            if any(gang.waiting):
                leaf_queue.requeue(gang)
            for queue in changed:
                order.refresh(queue)
        return helped

    def _better_choice(
        self, gang: GangState, leaf: QueueState, solution: Solution, help_one: HelpAttempt, *, in_place: bool
    ) -> tuple[GangState, Solution | None]:
        """The solution, or one in another choice of the gang: without moves and evictions, or inside the quota, where
        the switches want that first."""
        search, result = solution
        if sum(gang.active) > len(result.started):
            return gang, solution  # it had this choice already
        needs_room = bool(result.evicted or result.moved) and self._choices.prefers_free(leaf)
        borrows = self._choices.prefers_quota(leaf) and is_over_quota(gang, leaf)
        if not (needs_room or borrows):
            return gang, solution
        search.undo()

        def help_it(each: GangState) -> Solution | None:
            return help_one(each, leaf) if _is_worth_trying(each, leaf) else None

        for each in gang.choices if needs_room else ():
            found = self._tried(each, self._start_freely)
            if found is not None:
                return each, found
        for each in gang.choices[gang.choice + 1 :] if borrows else ():
            found = self._tried(each, help_it, in_place=in_place)
            if found is not None:
                if not is_over_quota(each, leaf):
                    return each, found
                found[0].undo()
        return gang, self._tried(gang, help_it, in_place=in_place)

    def _start_freely(self, gang: GangState) -> Solution | None:
        """Without moves and evictions."""
        search = EvictionSearch(self._world, gang)
        result = search.finish((), lambda _result: True)
        return None if result is None else (search, result)

    def _tried(
        self, gang: GangState, attempt: Callable[[GangState], Solution | None], *, in_place: bool = False
    ) -> Solution | None:
        """The result of an attempt for the gang, next to what is reserved against it."""
        policy = self._world.policy
        if policy is None:
            return attempt(gang)
        found = attempt(gang) if policy.begin_attempt(gang, in_place=in_place) else None
        policy.end_attempt()
        return found

    def _may_help_any(
        self, may_help: MayHelp, groups: WaitingGroups, shapes: Sequence[Shape], *, in_place: bool
    ) -> bool:
        """Whether an attempt for some group could succeed now. Reservations hold back what they hold back later."""
        policy = self._world.policy
        if policy is None:
            return any(may_help(gang, leaf) for gang, leaf in groups.groups(shapes))
        with policy.preview():
            for gang, leaf in groups.groups(shapes):
                is_possible = policy.begin_attempt(gang, in_place=in_place) and may_help(gang, leaf)
                policy.end_attempt()
                if is_possible:
                    return True
        return False

    def _would_find(self, attempt: HelpAttempt, gang: GangState, queue: QueueState) -> bool:
        found = attempt(gang, queue)
        if found is not None:
            found[0].undo()
        return found is not None

    def _is_general(self) -> bool:
        """Whether no reservation is in the way of the gang that is tried: where it fails, others of its kind do."""
        return self._world.policy is None or not self._world.policy.is_withholding

    def _may_move(self, gang: GangState, queue: QueueState) -> bool:
        """Whether moves of other work could let the gang start."""
        world = self._world
        if world.nodes is None or not world.has_free_total(gang.next_request):
            return False
        return may_start(world, queue, gang.next_request, preemptible=gang.preemptible)

    def _help_by_moving(
        self,
        gang: GangState,
        queue: QueueState,
        movable: MovableGangs,
        scope: tuple[object, ...],
    ) -> Solution | None:
        world = self._world
        if not self._may_move(gang, queue):
            return None
        key = (*scope, gang.signature)
        if key in self._no_moves:
            return None
        search = EvictionSearch(world, gang)
        result = start_by_moving(search, movable)
        if result is None:
            if self._is_general():
                self._no_moves.add(key)
            return None
        return search, result


def _is_fair_but_for(guests: Sequence[GangState], queue: QueueState, request: Request, result: EvictionResult) -> bool:
    """Whether a reclaim may evict what was evicted, apart from guests and work of the leaf itself."""
    others = [entry for entry in result.evicted if entry[0] not in guests and entry[0].queue is not queue]
    return is_fair_after(queue, request, replace(result, evicted=others).evicted_by_leaf())


def _keeps_borrowing_bounded(queue: QueueState, before: Sequence[Sequence[Number]]) -> bool:
    """Whether no queue on the path is further above its allocatable share than before.

    Without this rule, preemptible work that replaces smaller work exceeds the share, is reclaimed by the next queue,
    preempts again, and two queues evict each other's work forever.
    """
    for above, held in zip(queue.path, before, strict=True):
        for now, then, most in zip(above.alloc, held, above.allocatable, strict=True):
            if now > most and now > then:
                return False
    return True


def _is_worth_trying(gang: GangState, queue: QueueState) -> bool:
    """Whether evictions could help: the gang has its pods, and neither limits nor non-preemptible work forbid it."""
    if not (queue.is_open and gang.is_complete and is_within_limits(queue, gang.next_request)):
        return False
    return gang.preemptible or is_within_quota(queue, gang.next_request)


def _worth_in(world: World, leaf: QueueState) -> tuple[Any, Callable[[GangState], bool]]:
    """The bounds of one leaf, and `_is_worth_trying` for its gangs by them."""
    if not leaf.is_open:
        return None, lambda _gang: False
    most, firm = most_at_once(leaf), firm_room(leaf)

    def is_worth_it(gang: GangState) -> bool:
        request = gang.next_request
        is_worth = fits_in(most, request) and (gang.preemptible or fits_in(firm, request)) and gang.is_complete
        return is_worth and (not gang.choices or world.feasibility.is_possible_choice(gang, leaf))

    return (most, firm), is_worth_it


def _is_inside_fair_share(gang: GangState, queue: QueueState) -> bool:
    """KAI's condition of a reclaim: with the gang, the leaf is at most at its fair share in every resource that
    counts."""
    after = list(queue.alloc)
    for r, amount in gang.next_request:
        after[r] += amount
    which = counted_resources(queue, gang.next_request) if queue.kinds > 1 else None
    if which is not None:
        return all(after[r] <= queue.fair[r] for r in which)
    return all(have <= fair for have, fair in zip(after, queue.fair, strict=True))
