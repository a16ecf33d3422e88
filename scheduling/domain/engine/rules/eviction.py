"""Eviction: the fewest victims that let a gang start, and other nodes for victims that fit elsewhere.

Victims are evicted in order until the gang starts; then, from the last one backwards, every victim that is not needed
returns, and so do tasks of an elastic gang that would start again at once where they ran. If more than one gang lost
its core, a smaller set is searched: one gang, then two, in the same order, never of a higher priority than the victims
already found. A victim that fits on other nodes moves and counts as no loss. Under a policy with `victims: least_lost`
a set that loses less takes their place (:mod:`scheduling.domain.engine.rules.least_loss`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import combinations, islice

from pools.domain.values.amounts import Number
from scheduling.domain.engine.rules.gates import may_start
from scheduling.domain.engine.rules.least_loss import LeastLoss
from scheduling.domain.engine.rules.shortcuts import SearchShortcut
from scheduling.domain.engine.rules.spared import Considered, eviction_rule
from scheduling.domain.engine.rules.starting import attempt_start
from scheduling.domain.engine.rules.victims import AcceptResult, EvictionResult, VictimSource
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.state.evicted import AlikeTasks, EvictionUnit, next_eviction_unit
from scheduling.domain.engine.state.nodes import NOWHERE, NodeIndex, Request
from scheduling.domain.engine.state.records import WAITING, GangState, QueueState, sum_requests
from scheduling.domain.engine.steps import Eviction, EvictionRule, SparedGang, StepAction, StepLog

MAX_SINGLE_VICTIMS, MAX_PAIRED_VICTIMS = 200, 24
"""The most victims, in order, that the search for one victim, and for two, considers."""

MAX_TRIALS = 60
"""The most sets of victims that are tried in the search for fewer; after them the first set is used."""


class _CandidateNodes:
    """The nodes where evictions could help a gang: nodes with enough capacity if all evictable work left."""

    def __init__(self, world: World, gang: GangState) -> None:
        self._world, self._firm = world, world.firm
        chooses = gang.has_choice
        tasks = [i for i, status in enumerate(gang.status) if status == WAITING] if chooses else gang.next_tasks()
        self._needs = {gang.needs[i] for i in tasks}
        self.infeasible = (
            not chooses
            and self._firm is not None
            and any(self._firm.tightest_node(need) == NOWHERE for need in self._needs)
        )
        self._known: dict[int, bool] = {}

    def helps(self, gang: GangState) -> bool:
        """Whether the gang uses a node where a task could run instead."""
        firm, known = self._firm, self._known
        if firm is None:
            return True
        for node in gang.node:  # plain loops, because this call is the most frequent one of a large cluster
            if node == NOWHERE:
                continue
            could_stand = known.get(node)
            if could_stand is None:
                could_stand = known[node] = firm.fits_any(node, self._needs)
            if could_stand:
                return True
        return False

    def has_opened(self, unit: EvictionUnit) -> bool:
        """Whether a task fits on a node that the unit has just left."""
        world = self._world
        return world.nodes is None or any(
            world.fits_later(node, need) for node in unit.nodes if node != NOWHERE for need in self._needs
        )


class EvictionSearch:
    """The search for one gang. A search that fails changes nothing."""

    def __init__(self, world: World, gang: GangState) -> None:
        self.world, self.gang, self.request = world, gang, gang.next_request
        self._mark = world.mark()
        self._needs = Counter(gang.needs[i] for i in gang.next_tasks())
        self._evicted = 0
        """The trial evictions so far."""
        self._considered = Considered()

    def can_start(self) -> bool:
        """Whether the gang could start in the current state."""
        world, gang = self.world, self.gang
        if not (self._leaves_quota() if gang.has_choice else self._may_fit()):
            return False
        before = world.mark()
        started = attempt_start(world, gang)
        world.undo(before)
        return bool(started)

    def _may_fit(self) -> bool:
        nodes = self.world.nodes
        if not (self.world.has_free_total(self.request) and self._may_start()):
            return False
        return nodes is None or all(nodes.has_slots(need, count) for need, count in self._needs.items())

    def _may_start(self) -> bool:
        queue = self.gang.queue
        allowed = queue is not None and may_start(self.world, queue, self.request, preemptible=self.gang.preemptible)
        return allowed and self._leaves_quota()

    def _leaves_quota(self) -> bool:
        """Whether reservations keep the quota that they need, if the gang starts now."""
        policy = self.world.policy
        return policy is None or policy.leaves_quota(self.gang)

    def find_victims(
        self, source: VictimSource, accept: AcceptResult, shortcut: SearchShortcut | None = None
    ) -> EvictionResult | None:
        """The solution with the fewest victims of the source, or None; `accept` judges the evictions."""
        shortcut = shortcut or SearchShortcut()
        if shortcut.fails():
            return None
        found = self._find_victims(source, accept, shortcut)
        shortcut.is_over(self._evicted, found=found is not None)
        return found

    def _find_victims(
        self, source: VictimSource, accept: AcceptResult, shortcut: SearchShortcut
    ) -> EvictionResult | None:
        candidates = _CandidateNodes(self.world, self.gang)
        if candidates.infeasible:
            return None
        fits = self.can_start()
        tasks = None if fits else self.alike_tasks()
        units = None if tasks is None else shortcut.needed_victims(tasks, candidates.helps)
        if units is None:
            found = self._evict_in_order(source, candidates, fits=fits)
            units = None if found is None else self._return_unneeded(found)
            self.undo()
            if units is None:
                return None
            return self._solve(units, source, accept, candidates)
        return self._solve(units, source, accept, candidates) if units else None

    def _solve(
        self, units: Sequence[EvictionUnit], source: VictimSource, accept: AcceptResult, candidates: _CandidateNodes
    ) -> EvictionResult | None:
        """The result of evicting these units, which are needed, or of a better set by the rule for victims."""
        if self.world.notes_spared:
            self._considered = Considered.of(source, candidates.helps)
        chosen = self._fewest(units, source)
        result = self.finish(chosen, accept)
        if result is None or not result.evicted or not self.world.takes_least_lost:
            return result
        self.undo()
        less = LeastLoss(self, source, accept, units, candidates.helps).find(result)
        for unit in less or chosen:
            self.world.stop(unit.gang, unit.tasks)
        return self.finish(less or chosen, accept)

    def alike_tasks(self) -> AlikeTasks | None:
        """The tasks of the gang, if they have one need, and quotas let them start already: then only free capacity is
        missing."""
        gang = self.gang
        if len(self._needs) != 1 or self.world.nodes is None or gang.has_choice or not gang.tree.is_single_leaf:
            return None
        if not self._may_start():
            return None
        ((need, count),) = self._needs.items()
        return AlikeTasks(need, count)

    def _evict_in_order(
        self, source: VictimSource, candidates: _CandidateNodes, *, fits: bool
    ) -> list[EvictionUnit] | None:
        """Evict until the gang fits. Returns what was evicted; None if nothing suffices."""
        units: list[EvictionUnit] = []
        while not fits:
            # Once quotas let the gang start, only free capacity is missing, and only on nodes that it could use.
            allowed = self._may_start()
            unit = source.take_next(candidates.helps if allowed else None)
            if unit is None:
                return None
            units.append(unit)
            self._evicted += 1
            if not allowed or candidates.has_opened(unit):
                self.world.stop_postponed()
                fits = self.can_start()
        return units

    def undo(self) -> None:
        """Restore the state before the search."""
        self.world.undo(self._mark)

    def _return_unneeded(self, units: Sequence[EvictionUnit]) -> list[EvictionUnit]:
        """The units without those that are not needed; the unit that a gang gave up first returns last."""
        needed: list[EvictionUnit] = list(units[-1:])
        for unit in reversed(units[:-1]):
            if all(other.gang is not unit.gang for other in needed):
                before = self.world.mark()
                for i, node in zip(unit.tasks, unit.nodes, strict=True):
                    self.world.start_on(unit.gang, i, node)
                if self.can_start():
                    continue
                self.world.undo(before)
            needed.append(unit)
        needed.reverse()
        return needed

    def _fewest(self, units: Sequence[EvictionUnit], source: VictimSource) -> Sequence[EvictionUnit]:
        """Evict these units, or a smaller set of gangs that suffices. Returns what was evicted."""
        lost: Counter[int] = Counter()
        for unit in units:
            lost[unit.gang.index] += len(unit.tasks)
        cores = {unit.gang.index for unit in units if lost[unit.gang.index] == sum(unit.gang.active)}
        if len(cores) > 1:
            highest = max(unit.gang.fact.priority for unit in units)
            found = self._search_fewer(len(cores), highest, source)
            if found:
                return found
        for unit in units:
            self.world.stop(unit.gang, unit.tasks)
        return units

    def _search_fewer(self, cores: int, highest: int, source: VictimSource) -> list[EvictionUnit]:
        """Evict one gang, or two, fewer than `cores`, of at most this priority. An empty list if none suffices."""
        trials = _Trials(self, highest, source)
        for size in (1, 2):
            if size >= cores:
                break
            for chosen in trials.singles() if size == 1 else trials.pairs():
                found = self._evict_whole(chosen, source)
                if found and self.can_start():
                    return found
                self.undo()
        return []

    def _evict_whole(self, chosen: Sequence[GangState], source: VictimSource) -> list[EvictionUnit]:
        """Evict these gangs whole; an empty list when one of them may not lose all its tasks."""
        units = []
        for gang in chosen:
            while any(gang.active):
                if not source.may_take(gang):
                    return []
                unit = next_eviction_unit(gang)
                self.world.stop(gang, unit.tasks)
                units.append(unit)
        return units

    def finish(self, units: Sequence[EvictionUnit], accept: AcceptResult) -> EvictionResult | None:
        """Start the gang, move its victims where they fit, and let `accept` judge; undone if it refuses."""
        started = attempt_start(self.world, self.gang)
        if not started:
            self.undo()
            return None
        result = EvictionResult(started)
        by_gang: dict[int, list[EvictionUnit]] = {}
        for unit in units:
            by_gang.setdefault(unit.gang.index, []).append(unit)
        for stack in sorted(by_gang.values(), key=lambda stack: stack[0].gang.order_key):
            gang = stack[0].gang
            moved: list[int] = []
            while stack and self._relocate(stack[-1], moved):
                stack.pop()
            if moved:
                result.moved.append((gang, moved))
            if stack:
                result.evicted.append((gang, [i for unit in stack for i in unit.tasks]))
        # Steps name the victims in the order in which they were chosen.
        chosen = {unit.gang.index: n for n, unit in reversed(list(enumerate(units)))}
        result.evicted.sort(key=lambda entry: chosen[entry[0].index])
        if accept(result):
            return self._keep_fitting(result, units, accept)
        self.undo()
        return None

    def _keep_fitting(
        self, result: EvictionResult, units: Sequence[EvictionUnit], accept: AcceptResult
    ) -> EvictionResult:
        """The result without the evicted tasks that the next pass would start on the same nodes: a gang gives up its
        surplus before a larger part, which then makes more room than needed."""
        before = self.world.mark()
        stays = {gang.index: self._start_again(gang, tasks, units) for gang, tasks in result.evicted}
        if not any(stays.values()):
            return result
        evicted = []
        for gang, tasks in result.evicted:
            if lost := [i for i in tasks if i not in stays[gang.index]]:
                evicted.append((gang, lost))
        less = replace(result, evicted=evicted)
        if accept(less):
            return less
        self.world.undo(before)
        return result

    def _start_again(self, gang: GangState, tasks: Sequence[int], units: Sequence[EvictionUnit]) -> set[int]:
        """Start what the gang starts next, as long as it is on the nodes that these tasks have just left."""
        stays: set[int] = set()
        if len(tasks) < 2 or (gang.tree.is_single_leaf and not any(gang.active)):
            return stays  # the search has returned each unit that is not needed, and a core starts whole
        left = {i: node for unit in units if unit.gang is gang for i, node in zip(unit.tasks, unit.nodes, strict=True)}
        while True:
            before = self.world.mark()
            started = attempt_start(self.world, gang)
            if not started:
                return stays
            if any(i not in tasks or gang.node[i] != left[i] for i in started):
                self.world.undo(before)
                return stays
            stays.update(started)

    def _relocate(self, unit: EvictionUnit, moved: list[int]) -> bool:
        """Place a unit again, on its old nodes first; `moved` gets the tasks that are on another node now."""
        world, gang, queue = self.world, unit.gang, unit.gang.queue
        request = sum_requests([gang.requests[i] for i in unit.tasks])
        if queue is None or not may_start(world, queue, request, preemptible=gang.preemptible):
            return False
        before, elsewhere = world.mark(), []
        for i, old in zip(unit.tasks, unit.nodes, strict=True):
            if world.nodes is None:
                world.start_on(gang, i, NOWHERE)
                continue
            need = gang.needs[i]
            may_stay = old != NOWHERE and world.nodes.fits(old, need)
            node = old if may_stay else self._node_to_move(gang, need, world.nodes)
            if node == NOWHERE:
                world.undo(before)
                return False
            world.start_on(gang, i, node)
            if node != old:
                elsewhere.append(i)
        if world.policy is not None and not world.policy.leaves_quota():
            world.undo(before)
            return False
        moved.extend(elsewhere)
        return True

    def _node_to_move(self, gang: GangState, need: Request, nodes: NodeIndex) -> int:
        with nullcontext() if self.world.policy is None else self.world.policy.moving(gang):
            return nodes.tightest_node(need)

    def commit(
        self, result: EvictionResult, action: StepAction, step_log: StepLog, rule: EvictionRule | None = None
    ) -> list[QueueState]:
        """Record the steps and make them final. `rule`: None for that of the action. Returns the leaves that
        changed."""
        spared: tuple[SparedGang, ...] = ()
        has_more = False
        if self._considered.gangs and result.evicted:
            moved = [gang for gang, _tasks in result.moved]
            lost = [gang for gang, _tasks in result.evicted]
            spared, has_more = self._considered.spared(lost, moved, least_lost=self.world.takes_least_lost)
        for gang, tasks in result.evicted:
            why = Eviction(rule or eviction_rule(action, self.gang, gang), spared, has_more)
            step_log.record(action, gang, tasks, self.gang, why)
        for gang, tasks in result.moved:
            step_log.record(StepAction.MOVE, gang, tasks, self.gang)
        step_log.record(StepAction.START, self.gang, result.started)
        return [gang.queue for gang in self.world.make_final() if gang.queue is not None]


class _Trials:
    """The sets of gangs that are worth a trial, in order: those that have what the nodes lack."""

    def __init__(self, search: EvictionSearch, highest: int, source: VictimSource) -> None:
        self._highest, self._source = highest, source
        self._left = MAX_TRIALS
        nodes = search.world.nodes
        lacking = [] if nodes is None else [(r, amount - nodes.total[r]) for r, amount in search.request]
        self._lacking = [(r, amount) for r, amount in lacking if amount > 0]

    def singles(self) -> Iterator[tuple[GangState]]:
        """Single gangs."""
        lacking, highest = self._lacking, self._highest
        only = lacking[0] if len(lacking) == 1 else None
        count = 0
        for part in self._source.candidates():
            for gang, priority, request in part:  # plain loops, because most searches pass hundreds of gangs
                if priority > highest:
                    continue
                count += 1
                if only is not None and len(request) == 1:
                    is_enough = request[0][0] == only[0] and request[0][1] >= only[1]
                else:
                    is_enough = not lacking or _has_all(request, lacking)
                if is_enough:
                    self._left -= 1
                    if self._left < 0:
                        return
                    yield (gang,)
                if count == MAX_SINGLE_VICTIMS:
                    return

    def pairs(self) -> Iterator[tuple[GangState, ...]]:
        """Two gangs together."""
        needed = [amount for _r, amount in self._lacking]
        highest, gangs = self._highest, []
        candidates = (each for part in self._source.candidates() for each in part if each[1] <= highest)
        for gang, _priority, request in islice(candidates, MAX_PAIRED_VICTIMS):
            running = dict(request)
            gangs.append((gang, [running.get(r, 0) for r, _amount in self._lacking]))
        for (first, amounts), (second, others) in combinations(gangs, 2):
            for have, more, lacking in zip(amounts, others, needed, strict=True):
                if have + more < lacking:
                    break
            else:
                self._left -= 1
                if self._left < 0:
                    return
                yield first, second


def _has_all(have: Request, lacking: Sequence[tuple[int, Number]]) -> bool:
    """Whether these amounts, for a sparse request, cover what is lacking."""
    if len(have) == 1 == len(lacking):
        return have[0][0] == lacking[0][0] and have[0][1] >= lacking[0][1]
    amounts = dict(have)
    for r, needed in lacking:  # noqa: SIM110  a plain loop is quick, and this call is frequent
        if amounts.get(r, 0) < needed:
            return False
    return True
