"""The victims of evictions and their order (design, K4; the reverse of the serving order).

A gang is evicted step by step: first its surplus, at the end its core at once. Two leaves are compared at their branch
point: A is the branch of the requesting leaf, B the branch of the victim. A unit below B may be evicted when

* A stays inside its quota and B is above its own, or B holds more than its allocatable share in some resource;
* and no node on the victim's path, from its leaf up to B and to the cohorts below the common one, is within its quota:
  a pool under its quota never loses work to another pool;
* and a request for a share of the surplus pushes no queue below its quota. KAI would evict a gang across that limit:
  two queues would then evict each other's work forever, since a quota is stronger than a share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain, pairwise
from operator import attrgetter
from typing import Protocol

from pools.domain.values.amounts import Amount
from scheduling.domain.engine.rules.queue_order import is_within_all_quotas, victim_rank
from scheduling.domain.engine.state.evicted import EvictionUnit, next_eviction_unit
from scheduling.domain.engine.state.kinds import counted_resources
from scheduling.domain.engine.state.nodes import Request
from scheduling.domain.engine.state.records import GangState, QueueState, Rank, sum_requests
from scheduling.domain.engine.state.world_state import WorldState

HelpsStart = Callable[[GangState], bool]
"""Whether an eviction of the gang can help at all."""

Candidate = tuple[GangState, int, Request]
"""A gang that may lose tasks, its priority, and the total request of its running tasks."""


@dataclass(slots=True)
class EvictionResult:
    """The result of a search: tasks that the gang started, tasks that moved, tasks that were evicted."""

    started: list[int]
    moved: list[tuple[GangState, list[int]]] = field(default_factory=list)
    evicted: list[tuple[GangState, list[int]]] = field(default_factory=list)

    def evicted_by_leaf(self) -> list[tuple[QueueState, Request]]:
        """The evicted amounts of each leaf."""
        return [
            (gang.queue, sum_requests([gang.requests[i] for i in tasks]))
            for gang, tasks in self.evicted
            if gang.queue is not None
        ]


AcceptResult = Callable[[EvictionResult], bool]


class VictimSource(Protocol):
    """A source of victims in order."""

    def take_next(self, helps: HelpsStart | None) -> EvictionUnit | None:
        """Evict one unit of the next victim that helps; None when no victim is left. With `helps`, quotas let the gang
        start already, and the stop may be postponed (:meth:`World.stop_later`)."""

    def candidates(self) -> Iterable[Sequence[Candidate]]:
        """All gangs that may lose tasks, in order and in parts, judged before any eviction."""

    def in_order(self) -> Iterator[GangState]:
        """The same gangs, read one after the other: the first ones cost little where there are thousands."""

    def may_take(self, gang: GangState) -> bool:
        """Whether this gang may lose its next unit in the current state."""

    def equal_victims(self, gang: GangState) -> tuple[object, Iterable[GangState]]:
        """The running gangs that only priority and age tell apart from this one as victims, in order, after a key that
        names them. Not all of them may lose work."""


class _ReversedKey:
    """Reverses an order for a heap."""

    __slots__ = ("order",)

    def __init__(self, order: tuple[object, ...]) -> None:
        self.order = order

    def __lt__(self, other: _ReversedKey) -> bool:
        return other.order < self.order


class LeafVictims:
    """The preemptible gangs of one leaf, last served first; a gang that lost a part is added again."""

    __slots__ = ("_again", "_below", "_following", "_rest", "leaf")

    def __init__(self, leaf: QueueState, below: int | None = None) -> None:
        """`below`: only gangs of a lower priority than this."""
        self.leaf, self._below = leaf, below
        self._rest: Iterator[GangState] = iter(()) if leaf.running is None else reversed(leaf.running)
        self._again: list[tuple[_ReversedKey, GangState]] = []
        """A heap of the gangs that lost a part."""
        self._following = self._draw()

    def _draw(self) -> GangState | None:
        """The next gang that has lost nothing yet. Most searches skip hundreds of them, so none goes over the heap."""
        below = self._below
        for gang in self._rest:
            if below is None or gang.fact.priority < below:
                return gang
        return None

    def _is_again_first(self) -> bool:
        """Whether the next gang is one that lost a part before."""
        again, following = self._again, self._following
        return bool(again) and (following is None or following.order_key < again[0][0].order)

    def next_victim(self, helps: HelpsStart | None) -> GangState | None:
        """The gang that loses its next unit; gangs that do not help are skipped for good."""
        while True:
            gang = self._again[0][1] if self._again and self._is_again_first() else self._following
            if gang is None or helps is None or helps(gang):
                return gang
            self.skip()

    def skip(self) -> None:
        """Skip the next gang for good."""
        self._take()

    def _take(self) -> GangState | None:
        if self._again and self._is_again_first():
            return heappop(self._again)[1]
        gang, self._following = self._following, self._draw()
        return gang

    def take_head(self, world: WorldState, *, may_postpone: bool) -> EvictionUnit:
        """Evict one unit of the head. A stop of the whole gang may be postponed (:meth:`World.stop_later`)."""
        gang = self._take()
        assert gang is not None
        unit = next_eviction_unit(gang)
        is_whole = len(unit.tasks) == sum(gang.active)
        if may_postpone and is_whole:
            world.stop_later(gang, unit.tasks)
        else:
            world.stop(gang, unit.tasks)
        if not is_whole:
            heappush(self._again, (_ReversedKey(gang.order_key), gang))
        return unit


@dataclass(frozen=True, slots=True)
class BranchPoint:
    """The siblings where the paths of two leaves branch: `ours` above the requesting leaf, `theirs` above the victim.
    `cohorts` are the tree indexes of the cohorts between the victim's branch and the lowest common cohort; `nearness`
    counts the common nodes."""

    ours: QueueState
    theirs: QueueState
    cohorts: tuple[int, ...]
    nearness: int


def inner_branch_points(leaf: QueueState, request: Request) -> Iterator[BranchPoint]:
    """Every branch above its quota in a requested resource among the siblings of the leaf, of its parent, and so on
    upward, below its top queue."""
    for ours, above in pairwise(leaf.path):
        for theirs in above.children:
            if theirs is not ours and is_borrowing(theirs, request):
                yield BranchPoint(ours, theirs, (), 10**6 + len(above.path))


def near_branch_points(world: WorldState, leaf: QueueState, request: Request) -> Iterator[BranchPoint]:
    """The inner branch points, and every such branch among the top queues that share a cohort with that of the leaf."""
    yield from inner_branch_points(leaf, request)
    ours = leaf.path[-1]
    above_us = set(world.cohorts_above(ours))
    for theirs in world.cohort_neighbours(ours):
        if theirs is not ours and is_borrowing(theirs, request):
            above_them = world.cohorts_above(theirs)
            between = tuple(x for x in above_them if x not in above_us)
            yield BranchPoint(ours, theirs, between, len(above_them) - len(between))


def far_branch_points(world: WorldState, leaf: QueueState, request: Request) -> Iterator[BranchPoint]:
    """Every other top queue above its quota in a requested resource, first victims first, as they stand now."""
    ours = leaf.path[-1]
    tree = world.root_cohort(ours)
    for theirs in lenders_by_rank(world, request):
        is_near = theirs is ours or (tree is not None and world.root_cohort(theirs) == tree)
        if not is_near and is_borrowing(theirs, request):
            yield BranchPoint(ours, theirs, (), 0)


def lenders_by_rank(world: WorldState, request: Request) -> list[QueueState]:
    """The top queues above their quota in some resource that counts for the request, first victims first, as they stand
    now."""
    lenders = [top for top in world.tops if not is_within_all_quotas(top, request)]
    if lenders and lenders[0].kinds < 2:
        return sorted(lenders, key=_kept_rank)
    return sorted(lenders, key=lambda top: victim_rank(top, request))


_kept_rank = attrgetter("rank")
"""The rank that was just computed, where the facts have one kind of GPU."""


class Entitlement(IntEnum):
    """The right of a leaf to evict from another branch: none, by its share of the surplus, or by its own quota."""

    NONE = 0
    SHARE = 1
    QUOTA = 2


def entitlement_to(world: WorldState, request: Request, where: BranchPoint) -> Entitlement:
    """The entitlement of the requesting leaf to the branch in the current state, before an eviction."""
    for x in where.cohorts:
        if not any(world.columns[r].balance(x) < 0 for r, _amount in request):
            return Entitlement.NONE
    return entitlement_over(where.theirs, request, is_inside=is_inside_quota(where.ours, request))


def entitlement_over(theirs: QueueState, request: Request, *, is_inside: bool) -> Entitlement:
    """The entitlement to evict below a branch. `is_inside`: the branch of the requesting leaf stays inside its
    quota."""
    if not is_borrowing(theirs, request):
        return Entitlement.NONE
    if is_inside:
        return Entitlement.QUOTA
    return Entitlement.SHARE if is_above_share(theirs, request) else Entitlement.NONE


def is_inside_quota(queue: QueueState, request: Request) -> bool:
    """Whether the queue is within its quota in every resource that counts if it starts this request."""
    after = list(queue.alloc)
    for r, amount in request:
        after[r] += amount
    which = counted_resources(queue, request) if queue.kinds > 1 else None
    if which is not None:
        return all(after[r] <= queue.quota[r] for r in which)
    for have, quota in zip(after, queue.quota, strict=True):  # noqa: SIM110  as below
        if have > quota:
            return False
    return True


def is_above_share(queue: QueueState, request: Request) -> bool:
    """Whether the queue is above its allocatable share in some resource that counts for the request."""
    which = counted_resources(queue, request) if queue.kinds > 1 else None
    if which is not None:
        return any(queue.alloc[r] > queue.allocatable[r] for r in which)
    for have, most in zip(queue.alloc, queue.allocatable, strict=True):  # noqa: SIM110  as below
        if have > most:
            return True
    return False


def is_borrowing(queue: QueueState, request: Request) -> bool:
    """Whether the queue is above its quota in a requested resource."""
    alloc, quota = queue.alloc, queue.quota
    for r, _amount in request:  # noqa: SIM110  a plain loop is quick, and this call is frequent
        if alloc[r] > quota[r]:
            return True
    return False


def keeps_quota(gang: GangState, request: Request, where: BranchPoint) -> bool:
    """Whether no queue from the gang's leaf up to the branch point falls below its quota with the next unit."""
    lost = dict(sum_requests([gang.requests[i] for i in gang.next_to_give_up()]))
    for queue in gang.queue.path if gang.queue is not None else ():
        for r, _amount in request:
            if queue.alloc[r] > queue.quota[r] > queue.alloc[r] - lost.get(r, 0):
                return False
        if queue is where.theirs:
            break
    return True


