"""The result of a search for victims, computed from sums before anything is evicted.

Most searches find nothing: whatever other queues may lose, no node becomes free enough, which sums on the nodes show.
Where quotas allow the request already, a search evicts work of its own top queue first, and then work of the others,
each time of the top queue that comes first by its rank. The losses of the others do not depend on each other, so they
are kept (:mod:`loss_tables`) and merged. The result is the victims of the search, or the proof that it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush, heapreplace
from itertools import chain
from typing import NamedTuple

from pools.domain.values.amounts import Number
from scheduling.domain.engine.fast.loss_tables import Loss, LossTable, LossTables, RefreshPolicy, gains_of, units_of
from scheduling.domain.engine.fast.refusal import Candidates, is_refused_anyway
from scheduling.domain.engine.rules.queue_order import victim_rank
from scheduling.domain.engine.rules.shortcuts import SearchShortcut
from scheduling.domain.engine.rules.victims import (
    Branch,
    BranchPoint,
    HelpsStart,
    InnerVictims,
    entitlement_over,
    is_inside_quota,
    lenders_by_rank,
)
from scheduling.domain.engine.state.evicted import AlikeTasks, EvictedAmounts, EvictionUnit
from scheduling.domain.engine.state.nodes import NodeIndex, Request
from scheduling.domain.engine.state.records import GangState, QueueState, Rank
from scheduling.domain.engine.state.world_state import WorldState

SearchKey = tuple[str, int, object]
"""The kind of a search, its leaf, and what else decides: searches with one key in one state find the same."""

FindLosses = Callable[[QueueState], list[Loss]]

_NO_GAINS: Mapping[int, list[Number]] = {}


class EvictionRight(NamedTuple):
    """Whether the top queue of a request is inside its quota: at the beginning of the search, and after the evictions
    below itself."""

    at_first: bool
    later: bool


class Outlook:
    """The evictions of one search: those in its own top queue, then those in the others."""

    def __init__(
        self,
        world: WorldState,
        inner: Sequence[EvictionUnit],
        inner_gains: Mapping[int, list[Number]],
        request: Request,
    ) -> None:
        assert world.nodes is not None
        self._request = request
        self._world, self._nodes = world, world.nodes
        self._inner, self._inner_gains = inner, inner_gains
        self._table: LossTable | None = None
        self._own: Sequence[Loss] = ()
        self._top: QueueState | None = None
        self.is_enough = False
        """Whether the tasks fit after the evictions of `first_units`."""

    def add_others(self, table: LossTable, top: QueueState, find: FindLosses) -> None:
        """Add the losses of all top queues but this one. `find`: finds those of a queue that changed."""
        self._table, self._top, self._own = table, top, table.by_top.get(top.index, ())
        self._find = find

    def may_open(self, tasks: AlikeTasks) -> bool:
        """Whether the tasks fit on the nodes after all these evictions."""
        nodes, need = self._nodes, tasks.need
        missing = tasks.count - nodes.count_slots(need, tasks.count)
        if missing <= 0:
            return True
        free, inner = nodes.free, self._inner_gains
        others = _NO_GAINS if self._table is None else self._table.gains
        own = gains_of(units_of(self._own), nodes.full_width) if self._own else _NO_GAINS
        for node, gain in others.items():
            if node in own or node in inner:
                continue
            have = free[node]
            for r, amount in need:
                if have[r] + gain[r] < amount:
                    break
            else:
                missing -= self._slots_gained(node, need, [gain], ())
                if missing <= 0:
                    return True
        for node in {*own, *inner}:
            more = [gains[node] for gains in (others, inner) if node in gains]
            missing -= self._slots_gained(node, need, more, [own[node]] if node in own else ())
            if missing <= 0:
                return True
        return False

    def _slots_gained(
        self, node: int, need: Request, more: Sequence[Sequence[Number]], less: Sequence[Sequence[Number]]
    ) -> int:
        nodes = self._nodes
        before = nodes.free[node]
        after = list(before)
        for gain in more:
            after = [have + each for have, each in zip(after, gain, strict=True)]
        for gain in less:
            after = [have - each for have, each in zip(after, gain, strict=True)]
        return nodes.slots_in(after, need) - nodes.slots_in(before, need)

    def first_units(self, tasks: AlikeTasks) -> list[EvictionUnit]:
        """The evictions up to the first one after which the tasks fit; all of them if they are not enough."""
        trial = EvictedAmounts(self._nodes, tasks)
        found = []
        for unit in chain(self._inner, self._others_in_order()):
            trial.evict(unit)
            found.append(unit)
            # Where nodes are overfull, the total decides too; a search looks again only when a node opens.
            if trial.fits and trial.has_opened(unit):
                self.is_enough = True
                break
        return found

    def _others_in_order(self) -> Iterator[EvictionUnit]:
        """The losses of the other top queues: nearest in the cohort tree first, then by rank. A queue is looked into
        when it is its turn, because most searches need the first few: its first loss has the rank that it has now."""
        if self._table is None or self._top is None:
            return
        for queues in self._others_by_nearness(self._top):
            heap: list[tuple[Rank, int, int, Sequence[Loss]]] = []
            following = next(queues, None)
            while heap or following is not None:
                if following is not None and not (heap and heap[0][:2] < self._rank(following)):
                    losses = self._table.losses_of(following, self._find)
                    if losses:
                        heappush(heap, (losses[0].rank, following.index, 0, losses))
                    following = next(queues, None)
                    continue
                _rank, index, position, losses = heap[0]
                yield losses[position].unit
                if position + 1 < len(losses):
                    heapreplace(heap, (losses[position + 1].rank, index, position + 1, losses))
                else:
                    heappop(heap)

    def _rank(self, top: QueueState) -> tuple[Rank, int]:
        return victim_rank(top, self._request), top.index

    def _others_by_nearness(self, ours: QueueState) -> Iterator[Iterator[QueueState]]:
        """The other top queues that may lend, by rank: those of the same cohort tree, nearest first, then the rest."""
        world, root = self._world, self._world.root_cohort(ours)
        near: dict[int, list[QueueState]] = {}
        if root is not None:
            for top in world.cohort_neighbours(ours):
                near.setdefault(len(world.cohorts_above(top)), []).append(top)
        for depth in sorted(near, reverse=True):
            lenders = [top for top in near[depth] if top is not ours]
            yield iter(sorted(lenders, key=self._rank))
        is_far = (
            top for top in lenders_by_rank(world, self._request) if root is None or world.root_cohort(top) != root
        )
        yield (top for top in is_far if top is not ours)


class VictimOutlook(SearchShortcut):
    """Kept findings for one search for victims. Searches with one key in one state find the same."""

    def __init__(
        self, tables: LossTables, world: WorldState, leaf: QueueState, key: SearchKey, *, is_general: bool
    ) -> None:
        self._tables, self._world, self._leaf, self._key = tables, world, leaf, key
        self._is_general = is_general

    def fails(self) -> bool:
        """Whether a search with this key has failed in this state."""
        return self._is_general and self._key in self._tables.failed_in(self._world.version)

    def is_over(self, evicted: int, *, found: bool) -> None:
        """A search that failed fails again in this state."""
        if not found and self._is_general:
            self._tables.failed_in(self._world.version).add(self._key)


class ReclaimOutlook(VictimOutlook):
    """Kept findings for a reclaim: the victims in order."""

    def __init__(
        self,
        tables: LossTables,
        world: WorldState,
        gang: GangState,
        leaf: QueueState,
        source: Candidates,
        *,
        is_general: bool,
    ) -> None:
        """`source`: the gangs that may lose work to the reclaim."""
        super().__init__(tables, world, leaf, ("reclaim", leaf.index, gang.demand), is_general=is_general)
        self._request, self._source = gang.next_request, source
        self._refresh: RefreshPolicy | None = None
        self._in_vain = 0
        """The evictions in the outlook that found nothing, where the losses of all queues were not known before."""

    def needed_victims(self, tasks: AlikeTasks, helps: HelpsStart) -> list[EvictionUnit] | None:
        """Not known where the losses of some queues depend on each other."""
        world, leaf, request, need = self._world, self._leaf, self._request, tasks.need
        top = leaf.path[-1]
        if world.nodes is None or not world.is_flat_below_root(top):
            return None
        self._refresh = refresh = _refresh_policy(self._tables, world, request, need)
        is_complete = refresh.is_worthwhile
        key = ("inner", leaf.index, request, need)
        found = self._tables.known(top, key)
        if found is None:
            units, is_inside, is_enough = _inner_losses(world, leaf, request, helps, None if is_complete else tasks)
            if is_enough:
                return self._needed_of(Outlook(world, units, _NO_GAINS, request), tasks)
            found = units, is_inside, gains_of(units, world.nodes.full_width)
            self._tables.keep(top, key, found)
        units, is_inside, gains = found
        outlook = Outlook(world, units, gains, request)
        right = EvictionRight(is_inside_quota(top, request), is_inside)
        table = _table_of(self._tables, world, request, right, need)

        def find(theirs: QueueState) -> list[Loss]:
            return _losses(world, theirs, request, right, helps)

        if is_complete:
            refresh.mark_refreshed()
            table.update(find)
        outlook.add_others(table, top, find)
        if is_complete and not outlook.may_open(tasks):
            return []
        return self._needed_of(outlook, tasks, is_complete=is_complete)

    def _needed_of(self, outlook: Outlook, tasks: AlikeTasks, *, is_complete: bool = False) -> list[EvictionUnit]:
        foreseen = outlook.first_units(tasks)
        if not outlook.is_enough:
            self._in_vain = 0 if is_complete else len(foreseen)
            return []
        assert self._world.nodes is not None
        units = needed_units(self._world.nodes, foreseen, tasks)
        refused = is_refused_anyway(self._world, self._leaf, self._request, units, self._source)
        return [] if refused else units

    def is_over(self, evicted: int, *, found: bool) -> None:
        """Searches that fail make the next outlook at all queues worth its cost."""
        super().is_over(evicted, found=found)
        if self._refresh is not None:
            self._refresh.record_search(evicted or self._in_vain, found=found)


class PreemptOutlook(VictimOutlook):
    """Kept findings for a preemption: whether all lower work that helps is enough."""

    def __init__(
        self, tables: LossTables, world: WorldState, gang: GangState, leaf: QueueState, *, is_general: bool
    ) -> None:
        super().__init__(tables, world, leaf, ("preempt", leaf.index, gang.signature), is_general=is_general)
        self._priority = gang.fact.priority

    def needed_victims(self, tasks: AlikeTasks, helps: HelpsStart) -> list[EvictionUnit] | None:
        """Not known if it is enough: the order of the victims decides."""
        world, leaf, priority = self._world, self._leaf, self._priority
        if world.nodes is None:
            return None
        top, key = leaf.path[-1], ("lower", leaf.index, priority, tasks.need)
        gains = self._tables.known(top, key)
        if gains is None:
            units = []
            for gang in leaf.running or ():
                if gang.fact.priority < priority and helps(gang):
                    running = gang.running_tasks()
                    units.append(EvictionUnit(gang, running, tuple([gang.node[i] for i in running])))
            gains = gains_of(units, world.nodes.full_width)
            self._tables.keep(top, key, gains)
        return None if Outlook(world, (), gains, ()).may_open(tasks) else []


def needed_units(nodes: NodeIndex, units: Sequence[EvictionUnit], tasks: AlikeTasks) -> list[EvictionUnit]:
    """The units that the search would not return as unneeded, computed before any of them is evicted."""
    trial = EvictedAmounts(nodes, tasks)
    for unit in units:
        trial.evict(unit)
    needed = list(units[-1:])
    gangs = {unit.gang.index for unit in needed}
    for unit in reversed(units[:-1]):
        if unit.gang.index not in gangs:
            trial.evict(unit, -1)
            if trial.fits:
                continue
            trial.evict(unit)
        needed.append(unit)
        gangs.add(unit.gang.index)
    needed.reverse()
    return needed


def _refresh_policy(tables: LossTables, world: WorldState, request: Request, need: Request) -> RefreshPolicy:
    return tables.refresh_policy((need, tuple([r for r, _amount in request])), world.tops)


def _table_of(
    tables: LossTables, world: WorldState, request: Request, right: EvictionRight, need: Request
) -> LossTable:
    assert world.nodes is not None
    key = (need, tuple([r for r, _amount in request]), right)
    return tables.table(key, world.tops, world.nodes.full_width)


def _inner_losses(
    world: WorldState, leaf: QueueState, request: Request, helps: HelpsStart, tasks: AlikeTasks | None
) -> tuple[list[EvictionUnit], bool, bool]:
    """All that the other branches below the top queue of the leaf may lose, or with `tasks` what they lose until these
    fit; whether the top queue is then inside its quota; and whether the tasks fit."""
    top, before = leaf.path[-1], world.mark()
    trial = (
        None if tasks is None or world.nodes is None else EvictedAmounts(world.nodes, tasks, world.nodes.free.copy())
    )
    victims, units, is_enough = InnerVictims(world, leaf, request), [], False
    while not is_enough and (unit := victims.take_next(helps)) is not None:
        units.append(unit)
        if trial is not None:
            trial.evict(unit)
            is_enough = trial.fits and trial.has_opened(unit)
    is_inside = is_inside_quota(top, request)
    world.undo(before)
    return units, is_inside, is_enough


def _losses(
    world: WorldState, top: QueueState, request: Request, right: EvictionRight, helps: HelpsStart
) -> list[Loss]:
    """All that a top queue may lose, whatever the others lose."""
    if not entitlement_over(top, request, is_inside=right.at_first):
        return []
    branch, before, found = Branch(BranchPoint(top, top, (), 0), request), world.mark(), []
    while True:
        rank, entitlement = victim_rank(top, request), entitlement_over(top, request, is_inside=right.later)
        unit = branch.take_next(world, helps, entitlement)
        if unit is None:
            break
        found.append(Loss(rank, unit))
    world.undo(before)
    return found
