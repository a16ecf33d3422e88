"""The shortcuts of one world, each of which gives the answer that the rules would give without it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from scheduling.domain.engine.fast.kept_groups import KeptGroups, KeptQueueOrder, PhaseGroups
from scheduling.domain.engine.fast.loss_tables import LossTables
from scheduling.domain.engine.fast.outlook import PreemptOutlook, ReclaimOutlook
from scheduling.domain.engine.fast.vacancies import Vacancies
from scheduling.domain.engine.rules.groups import Judge, Shape, WaitingGroups
from scheduling.domain.engine.rules.queue_order import QueueOrder
from scheduling.domain.engine.rules.shortcuts import SearchShortcut, Shortcuts
from scheduling.domain.engine.rules.vacancy import MovableGangs, Vacancy
from scheduling.domain.engine.rules.victims import ReclaimVictims
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.state.nodes import Request
from scheduling.domain.engine.state.records import GangState, QueueState
from scheduling.domain.engine.state.world_state import TaskChange, WorldState
from scheduling.domain.engine.steps import StepAction

GROUPS, ORDER, IDLE, ASK_FIRST = "groups", "order", "idle", "ask_first"
LOOK_AHEAD, VACANCIES = "look_ahead", "vacancies"
PIECES = frozenset({GROUPS, ORDER, IDLE, ASK_FIRST, LOOK_AHEAD, VACANCIES})
"""The pieces, each of which can be left out, to measure what it gives."""


def accelerate(world: World, pieces: Collection[str] = PIECES) -> World:
    """Give the world its shortcuts, or only these pieces of them."""
    world.shortcuts = FastShortcuts(world, pieces)
    world.watchers.append(world.shortcuts)
    return world


class FastShortcuts(Shortcuts):
    """Keeps what it found until a change that may make it untrue."""

    def __init__(self, world: World, pieces: Collection[str]) -> None:
        self._groups = PhaseGroups(world) if GROUPS in pieces else None
        self._tables = LossTables(world) if LOOK_AHEAD in pieces else None
        self._vacancies = Vacancies() if VACANCIES in pieces else None
        self._keeps_order, self._knows_idle = ORDER in pieces, IDLE in pieces
        self.asks_first = ASK_FIRST in pieces
        self._idle_in: dict[StepAction, int] = {}
        """The version of the world in which each phase found nothing to do."""
        self._watchers = [each for each in (self._groups, self._tables) if each is not None]

    # -- events ------------------------------------------------------------------------------------------------------

    def came(self, world: WorldState, gang: GangState) -> None:
        """A gang is there now."""
        for watcher in self._watchers:
            watcher.came(world, gang)

    def leaves(self, world: WorldState, gang: GangState) -> None:
        """A gang is about to leave."""
        for watcher in self._watchers:
            watcher.leaves(world, gang)

    def tasks_changed(self, world: WorldState, changes: Sequence[TaskChange]) -> None:
        """Tasks started or stopped."""
        for watcher in self._watchers:
            watcher.tasks_changed(world, changes)

    def share_changed(self, world: WorldState, queue: QueueState) -> None:
        """A queue has another fair share."""
        for watcher in self._watchers:
            watcher.share_changed(world, queue)

    # -- questions ---------------------------------------------------------------------------------------------------

    def is_idle(self, world: WorldState, phase: StepAction) -> bool:
        """Whether the phase has found nothing to do in this very state."""
        return self._knows_idle and self._idle_in.get(phase) == world.version

    def found_nothing(self, world: WorldState, phase: StepAction) -> None:
        """The phase found nothing to do in this state."""
        self._idle_in[phase] = world.version

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

    def vacancy(self, world: WorldState, node: int, request: Request, movable: MovableGangs) -> Vacancy | None:
        """The kept finding, if nothing on the node has changed."""
        if self._vacancies is None:
            return super().vacancy(world, node, request, movable)
        return self._vacancies.vacancy(world, node, request, movable)

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