class Branch:
    """One branch that may lose work, and its leaves, last served first. It is read only when it is its turn, because
    most requests need only the first branch."""

    def __init__(self, where: BranchPoint, request: Request) -> None:
        self.where, self._request = where, request
        self._heap: list[tuple[list[Rank], int]] | None = None
        self._leaves: dict[int, QueueState] = {}
        self._victims: dict[int, LeafVictims] = {}

    def sort_key(self) -> tuple[int, Rank]:
        """The sort key of the branch: nearest in the cohort tree first, then by the rank of the queues."""
        return -self.where.nearness, victim_rank(self.where.theirs, self._request)

    def leaves(self) -> Iterator[QueueState]:
        """The leaves with evictable work and with no queue above them, up to the branch, within its quota."""
        stack = [self.where.theirs]
        while stack:
            queue = stack.pop()
            if is_borrowing(queue, self._request):
                stack += queue.children
                if queue.running:
                    yield queue

    def candidates(self) -> list[Candidate]:
        """Their gangs that may lose work, leaf by leaf."""
        return [
            (gang, gang.fact.priority, gang.running_request)
            for leaf in sorted(self.leaves(), key=self.rank)
            for gang in reversed(leaf.running or ())
        ]

    def in_order(self) -> Iterator[GangState]:
        """The same gangs, one after the other."""
        for leaf in sorted(self.leaves(), key=self.rank):
            yield from reversed(leaf.running or ())

    def rank(self, leaf: QueueState) -> list[Rank]:
        """The sort key of a leaf among those of the branch."""
        path, top = leaf.path, self.where.theirs
        if len(path) == 2 and path[1] is top:
            return [(leaf.rank if leaf.kinds < 2 else None) or victim_rank(leaf, self._request)]
        return [victim_rank(queue, self._request) for queue in reversed(path[: path.index(top)])]

    def _head(self, helps: HelpsStart | None) -> GangState | None:
        """The gang that loses its next unit, or None when no gang of the branch may lose one and helps."""
        if self._heap is None:
            self._heap = []
            for leaf in self.leaves():
                self._leaves[leaf.index] = leaf
                self._heap.append((self.rank(leaf), leaf.index))
            heapify(self._heap)
        while self._heap:
            rank, index = self._heap[0]
            leaf = self._leaves[index]
            now = self.rank(leaf)
            if now != rank:
                # A leaf that loses work moves backwards in the order, so an old rank is never too far back.
                heapreplace(self._heap, (now, index))
                continue
            gang = self._victims_of(leaf).next_victim(helps) if self._may_lose(leaf) else None
            if gang is not None:
                return gang
            heappop(self._heap)
        return None

    def _may_lose(self, leaf: QueueState) -> bool:
        for queue in leaf.path:
            if not is_borrowing(queue, self._request):
                return False
            if queue is self.where.theirs:
                break
        return True

    def take_next(self, world: WorldState, helps: HelpsStart | None, entitlement: Entitlement) -> EvictionUnit | None:
        """Evict one unit of the next victim that this entitlement allows and that helps; None when none is left."""
        while entitlement and (gang := self._head(helps)) is not None:
            assert gang.queue is not None
            victims = self._victims_of(gang.queue)
            if entitlement is Entitlement.QUOTA or keeps_quota(gang, self._request, self.where):
                return victims.take_head(world, may_postpone=helps is not None)
            victims.skip()
        return None

    def _victims_of(self, leaf: QueueState) -> LeafVictims:
        """Most searches evict from one leaf of a branch only, so the others are not read."""
        victims = self._victims.get(leaf.index)
        if victims is None:
            victims = self._victims[leaf.index] = LeafVictims(leaf)
        return victims


