"""The places where the rules may use kept findings. The classes here keep nothing, so the rules are complete alone;
:mod:`scheduling.domain.engine.fast` has others, which find what the rules would find."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduling.domain.engine.rules.groups import Judge, Shape, WaitingGroups
from scheduling.domain.engine.rules.queue_order import QueueOrder
from scheduling.domain.engine.rules.victims import HelpsStart, ReclaimVictims
from scheduling.domain.engine.state.evicted import AlikeTasks, EvictionUnit
from scheduling.domain.engine.state.records import GangState, QueueState
from scheduling.domain.engine.state.world_state import WorldState
from scheduling.domain.engine.steps import StepAction


class SearchShortcut:
    """Kept findings for one search for victims."""

    def fails(self) -> bool:
        """Whether the search is known to find nothing."""
        return False

    def needed_victims(self, tasks: AlikeTasks, helps: HelpsStart) -> Sequence[EvictionUnit] | None:
        """The evictions that the search would find and need for these tasks, which quotas let start; empty if it finds
        nothing, None if that is not known."""
        return None

    def is_over(self, evicted: int, *, found: bool) -> None:
        """The search is over; `evicted` counts its evictions on trial."""


class Shortcuts:
    """Kept findings for one world."""

    tries_first = False
    """Whether a phase first tries if an attempt for any group could succeed: in most phases none could, and then the
    order of the queues is not needed."""

    def groups(self, world: WorldState, phase: StepAction, judge: Judge) -> WaitingGroups:
        """The waiting groups that the phase tries."""
        groups = WaitingGroups()
        for leaf in world.leaves:
            groups.judge(leaf, judge(leaf) if leaf.waiting else None)
        return groups

    def start_order(self, groups: WaitingGroups, shapes: Iterable[Shape]) -> QueueOrder:
        """The order in which the groups of these shapes are served."""
        return QueueOrder(groups.pending(shapes))

    def reclaim(
        self, world: WorldState, gang: GangState, leaf: QueueState, source: ReclaimVictims, *, is_general: bool
    ) -> SearchShortcut:
        """The shortcut of a search for victims in other leaves. `is_general`: False while a reservation is in the way
        of the gang: then a failure says nothing about other gangs."""
        return SearchShortcut()

    def preempt(self, world: WorldState, gang: GangState, leaf: QueueState, *, is_general: bool) -> SearchShortcut:
        """The shortcut of a search for victims of a lower priority in the leaf."""
        return SearchShortcut()
