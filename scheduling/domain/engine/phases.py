"""The phases that move or take, for gangs below their minimum: consolidate, reclaim, preempt; and giving up.

Every gang has one turn in each phase, in the order of the queues; when one cannot be helped, nobody like it in its leaf
is tried again in the same phase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pools.domain.amounts import Number
from scheduling.domain.engine.consolidation import IsMovable, start_by_moving
from scheduling.domain.engine.eviction import EvictionResult, EvictionSearch
from scheduling.domain.engine.gates import is_within_limits, is_within_quota, may_start
from scheduling.domain.engine.nodes import Request
from scheduling.domain.engine.queue_order import QueueOrder
from scheduling.domain.engine.starting import pending_queues
from scheduling.domain.engine.state import FINISHED, RUNNING, GangState, QueueState
from scheduling.domain.engine.steps import StepAction, StepLog
from scheduling.domain.engine.victims import PreemptVictims, ReclaimVictims, is_fair_after
from scheduling.domain.engine.world import World

MAX_REMEMBERED = 8

GangFilter = Callable[[GangState, QueueState], bool]
HelpAttempt = Callable[[GangState, QueueState], tuple[EvictionSearch, EvictionResult] | None]


class InfeasibleCache:
    """What could not be helped in one phase: a gang of the same leaf and priority that asks for no less cannot be
    either, for wherever it stood, the smaller one could stand too."""

    def __init__(self) -> None:
        self._asks: dict[tuple[int, int, bool], list[list[Request]]] = {}

    def covers(self, gang: GangState, leaf: QueueState) -> bool:
        """Whether somebody who asks for less has failed already."""
        if not gang.tree.is_single_leaf or gang.has_choice:
            return False
        mine = self._profile(gang)
        return any(_asks_no_less(mine, other) for other in self._asks.get(self._key(gang, leaf), ()))

    def add(self, gang: GangState, leaf: QueueState) -> None:
        """This one could not be helped."""
        known = self._asks.setdefault(self._key(gang, leaf), [])
        if gang.tree.is_single_leaf and len(known) < MAX_REMEMBERED:
            known.append(self._profile(gang))

    @staticmethod
    def _key(gang: GangState, leaf: QueueState) -> tuple[int, int, bool]:
        return leaf.index, gang.fact.priority, gang.preemptible

    @staticmethod
    def _profile(gang: GangState) -> list[Request]:
        return sorted((gang.needs[i] for i in gang.next_tasks()), reverse=True)


def _asks_no_less(mine: list[Request], other: list[Request]) -> bool:
    if len(mine) < len(other):
        return False
    return all(
        len(a) == len(b) and all(r == s and n >= m for (r, n), (s, m) in zip(a, b, strict=True))
        for a, b in zip(mine, other, strict=False)
    )


class Phases:
    """The phases of one run; they share what was found to be hopeless."""

    def __init__(self, world: World, diary: StepLog) -> None:
        self._world, self._diary = world, diary
        self._no_moves: set[tuple[object, ...]] = set()
        """What no moving of others can help, in this phase; looked for once for all gangs alike, in whatever leaf."""

    def consolidate(self) -> bool:
        """Preemptible gangs that are stopped by the nodes alone start when others move out of their way."""

        def help_one(gang: GangState, queue: QueueState) -> tuple[EvictionSearch, EvictionResult] | None:
            return self._help_by_moving(gang, queue, lambda other: other.preemptible and other is not gang, ())

        def wanted(gang: GangState, _queue: QueueState) -> bool:
            return gang.preemptible and self._world.nodes is not None and self._world.has_free_total(gang.next_request)

        return self._help_each(wanted, help_one, StepAction.MOVE)

    def reclaim(self) -> bool:
        """A leaf inside its fair share takes back what other leaves have borrowed."""
        world = self._world

        def help_one(gang: GangState, queue: QueueState) -> tuple[EvictionSearch, EvictionResult] | None:
            ask = gang.next_request
            if not _is_inside_fair_share(gang, queue):
                return None
            moved = self._help_by_moving(gang, queue, lambda other: other.preemptible and other.queue is not queue, ())
            if moved is not None:
                return moved
            taking = EvictionSearch(world, gang)
            taken = taking.find_victims(
                ReclaimVictims(world, queue, ask), lambda taken: is_fair_after(queue, ask, taken.evicted_by_leaf())
            )
            return None if taken is None else (taking, taken)

        return self._help_each(_is_inside_fair_share, help_one, StepAction.RECLAIM)

    def preempt(self) -> bool:
        """Inside a leaf, a higher priority takes the place of a lower one."""
        world = self._world

        def help_one(gang: GangState, queue: QueueState) -> tuple[EvictionSearch, EvictionResult] | None:
            priority = gang.fact.priority

            def lower(other: GangState) -> bool:
                return other.preemptible and other.queue is queue and other.fact.priority < priority

            moved = self._help_by_moving(gang, queue, lower, (queue.index, priority), queue.running or ())
            if moved is not None:
                return moved
            taking = EvictionSearch(world, gang)
            before = [list(above.alloc) for above in queue.path]
            taken = taking.find_victims(
                PreemptVictims(world, queue, priority),
                lambda _taken: not gang.preemptible or _borrows_no_more(queue, before),
            )
            return None if taken is None else (taking, taken)

        def wanted(gang: GangState, queue: QueueState) -> bool:
            # What runs stands by priority, the lowest last.
            last = next(reversed(queue.running), None) if queue.running is not None else None
            return last is not None and last.fact.priority < gang.fact.priority

        return self._help_each(wanted, help_one, StepAction.PREEMPT)

    def give_up(self) -> bool:
        """Gangs that are below their minimum let go of what they hold. What is on its way out counts as still there; a
        gang of which something has ended well already is on its way to its end, not stale."""
        given = False
        for gang in self._world.gangs:
            if not any(gang.active) or FINISHED in gang.status:
                continue
            used = [a + r for a, r in zip(gang.active, gang.released, strict=True)]
            if gang.tree.is_satisfied(used):
                continue
            tasks = [i for i, status in enumerate(gang.status) if status == RUNNING]
            self._diary.record(StepAction.GIVE_UP, gang, tasks)
            self._world.stop(gang, tasks)
            self._world.journal.clear()
            self._world.update_lists(gang)
            given = True
        return given

    def _help_each(self, wanted: GangFilter, help_one: HelpAttempt, action: StepAction) -> bool:
        self._no_moves.clear()
        lines = pending_queues(
            self._world,
            lambda gang, queue: wanted(gang, queue) and not gang.is_satisfied and _is_worth_trying(gang, queue),
        )
        order, hopeless = QueueOrder(lines), InfeasibleCache()
        helped = False
        while (leaf := order.next_leaf()) is not None:
            line = lines[leaf.index]
            gang = line.head()
            if gang is None:
                break
            solution = None if hopeless.covers(gang, leaf) else help_one(gang, leaf)
            if solution is None:
                hopeless.add(gang, leaf)
                line.drop_head_group()
                order.refresh(leaf)
                continue
            helped = True
            line.advance()
            taking, taken = solution
            for queue in taking.commit(taken, action, self._diary):
                order.refresh(queue)
        return helped

    def _help_by_moving(
        self,
        gang: GangState,
        queue: QueueState,
        movable: IsMovable,
        scope: tuple[object, ...],
        among: Iterable[GangState] | None = None,
    ) -> tuple[EvictionSearch, EvictionResult] | None:
        world = self._world
        if world.nodes is None or not world.has_free_total(gang.next_request):
            return None
        if not may_start(world, queue, gang.next_request, preemptible=gang.preemptible):
            return None
        key = (*scope, gang.signature)
        if key in self._no_moves:
            return None
        taking = EvictionSearch(world, gang)
        taken = start_by_moving(taking, movable, among)
        if taken is None:
            self._no_moves.add(key)
            return None
        return taking, taken


def _borrows_no_more(queue: QueueState, before: Sequence[Sequence[Number]]) -> bool:
    """Whether no queue on the path is further above its allocatable share than before.

    Without this, preemptible work that takes the place of smaller work goes beyond the share, is reclaimed by the next
    queue, preempts again, and two queues take each other's work for ever.
    """
    for above, held in zip(queue.path, before, strict=True):
        for now, then, most in zip(above.alloc, held, above.allocatable, strict=True):
            if now > most and now > then:
                return False
    return True


def _is_worth_trying(gang: GangState, queue: QueueState) -> bool:
    """Whether anybody's leaving could help: the gang has its pods, and neither a limit nor such work forbids it."""
    if not (queue.open and gang.is_complete and is_within_limits(queue, gang.next_request)):
        return False
    return gang.preemptible or is_within_quota(queue, gang.next_request)


def _is_inside_fair_share(gang: GangState, queue: QueueState) -> bool:
    """KAI's gate before a reclaim: with the gang, the leaf is at most at its fair share in every resource."""
    after = list(queue.alloc)
    for r, amount in gang.next_request:
        after[r] += amount
    return all(have <= fair for have, fair in zip(after, queue.fair, strict=True))