class ReclaimVictims:
    """The victims of a reclaim, branch by branch, last served first. The branches far from the leaf are sorted by the
    world and drawn one after the other: most searches end before the second."""

    def __init__(self, world: WorldState, leaf: QueueState, request: Request) -> None:
        self._world, self._leaf, self._request = world, leaf, request
        self._branches: list[Branch] = []
        self._near: dict[int, BranchPoint] = {}
        self._heap: list[tuple[tuple[int, Rank], int]] = []
        self._is_ready = False

    def _prepare(self) -> None:
        """Find the branches before the first eviction; many searches end before they need them."""
        self._is_ready = True
        # A search evicts siblings of the leaf too, which brings the top queue of both back inside its quota. The
        # entitlement to other top queues is that of the beginning.
        self._is_inside = is_inside_quota(self._leaf.path[-1], self._request)
        # Most branches lend nothing and are dropped here.
        near = self._near_points()
        self._near = {w.theirs.index: w for w in near if entitlement_to(self._world, self._request, w)}
        for where in self._near.values():
            self._push(Branch(where, self._request))
        self._far = self._far_lenders()
        self._next_far = next(self._far, None)

    def _near_points(self) -> Iterator[BranchPoint]:
        return near_branch_points(self._world, self._leaf, self._request)

    def _far_lenders(self) -> Iterator[Branch]:
        for where in far_branch_points(self._world, self._leaf, self._request):
            if entitlement_over(where.theirs, self._request, is_inside=self._is_inside):
                yield Branch(where, self._request)

    def _push(self, branch: Branch) -> None:
        heappush(self._heap, (branch.sort_key(), len(self._branches)))
        self._branches.append(branch)

    def _draw(self) -> None:
        """Add the next far branch when it is its turn."""
        while self._next_far is not None and not (self._heap and self._heap[0][0] < self._next_far.sort_key()):
            self._push(self._next_far)
            self._next_far = next(self._far, None)

    def take_next(self, helps: HelpsStart | None) -> EvictionUnit | None:
        """Evict one unit of the next victim that helps; None when no victim is left."""
        if not self._is_ready:
            self._prepare()
        self._draw()
        while self._heap:
            sort_key, i = self._heap[0]
            branch = self._branches[i]
            now = branch.sort_key()
            if now != sort_key:
                heapreplace(self._heap, (now, i))
                self._draw()
                continue
            unit = branch.take_next(self._world, helps, entitlement_to(self._world, self._request, branch.where))
            if unit is not None:
                return unit
            heappop(self._heap)
            self._draw()
        return None

    def candidates(self) -> Iterator[list[Candidate]]:
        """All gangs that may lose work, branch by branch and leaf by leaf."""
        return map(Branch.candidates, self._all_branches())

    def in_order(self) -> Iterator[GangState]:
        """The same gangs."""
        return chain.from_iterable(map(Branch.in_order, self._all_branches()))

    def _all_branches(self) -> Iterator[Branch]:
        if not self._is_ready:
            self._prepare()
        near = sorted((Branch(where, self._request) for where in self._near.values()), key=Branch.sort_key)
        return chain(near, self._far_lenders())

    def candidates_below(self, tops: Collection[QueueState]) -> Iterator[list[Candidate]]:
        """The gangs that may lose work below these top queues, and perhaps some more, in any order."""
        if not self._is_ready:
            self._prepare()
        near = (Branch(where, self._request) for where in self._near.values() if where.theirs.path[-1] in tops)
        ours = self._leaf.path[-1]
        others = (top for top in tops if top is not ours and top.index not in self._near)
        far = (Branch(BranchPoint(ours, top, (), 0), self._request) for top in others)
        return map(Branch.candidates, chain(near, far))

    def may_take(self, gang: GangState) -> bool:
        """Whether the gang may lose one more unit to the requesting leaf."""
        if not self._is_ready:
            self._prepare()
        for queue in gang.queue.path if gang.queue is not None else ():
            if not is_borrowing(queue, self._request):
                return False
            where = self._near.get(queue.index)
            if where is None and queue.parent is None:
                where = BranchPoint(self._leaf.path[-1], queue, (), 0)
            if where is not None:
                entitlement = entitlement_to(self._world, self._request, where)
                return entitlement is Entitlement.QUOTA or (
                    entitlement is Entitlement.SHARE and keeps_quota(gang, self._request, where)
                )
        return False

    def equal_victims(self, gang: GangState) -> tuple[object, Iterable[GangState]]:
        """The gangs of its leaf: queues come before priorities."""
        assert gang.queue is not None
        return gang.queue.index, reversed(gang.queue.running or ())


