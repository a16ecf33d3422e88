"""Where the rules let something else answer first. Everything here answers nothing, so the rules are complete alone;
what answers sooner (:mod:`scheduling.domain.engine.fast`) gives the answer that they would give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from scheduling.domain.engine.rules.groups import Judge, Shape, WaitingGroups
from scheduling.domain.engine.rules.queue_order import QueueOrder
from scheduling.domain.engine.rules.vacancy import MovableGangs, Vacancy, find_vacancy
from scheduling.domain.engine.rules.victims import HelpsStart, ReclaimVictims
from scheduling.domain.engine.state.evicted import AlikeTasks, EvictionUnit
from scheduling.domain.engine.state.nodes import Request
from scheduling.domain.engine.state.records import GangState, QueueState
from scheduling.domain.engine.state.world_state import Watcher, WorldState
from scheduling.domain.engine.steps import StepAction


class SearchShortcut:
    """Of one search for victims."""

    def fails(self, helps: Callable[[], HelpsStart]) -> bool:
        """Whether the search is known to find nothing. `helps` makes the test for victims that help."""
        return False

    def needed_victims(self, tasks: AlikeTasks, helps: HelpsStart) -> Sequence[EvictionUnit] | None:
        """The evictions that the search would find and need for these tasks, which quotas let start; empty if it finds
        nothing, None if that is not known."""
        return None

    def is_over(self, evicted: int, *, found: bool) -> None:
        """The search has evicted so many units on trial, and found victims or not."""


class Shortcuts(Watcher):
    """Of one world, whose watcher it may be."""

    asks_first = False
    """Whether a phase asks first if an attempt for any group could succeed: most phases have none, and then the order
    of the queues is not needed."""

    def is_idle(self, world: WorldState, phase: StepAction) -> bool:
        """Whether the phase has found nothing to do in this very state."""
        return False

    def found_nothing(self, world: WorldState, phase: StepAction) -> None:
        """The phase found nothing to do in this state."""

    def groups(self, world: WorldState, phase: StepAction, judge: Judge) -> WaitingGroups:
        """The waiting groups that the phase tries."""
        groups = WaitingGroups()
        for leaf in world.leaves:
            groups.judge(leaf, judge(leaf) if leaf.waiting else None)
        return groups

    def start_order(self, groups: WaitingGroups, shapes: Iterable[Shape]) -> QueueOrder:
        """The order in which the groups of these shapes are served."""
        return QueueOrder(groups.pending(shapes))

    def vacancy(self, world: WorldState, node: int, request: Request, movable: MovableGangs) -> Vacancy | None:
        """How the node could be vacated for the request; None if it could not."""
        return find_vacancy(world, node, request, movable)

    def reclaim(
        self, world: WorldState, gang: GangState, leaf: QueueState, source: ReclaimVictims, *, is_general: bool
    ) -> SearchShortcut:
        """For the search of victims in other leaves. `is_general`: False while a reservation is in its way, so that the
        search may fail where others of its kind succeed."""
        return SearchShortcut()

    def preempt(self, world: WorldState, gang: GangState, leaf: QueueState, *, is_general: bool) -> SearchShortcut:
        """For the search of victims of a lower priority in the leaf."""
        return SearchShortcut()
