"""The shortcuts of one world. Each of them finds what the rules find without it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from scheduling.domain.engine.fast.kept_groups import KeptGroups, KeptQueueOrder, PhaseGroups
from scheduling.domain.engine.fast.loss_tables import LossTables
from scheduling.domain.engine.fast.outlook import PreemptOutlook, ReclaimOutlook
from scheduling.domain.engine.rules.groups import Judge, Shape, WaitingGroups
from scheduling.domain.engine.rules.queue_order import QueueOrder
from scheduling.domain.engine.rules.shortcuts import SearchShortcut, Shortcuts
from scheduling.domain.engine.rules.victims import ReclaimVictims
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.state.records import GangState, QueueState
from scheduling.domain.engine.state.world_state import WorldState
from scheduling.domain.engine.steps import StepAction

GROUPS, ORDER, TRY_FIRST, LOOK_AHEAD = "groups", "order", "try_first", "look_ahead"
PIECES = frozenset({GROUPS, ORDER, TRY_FIRST, LOOK_AHEAD})
"""The pieces, each of which can be left out, to measure what it gives."""


def accelerate(world: World, pieces: Collection[str] = PIECES) -> World:
    """Give the world its shortcuts, or only these pieces of them."""
    world.shortcuts = FastShortcuts(world, pieces)
    return world


class FastShortcuts(Shortcuts):
    """Keeps what it found until a change that may make it untrue."""

    def __init__(self, world: World, pieces: Collection[str]) -> None:
        self._groups = PhaseGroups(world) if GROUPS in pieces else None
        self._tables = LossTables(world) if LOOK_AHEAD in pieces else None
        self._keeps_order = ORDER in pieces
        self.tries_first = TRY_FIRST in pieces
        world.watchers += [each for each in (self._groups, self._tables) if each is not None]

    def groups(self, world: WorldState, phase: StepAction, judge: Judge) -> WaitingGroups:
        """The kept groups, judged again where something changed."""
        if self._groups is None:
            return super().groups(world, phase, judge)
        groups = self._groups.of[phase]
        groups.update(judge)
        return groups

    def start_order(self, groups: WaitingGroups, shapes: Iterable[Shape]) -> QueueOrder:
        """The order that looks into a queue when its turn comes."""
        if self._keeps_order and isinstance(groups, KeptGroups):
            return KeptQueueOrder(groups, frozenset(shapes))
        return super().start_order(groups, shapes)

    def reclaim(
        self, world: WorldState, gang: GangState, leaf: QueueState, source: ReclaimVictims, *, is_general: bool
    ) -> SearchShortcut:
        """Looks ahead on sums."""
        if self._tables is None:
            return super().reclaim(world, gang, leaf, source, is_general=is_general)
        return ReclaimOutlook(self._tables, world, gang, leaf, source, is_general=is_general)

    def preempt(self, world: WorldState, gang: GangState, leaf: QueueState, *, is_general: bool) -> SearchShortcut:
        """Looks ahead on sums."""
        if self._tables is None:
            return super().preempt(world, gang, leaf, is_general=is_general)
        return PreemptOutlook(self._tables, world, gang, leaf, is_general=is_general)