class InnerVictims(ReclaimVictims):
    """The victims of a reclaim that are below the top queue of the leaf."""

    def _near_points(self) -> Iterator[BranchPoint]:
        return inner_branch_points(self._leaf, self._request)

    def _far_lenders(self) -> Iterator[Branch]:
        return iter(())


class PreemptVictims:
    """The victims of a preemption: the same leaf, a lower priority."""

    def __init__(self, world: WorldState, leaf: QueueState, priority: int) -> None:
        self._world, self.leaf, self._priority = world, leaf, priority
        self._victims = LeafVictims(leaf, below=priority)

    def take_next(self, helps: HelpsStart | None) -> EvictionUnit | None:
        """Evict one unit of the next victim that helps; None when no victim is left."""
        if self._victims.next_victim(helps) is None:
            return None
        return self._victims.take_head(self._world, may_postpone=helps is not None)

    def candidates(self) -> Iterator[list[Candidate]]:
        """All gangs of a lower priority."""
        yield [(gang, gang.fact.priority, gang.running_request) for gang in self.in_order()]

    def in_order(self) -> Iterator[GangState]:
        """The same gangs."""
        return (gang for gang in reversed(self.leaf.running or ()) if self.may_take(gang))

    def may_take(self, gang: GangState) -> bool:
        """Whether the gang has a lower priority."""
        return gang.fact.priority < self._priority

    def equal_victims(self, gang: GangState) -> tuple[object, Iterable[GangState]]:
        """The gangs of the leaf."""
        return self.leaf.index, reversed(self.leaf.running or ())


