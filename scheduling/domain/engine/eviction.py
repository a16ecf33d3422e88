"""Taking places away: the fewest victims that let a gang start, and new places for those that fit elsewhere.

Victims are taken in order until the gang starts; then, from the last taken back, everybody who is not needed returns.
If more than one gang lost its core, fewer are looked for: one, then two, in the same order, never one of a higher
priority than those already found. What is taken and still fits elsewhere moves and counts as no loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import Protocol

from pools.domain.amounts import Number
from scheduling.domain.engine.gates import passes
from scheduling.domain.engine.nodes import NOWHERE, Request
from scheduling.domain.engine.starting import attempt
from scheduling.domain.engine.state import RUNNING, WAITING, GangState, QueueState, total_of
from scheduling.domain.engine.steps import Action, Diary
from scheduling.domain.engine.victims import Helps, Unit, next_unit
from scheduling.domain.engine.world import World

MOST_SINGLES, MOST_PAIRED = 200, 24
"""How far down the order the search for one victim, and for two, looks."""

TRIALS = 60
"""How many sets of victims are tried in the search for fewer; the first set stands when they are used up."""


@dataclass(slots=True)
class Taken:
    """What a solution did: the tasks the gang started, the tasks that moved, the tasks that were lost."""

    started: list[int]
    moved: list[tuple[GangState, list[int]]] = field(default_factory=list)
    lost: list[tuple[GangState, list[int]]] = field(default_factory=list)

    def lost_by_leaf(self) -> list[tuple[QueueState, Request]]:
        """What each leaf lost for good."""
        return [
            (gang.queue, total_of([gang.requests[i] for i in tasks]))
            for gang, tasks in self.lost
            if gang.queue is not None
        ]


Accept = Callable[[Taken], bool]


class Source(Protocol):
    """Where victims come from."""

    def take(self, helps: Helps | None) -> Unit | None:
        """Let the next victim that helps give up one unit; None when nobody is left who may be asked."""

    def pool(self) -> Iterable[GangState]:
        """Everybody who may be asked, in order, as things stand before anything was taken."""

    def allows(self, gang: GangState) -> bool:
        """Whether this gang may be asked for its next unit, as things stand now."""


class _Room:
    """Where taking could make room for a gang: on nodes that would have it if all left that may be taken."""

    def __init__(self, world: World, gang: GangState) -> None:
        self._nodes, self._firm = world.nodes, world.firm
        chooses = gang.may_choose
        tasks = [i for i, status in enumerate(gang.status) if status == WAITING] if chooses else gang.next_tasks()
        self._needs = {gang.needs[i] for i in tasks}
        self.hopeless = (
            not chooses and self._firm is not None and any(self._firm.tightest(need) == NOWHERE for need in self._needs)
        )
        self._known: dict[int, bool] = {}

    def helps(self, gang: GangState) -> bool:
        """Whether something of the gang stands where a task could stand instead."""
        return self._firm is None or any(self._could_stand(node) for node in gang.node if node != NOWHERE)

    def _could_stand(self, node: int) -> bool:
        known = self._known.get(node)
        if known is None:
            firm = self._firm
            known = self._known[node] = firm is not None and any(firm.fits(node, need) for need in self._needs)
        return known

    def opened(self, unit: Unit) -> bool:
        """Whether there is room for a task where the unit stood, which has just left."""
        nodes = self._nodes
        return nodes is None or any(
            nodes.fits(node, need) for node in unit.nodes if node != NOWHERE for need in self._needs
        )


class Taking:
    """The search for one gang. Everything is undone when it fails."""

    def __init__(self, world: World, gang: GangState) -> None:
        self.world, self.gang, self.ask = world, gang, gang.ask
        self._mark = world.mark()

    def fits(self) -> bool:
        """Whether the gang could start as things stand."""
        world, gang = self.world, self.gang
        if not gang.may_choose and not self._may_fit():
            return False
        before = world.mark()
        started = attempt(world, gang)
        world.undo(before)
        return bool(started)

    def _may_fit(self) -> bool:
        return self.world.free_total(self.ask) and self._allowed()

    def _allowed(self) -> bool:
        queue = self.gang.queue
        return queue is not None and passes(self.world, queue, self.ask, preemptible=self.gang.preemptible)

    def take(self, source: Source, accept: Accept) -> Taken | None:
        """The solution with the fewest victims of the source, or None; `accept` judges what was lost."""
        room = _Room(self.world, self.gang)
        if room.hopeless:
            return None
        units: list[Unit] = []
        fits = self.fits()
        while not fits:
            # As soon as quotas let the gang start, only room is missing, and only where it could stand.
            allowed = self._allowed()
            unit = source.take(room.helps if allowed else None)
            if unit is None:
                self.undo()
                return None
            units.append(unit)
            fits = (not allowed or room.opened(unit)) and self.fits()
        units = self._spare(units)
        return self.finish(self._fewer(units, source), accept)

    def undo(self) -> None:
        """Everything as it was before the search."""
        self.world.undo(self._mark)

    def _spare(self, units: Sequence[Unit]) -> list[Unit]:
        """Without those that are not needed; what a gang gave up first returns last."""
        kept: list[Unit] = list(units[-1:])
        for unit in reversed(units[:-1]):
            if all(other.gang is not unit.gang for other in kept):
                before = self.world.mark()
                for i, node in zip(unit.tasks, unit.nodes, strict=True):
                    self.world.start_on(unit.gang, i, node)
                if self.fits():
                    continue
                self.world.undo(before)
            kept.append(unit)
        kept.reverse()
        return kept

    def _fewer(self, units: list[Unit], source: Source) -> list[Unit]:
        cores = {unit.gang.index for unit in units if not any(unit.gang.active)}
        if len(cores) < 2:
            return units
        world = self.world
        highest = max(unit.gang.fact.priority for unit in units)
        world.undo(self._mark)
        pool = (gang for gang in source.pool() if gang.fact.priority <= highest)
        held = [(gang, self._held(gang)) for gang in islice(pool, MOST_SINGLES)]
        missing = [0 if world.nodes is None else amount - world.nodes.total[r] for r, amount in self.ask]
        trials = TRIALS
        for size, most in ((1, MOST_SINGLES), (2, MOST_PAIRED)):
            if size >= len(cores):
                break
            for chosen in combinations(held[:most], size):
                if any(sum(have[n] for _gang, have in chosen) < needed for n, needed in enumerate(missing)):
                    continue
                trials -= 1
                if trials < 0:
                    break
                found = self._drop([gang for gang, _have in chosen], source)
                if found and self.fits():
                    return found
                world.undo(self._mark)
        for unit in units:
            world.stop(unit.gang, unit.tasks)
        return units

    def _held(self, gang: GangState) -> list[Number]:
        """What the running tasks of a gang would give back, for each resource that is asked for."""
        whole = dict(total_of([gang.requests[i] for i, status in enumerate(gang.status) if status == RUNNING]))
        return [whole.get(r, 0) for r, _amount in self.ask]

    def _drop(self, chosen: Sequence[GangState], source: Source) -> list[Unit]:
        """Let these gangs give up everything; nothing is returned when one of them may not be asked for all of it."""
        units = []
        for gang in chosen:
            while any(gang.active):
                if not source.allows(gang):
                    return []
                unit = next_unit(gang)
                self.world.stop(gang, unit.tasks)
                units.append(unit)
        return units

    def finish(self, units: Sequence[Unit], accept: Accept) -> Taken | None:
        """Start the gang, find new places for its victims, and let `accept` judge; undone if it says no."""
        started = attempt(self.world, self.gang)
        if not started:
            self.undo()
            return None
        taken = Taken(started)
        by_gang: dict[int, list[Unit]] = {}
        for unit in units:
            by_gang.setdefault(unit.gang.index, []).append(unit)
        for stack in sorted(by_gang.values(), key=lambda stack: stack[0].gang.order):
            gang = stack[0].gang
            moved: list[int] = []
            while stack and self._settle_again(stack[-1], moved):
                stack.pop()
            if moved:
                taken.moved.append((gang, moved))
            if stack:
                taken.lost.append((gang, [i for unit in stack for i in unit.tasks]))
        # The steps tell of the victims in the order in which they were chosen.
        chosen = {unit.gang.index: n for n, unit in reversed(list(enumerate(units)))}
        taken.lost.sort(key=lambda entry: chosen[entry[0].index])
        if accept(taken):
            return taken
        self.undo()
        return None

    def _settle_again(self, unit: Unit, moved: list[int]) -> bool:
        """Find places for a unit, its old ones first; `moved` gets the tasks that stand elsewhere now."""
        world, gang, queue = self.world, unit.gang, unit.gang.queue
        request = total_of([gang.requests[i] for i in unit.tasks])
        if queue is None or not passes(world, queue, request, preemptible=gang.preemptible):
            return False
        before, elsewhere = world.mark(), []
        for i, old in zip(unit.tasks, unit.nodes, strict=True):
            if world.nodes is None:
                world.start_on(gang, i, NOWHERE)
                continue
            need = gang.needs[i]
            node = old if old != NOWHERE and world.nodes.fits(old, need) else world.nodes.tightest(need)
            if node == NOWHERE:
                world.undo(before)
                return False
            world.start_on(gang, i, node)
            if node != old:
                elsewhere.append(i)
        moved.extend(elsewhere)
        return True

    def commit(self, taken: Taken, action: Action, diary: Diary) -> list[QueueState]:
        """Write the steps and bring the lines up to date; gives the leaves that changed."""
        world = self.world
        for gang, tasks in taken.lost:
            diary.write(action, gang, tasks, self.gang)
        for gang, tasks in taken.moved:
            diary.write(Action.MOVE, gang, tasks, self.gang)
        diary.write(Action.START, self.gang, taken.started)
        world.journal.clear()
        leaves = {}
        for gang in (self.gang, *(gang for gang, _tasks in (*taken.lost, *taken.moved))):
            world.relist(gang)
            if gang.queue is not None:
                leaves[gang.queue.index] = gang.queue
        return list(leaves.values())
