"""What a search for victims would find, computed on sums before anything is evicted.

Most searches end with nothing: whatever other queues may lose, no node becomes free enough. That follows from sums on
the nodes alone. A request that quotas allow already evicts, first, work of its own top queue, and then of the others,
the next one always where the rank of the top queue says so. The losses of the others do not depend on each other, so
they are kept (:mod:`loss_tables`) and merged. The result is the victims of the search itself, or the proof that it
fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from heapq import heappop, heappush, heapreplace
from itertools import chain
from typing import Protocol, cast

from pools.domain.amounts import Number
from scheduling.domain.engine.fast.loss_tables import Loss, LossTable, Pace, gains_of, units_of
from scheduling.domain.engine.fast.refusal import Candidates, is_refused_anyway
from scheduling.domain.engine.rules.queue_order import victim_rank
from scheduling.domain.engine.rules.victims import (
    Branch,
    BranchPoint,
    EvictionUnit,
    HelpsStart,
    InnerVictims,
    is_above_share,
    is_borrowing,
    is_inside_quota,
    keeps_quota,
)
from scheduling.domain.engine.state.nodes import NOWHERE, FreeAmounts, NodeIndex, Request, has_enough
from scheduling.domain.engine.state.records import QueueState, Rank
from scheduling.domain.engine.state.world import World

SearchKey = tuple[str, int, object]
"""The kind of a search, its leaf, and what decides beside them: searches with one key in one state find the same."""

FindLosses = Callable[[QueueState], list[Loss]]

_NO_GAINS: Mapping[int, list[Number]] = {}


class Claim(Enum):
    """How the top queue of a request may evict from others: by its own quota; by its share of the surplus; or by the
    quota that it is inside of only after evictions of its own, from those above their share."""

    QUOTA = auto()
    SHARE = auto()
    LATE_QUOTA = auto()


@dataclass(frozen=True, slots=True)
class AlikeTasks:
    """So many tasks with this need, which start together."""

    need: Request
    count: int


@dataclass(frozen=True, slots=True)
class KeptFailure:
    """A search that looked ahead and failed: its tasks, and what evictions in its own top queue free. `reclaim`: the
    request, and the claim to evict from other top queues.

    It is kept until something below its own top queue changes, and says how to look ahead again without a search: only
    other losses and free amounts can let the tasks fit now. It refers to no world, which is freed by its reference
    count."""

    tasks: AlikeTasks
    inner_gains: Mapping[int, list[Number]]
    reclaim: tuple[Request, Claim] | None = None

    def holds(self, world: World, leaf: QueueState, helps: Callable[[], HelpsStart]) -> bool:
        """Whether the search would fail again; False where that is not known. `helps`: makes the test for victims that
        help the tasks."""
        outlook = Outlook(world, (), self.inner_gains)
        if self.reclaim is not None:
            ask, claim = self.reclaim
            pace = _pace_of(world, ask, self.tasks.need)
            if not pace.may_look:
                return False
            pace.looked()
            table, top = _table_of(world, ask, claim, self.tasks.need), leaf.path[-1]
            if table.stale:
                test = helps()
                table.update(lambda theirs: _losses(world, theirs, ask, claim, test))
            outlook.add_others(table, top, lambda _theirs: [])
        return not outlook.may_open(self.tasks)


class Outlook:
    """The evictions of one search: those in its own top queue, then those in the others."""

    def __init__(
        self,
        world: World,
        inner: Sequence[EvictionUnit],
        inner_gains: Mapping[int, list[Number]],
        *,
        is_complete: bool = True,
    ) -> None:
        assert world.nodes is not None
        self._world, self._nodes = world, world.nodes
        self._inner, self._inner_gains = inner, inner_gains
        self._table: LossTable | None = None
        self._own: Sequence[Loss] = ()
        self._top: QueueState | None = None
        self.in_vain = 0
        """The evictions of a search that found nothing, where the losses of all queues were not known before."""
        self.is_complete = is_complete
        """Whether the losses of all queues are known already, so that `may_open` may be asked."""

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

    def first_units(self, tasks: AlikeTasks) -> list[EvictionUnit] | None:
        """The evictions up to the first one after which the tasks fit, or None."""
        trial = EvictedAmounts(self._nodes, tasks)
        found = []
        for unit in chain(self._inner, self._others_in_order()):
            trial.evict(unit)
            found.append(unit)
            # Where nodes are overfull, the total decides too; a search looks again only when a node opens.
            if trial.fits and trial.has_opened(unit):
                return found
        self.in_vain = 0 if self.is_complete else len(found)
        return None

    def _others_in_order(self) -> Iterator[EvictionUnit]:
        """The losses of the other top queues: nearest in the cohort tree first, then by rank. A queue is looked into
        when it is its turn, because most searches need the first few: its first loss has the rank that it has now."""
        if self._table is None or self._top is None:
            return
        for queues in self._others_by_nearness(self._top):
            heap: list[tuple[Rank, int, int, Sequence[Loss]]] = []
            following = next(queues, None)
            while heap or following is not None:
                if following is not None and not (heap and heap[0][:2] < (victim_rank(following), following.index)):
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

    def _others_by_nearness(self, ours: QueueState) -> Iterator[Iterator[QueueState]]:
        """The other top queues that may lend, by rank: those of the same cohort tree, nearest first, then the rest."""
        world, root = self._world, self._world.root_cohort(ours)
        near: dict[int, list[QueueState]] = {}
        if root is not None:
            for top in world.cohort_neighbours(ours):
                near.setdefault(len(world.cohorts_above(top)), []).append(top)
        for depth in sorted(near, reverse=True):
            lenders = [top for top in near[depth] if top is not ours]
            yield iter(sorted(lenders, key=lambda top: (victim_rank(top), top.index)))
        is_far = (top for top in world.top_queues.by_rank() if root is None or world.root_cohort(top) != root)
        yield (top for top in is_far if top is not ours)


class EvictedAmounts:
    """Whether some tasks fit after evictions, on a copy of the free amounts of the nodes that these touch."""

    def __init__(self, nodes: NodeIndex, tasks: AlikeTasks, free: Sequence[FreeAmounts] | None = None) -> None:
        """`free`: the free amounts of all nodes now, if they change before the last eviction."""
        self._nodes, self._need, self._before = nodes, tasks.need, nodes.free if free is None else free
        self._missing = tasks.count - nodes.count_slots(tasks.need, tasks.count)
        self._free: dict[int, list[Number]] = {}
        self._lacking = [[r, amount * tasks.count - nodes.total[r]] for r, amount in tasks.need if r < nodes.width]

    @property
    def fits(self) -> bool:
        """Whether the tasks fit now."""
        return self._missing <= 0 and all(amount <= 0 for _r, amount in self._lacking)

    def has_opened(self, unit: EvictionUnit) -> bool:
        """Whether one of the tasks fits on a node that the unit has left."""
        return any(has_enough(self._free[node], self._need) for node in unit.nodes if node != NOWHERE)

    def evict(self, unit: EvictionUnit, sign: int = 1) -> None:
        """Evict the tasks of the unit, or with -1 let them return."""
        nodes, need = self._nodes, self._need
        for i, node in zip(unit.tasks, unit.nodes, strict=True):
            if node == NOWHERE:
                continue
            have = self._free.get(node)
            if have is None:
                have = self._free[node] = list(self._before[node])
            before = nodes.slots_in(have, need) if has_enough(have, need) else 0
            request = unit.gang.requests[i]
            for r, amount in request:
                have[r] += sign * amount
            for lacking in self._lacking:
                for r, amount in request:
                    if r == lacking[0]:
                        lacking[1] -= sign * amount
            self._missing += before - (nodes.slots_in(have, need) if has_enough(have, need) else 0)


class Foresight(Protocol):
    """What the source of victims of one search would evict. `is_exact`: an outlook has the victims in order, and not
    only what they free together."""

    is_exact: bool

    def outlook(self, tasks: AlikeTasks, helps: HelpsStart) -> Outlook | None:
        """The evictions for tasks that quotas allow already; None where it is not known."""

    def is_refused(self, units: Sequence[EvictionUnit]) -> bool:
        """Whether the search, which needs these evictions, ends in a result that is refused; False where that is not
        known."""

    def keep_failure(self, tasks: AlikeTasks) -> None:
        """The last outlook knows all losses, and they do not suffice. So fails every search with this key."""

    def learn(self, evictions: int, *, found: bool) -> None:
        """The search is over: its trial evictions, and whether it found victims."""


class NoForesight:
    """Of a search that only its trials decide."""

    is_exact = False

    def outlook(self, tasks: AlikeTasks, helps: HelpsStart) -> Outlook | None:
        """Not known."""
        return None

    def is_refused(self, units: Sequence[EvictionUnit]) -> bool:
        """Not known."""
        return False

    def keep_failure(self, tasks: AlikeTasks) -> None:
        """Without an outlook there is nothing to keep."""

    def learn(self, evictions: int, *, found: bool) -> None:
        """Nothing to learn."""


class ReclaimForesight:
    """Of a reclaim for the leaf."""

    is_exact = True

    def __init__(self, world: World, leaf: QueueState, ask: Request, source: Candidates, key: SearchKey) -> None:
        """`source`: the gangs that may lose work to the reclaim."""
        self._world, self._leaf, self._ask, self._source, self._key = world, leaf, ask, source, key
        self._pace: Pace | None = None
        self._inner_gains: Mapping[int, list[Number]] = _NO_GAINS
        self._claim = Claim.SHARE

    def outlook(self, tasks: AlikeTasks, helps: HelpsStart) -> Outlook | None:
        """None too where the losses of some queues depend on each other."""
        world, leaf, ask, need = self._world, self._leaf, self._ask, tasks.need
        top = leaf.path[-1]
        if world.nodes is None or world.firm is None or not world.is_flat_below_root(top):
            return None
        world.losses.forget_changed(world.firm, world.on_node)
        self._pace = pace = _pace_of(world, ask, need)
        width, is_complete = world.nodes.full_width, pace.may_look
        key = ("inner", leaf.index, ask, need)
        found = world.losses.known(top, key)
        if found is None:
            units, is_inside, is_enough = _inner_losses(world, leaf, ask, helps, None if is_complete else tasks)
            if is_enough:
                return Outlook(world, units, _NO_GAINS, is_complete=False)
            found = units, is_inside, gains_of(units, width)
            world.losses.keep(top, key, found)
        units, is_inside, gains = found
        outlook = Outlook(world, units, gains, is_complete=is_complete)
        claim = Claim.LATE_QUOTA if is_inside else Claim.SHARE
        if is_inside_quota(top, ask):
            claim = Claim.QUOTA
        table = _table_of(world, ask, claim, need)
        self._inner_gains, self._claim = gains, claim

        def find(theirs: QueueState) -> list[Loss]:
            return _losses(world, theirs, ask, claim, helps)

        if is_complete:
            pace.looked()
            table.update(find)
        outlook.add_others(table, top, find)
        return outlook

    def is_refused(self, units: Sequence[EvictionUnit]) -> bool:
        """For its fair share."""
        return is_refused_anyway(self._world, self._leaf, self._ask, units, self._source)

    def keep_failure(self, tasks: AlikeTasks) -> None:
        """Until something below the top queue changes."""
        failure = KeptFailure(tasks, self._inner_gains, (self._ask, self._claim))
        _keep_failure(self._world, self._leaf, self._key, failure)

    def learn(self, evictions: int, *, found: bool) -> None:
        """Searches that fail make the next outlook worth its cost."""
        if self._pace is not None:
            self._pace.learn(evictions, found=found)


def _pace_of(world: World, ask: Request, need: Request) -> Pace:
    return world.losses.pace((need, tuple([r for r, _amount in ask])), world.tops)


def _table_of(world: World, ask: Request, claim: Claim, need: Request) -> LossTable:
    assert world.nodes is not None
    key = (need, tuple([r for r, _amount in ask]), claim)
    return world.losses.table(key, world.tops, world.nodes.full_width)


def _keep_failure(world: World, leaf: QueueState, key: SearchKey, failure: KeptFailure) -> None:
    # Under a cohort, quotas may also change where the work of other top queues changes.
    if not leaf.has_cohort_above:
        world.losses.keep(leaf.path[-1], key, failure)


def kept_failure(world: World, leaf: QueueState, key: SearchKey) -> KeptFailure | None:
    """The failure of the last search in the leaf with this key, if nothing below its top queue has changed since."""
    if world.nodes is None or world.firm is None:
        return None
    world.losses.forget_changed(world.firm, world.on_node)
    return cast("KeptFailure | None", world.losses.known(leaf.path[-1], key))


def _inner_losses(
    world: World, leaf: QueueState, ask: Request, helps: HelpsStart, tasks: AlikeTasks | None
) -> tuple[list[EvictionUnit], bool, bool]:
    """All that the other branches below the top queue of the leaf may lose, or with `tasks` what they lose until these
    fit; whether the top queue is then inside its quota; and whether the tasks fit."""
    top, before = leaf.path[-1], world.mark()
    trial = (
        None if tasks is None or world.nodes is None else EvictedAmounts(world.nodes, tasks, world.nodes.free.copy())
    )
    victims, units, is_enough = InnerVictims(world, leaf, ask), [], False
    while not is_enough and (unit := victims.take_next(helps)) is not None:
        units.append(unit)
        if trial is not None:
            trial.evict(unit)
            is_enough = trial.fits and trial.has_opened(unit)
    is_inside = is_inside_quota(top, ask)
    world.undo(before)
    return units, is_inside, is_enough


def _losses(world: World, top: QueueState, ask: Request, claim: Claim, helps: HelpsStart) -> list[Loss]:
    """All that a top queue may lose, whatever the others lose."""
    if not is_borrowing(top, ask) or (claim is not Claim.QUOTA and not is_above_share(top)):
        return []
    where, before = BranchPoint(top, top, (), 0), world.mark()
    branch, found = Branch(where, ask), []
    while is_borrowing(top, ask) and (claim is not Claim.SHARE or is_above_share(top)):
        rank, gang = victim_rank(top), branch.head(helps)
        if gang is None:
            break
        if claim is not Claim.SHARE or keeps_quota(gang, ask, where):
            found.append(Loss(rank, branch.victims(gang).take_head(world, may_postpone=True)))
        else:
            branch.victims(gang).skip()
    world.undo(before)
    return found


class PreemptForesight:
    """Of a preemption in the leaf by a gang of this priority: all lower work that helps."""

    is_exact = False

    def __init__(self, world: World, leaf: QueueState, priority: int, key: SearchKey) -> None:
        self._world, self._leaf, self._priority, self._key = world, leaf, priority, key
        self._gains: Mapping[int, list[Number]] = _NO_GAINS

    def outlook(self, tasks: AlikeTasks, helps: HelpsStart) -> Outlook | None:
        """What all of them free together."""
        world, leaf, priority, need = self._world, self._leaf, self._priority, tasks.need
        if world.nodes is None or world.firm is None:
            return None
        world.losses.forget_changed(world.firm, world.on_node)
        width = world.nodes.full_width

        def find() -> tuple[list[EvictionUnit], Mapping[int, list[Number]]]:
            units = []
            for gang in leaf.running or ():
                if gang.fact.priority < priority and helps(gang):
                    tasks = gang.running_tasks()
                    units.append(EvictionUnit(gang, tasks, tuple([gang.node[i] for i in tasks])))
            return units, gains_of(units, width)

        units, self._gains = world.losses.finding(leaf.path[-1], ("lower", leaf.index, priority, need), find)
        return Outlook(world, units, self._gains)

    def is_refused(self, units: Sequence[EvictionUnit]) -> bool:
        """Not known."""
        return False

    def keep_failure(self, tasks: AlikeTasks) -> None:
        """Until something below the top queue changes."""
        _keep_failure(self._world, self._leaf, self._key, KeptFailure(tasks, self._gains))

    def learn(self, evictions: int, *, found: bool) -> None:
        """An outlook costs less than any search."""