class GuestVictims:
    """The victims of a reserved gang that takes back its nodes: guests, then work of its own leaf with a lower
    priority, then work that borrows quota."""

    def __init__(self, world: WorldState, leaf: QueueState, gang: GangState, guests: Sequence[GangState]) -> None:
        """`guests`: last served first."""
        self._world, self._guests = world, guests
        self._lower = PreemptVictims(world, leaf, gang.fact.priority)
        self._borrowers = ReclaimVictims(world, leaf, gang.next_request)

    def take_next(self, helps: HelpsStart | None) -> EvictionUnit | None:
        """Evict one unit of the next victim that helps; None when no victim is left."""
        for gang in self._guests:
            if any(gang.active) and (helps is None or helps(gang)):
                unit = next_eviction_unit(gang)
                self._world.stop(gang, unit.tasks)
                return unit
        return self._lower.take_next(helps) or self._borrowers.take_next(helps)

    def candidates(self) -> Iterator[Sequence[Candidate]]:
        """All of them."""
        yield [(gang, gang.fact.priority, gang.running_request) for gang in self._guests]
        yield from self._lower.candidates()
        yield from self._borrowers.candidates()

    def in_order(self) -> Iterator[GangState]:
        """The same gangs."""
        return chain(self._guests, self._lower.in_order(), self._borrowers.in_order())

    def may_take(self, gang: GangState) -> bool:
        """Whether the gang is a guest, has a lower priority in the leaf, or borrows quota."""
        if gang.queue is self._lower.leaf:
            return self._lower.may_take(gang)
        return gang in self._guests or self._borrowers.may_take(gang)

    def equal_victims(self, gang: GangState) -> tuple[object, Iterable[GangState]]:
        """The guests, or those of its leaf."""
        return ("guests", self._guests) if gang in self._guests else self._borrowers.equal_victims(gang)


def is_fair_after(leaf: QueueState, request: Request, evicted: Sequence[tuple[QueueState, Request]]) -> bool:
    """KAI's check after a reclaim: on no level may the requesting branch be above its fair share and at least as far
    above it as a sibling that lost work. `evicted`: the evicted amounts of each leaf."""
    losers: dict[int, tuple[QueueState, set[int]]] = {}
    for queue, amounts in evicted:
        for above in queue.path:
            losers.setdefault(above.index, (above, set()))[1].update(r for r, _amount in (*request, *amounts))
    for ours in leaf.path:
        for sibling, resources in losers.values():
            if sibling.parent is not ours.parent or sibling is ours:
                continue
            if not all(may_lose_for(sibling, ours.alloc[r], ours.fair[r], r) for r in resources):
                return False
    return True


def may_lose_for(sibling: QueueState, have: Amount, fair: Amount, r: int) -> bool:
    """Whether the fair shares let a queue lose work to a sibling that then has this amount of the resource."""
    theirs = sibling.fair[r]
    return have <= fair or theirs <= 0 or sibling.alloc[r] * fair > have * theirs
