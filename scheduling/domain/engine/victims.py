"""Whose work may be taken, and in which order (kai.md 6.4; the reverse of the order in which work is served).

A gang is taken step by step: what it has beyond its minimum first, its core at once at the end. Between two leaves it
is judged where their branches part: A on the side of the one who asks, B on the other. B's unit may go when

* A stays inside its quota and B is above its own, or B holds more than its allocatable share in some resource;
* and nobody on the victim's side, from its leaf up to B and to the cohorts below the common one, is within its quota:
  a pool under its quota never loses work to another pool;
* and who is not inside a quota, but asks for a share of the surplus, pushes nobody below a quota. KAI would take a gang
  that lies across that line: the two then take each other's work for ever, since a quota is stronger than a share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from heapq import heapify, heappop, heappush, heapreplace

from pools.domain.amounts import UNLIMITED, Amount

from .nodes import Request
from .order import victim_rank
from .state import GangState, QueueState, Rank, total_of
from .world import World


@dataclass(frozen=True, slots=True)
class Unit:
    """One step of giving up: these tasks of the gang, which stood on these nodes."""

    gang: GangState
    tasks: tuple[int, ...]
    nodes: tuple[int, ...]


def next_unit(gang: GangState) -> Unit:
    """What the gang, which has active tasks, would give up next; the last tasks of the spec first."""
    tasks: list[int] = []
    for leaf, count in gang.tree.give_up(gang.active):
        tasks.extend(gang.lines.last(leaf, count))
    return Unit(gang, tuple(tasks), tuple(gang.node[i] for i in tasks))


class _Backwards:
    """Turns an order round for a heap."""

    __slots__ = ("order",)

    def __init__(self, order: tuple[object, ...]) -> None:
        self.order = order

    def __lt__(self, other: _Backwards) -> bool:
        return other.order < self.order


class LeafVictims:
    """The preemptible gangs of one leaf, last served first; a gang that lost a part stands in line again."""

    def __init__(self, leaf: QueueState, below: int | None = None) -> None:
        """`below`: only gangs of a priority lower than this."""
        self.leaf = leaf
        self._below = below
        self._rest: Iterator[GangState] = iter(()) if leaf.running is None else reversed(leaf.running)
        self._heap: list[tuple[_Backwards, GangState]] = []
        self._draw()

    def _draw(self) -> None:
        for gang in self._rest:
            if self._below is None or gang.fact.priority < self._below:
                heappush(self._heap, (_Backwards(gang.order), gang))
                return

    def head(self) -> GangState | None:
        """The gang that loses something next."""
        return self._heap[0][1] if self._heap else None

    def skip(self) -> None:
        """Leave the head alone from now on."""
        heappop(self._heap)
        self._draw()

    def take(self, world: World) -> Unit:
        """Let the head give up one unit."""
        gang = heappop(self._heap)[1]
        unit = next_unit(gang)
        world.stop(gang, unit.tasks)
        self._draw()
        if any(gang.active):
            heappush(self._heap, (_Backwards(gang.order), gang))
        return unit


@dataclass(frozen=True, slots=True)
class Parting:
    """Where the branches of two leaves part: `ours` and `theirs` are siblings; `cohorts` are the places in the tree of
    the cohorts between their branch and the lowest cohort above both; `nearness` counts what they have in common."""

    ours: QueueState
    theirs: QueueState
    cohorts: tuple[int, ...]
    nearness: int


def parting(world: World, ours: QueueState, theirs: QueueState) -> Parting:
    """For two different leaves."""
    common = 0
    for a, b in zip(reversed(ours.path), reversed(theirs.path), strict=False):
        if a is not b:
            break
        common += 1
    a, b = ours.path[-1 - common], theirs.path[-1 - common]
    if common:
        return Parting(a, b, (), 10**6 + common)
    above_us, above_them = _cohorts(world, a), _cohorts(world, b)
    shared = set(above_us) & set(above_them)
    between = tuple(x for x in above_them if x not in shared) if shared else ()
    return Parting(a, b, between, len(shared))


def _cohorts(world: World, top: QueueState) -> list[int]:
    found = []
    x = world.tree.parents[top.column]
    while x >= 0:
        found.append(x)
        x = world.tree.parents[x]
    return found


class Claim(IntEnum):
    """What lets a leaf take from another one: nothing, a share of the surplus, or its own quota."""

    NONE = 0
    SHARE = 1
    QUOTA = 2


def claim_on(world: World, leaf: QueueState, theirs: QueueState, ask: Request, where: Parting) -> Claim:
    """What `leaf` may claim from `theirs`, as things stand before anything goes."""
    for queue in theirs.path:
        for r, _amount in ask:
            if queue.alloc[r] > queue.quota[r]:
                break
        else:
            return Claim.NONE
        if queue is where.theirs:
            break
    for x in where.cohorts:
        if not any(world.columns[r].t(x) < 0 for r, _amount in ask):
            return Claim.NONE
    b = where.theirs
    after = list(where.ours.alloc)
    for r, amount in ask:
        after[r] += amount
    inside = all(have <= quota for have, quota in zip(after, where.ours.quota, strict=True))
    if inside and any(have > quota for have, quota in zip(b.alloc, b.quota, strict=True)):
        return Claim.QUOTA
    above = any(have > most for have, most in zip(b.alloc, b.allocatable, strict=True))
    return Claim.SHARE if above else Claim.NONE


def leaves_the_quota(gang: GangState, ask: Request, where: Parting) -> bool:
    """Whether no queue from the gang's leaf to where the branches part falls below its quota with the next unit."""
    lost = dict(total_of([gang.requests[i] for i in next_unit(gang).tasks]))
    for queue in gang.queue.path if gang.queue is not None else ():
        for r, _amount in ask:
            if queue.alloc[r] > queue.quota[r] > queue.alloc[r] - lost.get(r, 0):
                return False
        if queue is where.theirs:
            break
    return True


class OtherLeaves:
    """The victims of a reclaim: nearest in the tree of cohorts first, then as the queues stand, last served first."""

    def __init__(self, world: World, leaf: QueueState, ask: Request) -> None:
        self._world, self._leaf, self._ask = world, leaf, ask
        self._where = {q.index: parting(world, leaf, q) for q in world.borrowers(ask) if q is not leaf}
        self._start = [
            queue
            for queue in (world.queues[index] for index in self._where)
            if claim_on(world, leaf, queue, ask, self._where[queue.index])
        ]
        self._heap = [(self._rank(queue), queue.index) for queue in self._start]
        heapify(self._heap)
        self._victims: dict[int, LeafVictims] = {}

    def take(self) -> Unit | None:
        """Let the next victim give up one unit; None when nobody is left who may be asked."""
        while self._heap:
            rank, index = self._heap[0]
            queue = self._world.queues[index]
            now = self._rank(queue)
            if now != rank:
                # Who loses stands further back than before, so an old rank is never too far back.
                heapreplace(self._heap, (now, index))
                continue
            victims = self._victims.get(index)
            if victims is None:
                victims = self._victims[index] = LeafVictims(queue)
            gang = victims.head()
            if gang is None or not self._claim(queue):
                heappop(self._heap)
            elif self.allows(gang):
                return victims.take(self._world)
            else:
                victims.skip()
        return None

    def pool(self) -> list[GangState]:
        """Everybody who may be asked, leaf by leaf."""
        leaves = sorted(self._start, key=self._rank)
        return [gang for leaf in leaves if leaf.running is not None for gang in reversed(leaf.running)]

    def allows(self, gang: GangState) -> bool:
        """Whether the gang may lose one more unit to the asker."""
        if gang.queue is None:
            return False
        claim = self._claim(gang.queue)
        return claim is Claim.QUOTA or (
            claim is Claim.SHARE and leaves_the_quota(gang, self._ask, self._where[gang.queue.index])
        )

    def _claim(self, queue: QueueState) -> Claim:
        return claim_on(self._world, self._leaf, queue, self._ask, self._where[queue.index])

    def _rank(self, leaf: QueueState) -> tuple[int, list[Rank]]:
        return -self._where[leaf.index].nearness, [victim_rank(queue) for queue in reversed(leaf.path)]


class OwnLeaf:
    """The victims of a preemption: the same leaf, a lower priority."""

    def __init__(self, world: World, leaf: QueueState, priority: int) -> None:
        self._world, self._leaf, self._priority = world, leaf, priority
        self._victims = LeafVictims(leaf, below=priority)

    def take(self) -> Unit | None:
        """Let the next victim give up one unit; None when nobody is left."""
        return self._victims.take(self._world) if self._victims.head() is not None else None

    def pool(self) -> list[GangState]:
        """Everybody of a lower priority."""
        running = self._leaf.running
        return [gang for gang in reversed(running) if self.allows(gang)] if running is not None else []

    def allows(self, gang: GangState) -> bool:
        """Priority alone decides."""
        return gang.fact.priority < self._priority


def stays_fair(leaf: QueueState, ask: Request, lost: Sequence[tuple[QueueState, Request]]) -> bool:
    """KAI's last look at a reclaim, after it: on no level may the asker's branch be above its fair share and at least
    as far above it as a sibling that lost something is now. `lost`: what each leaf lost for good."""
    losers: dict[int, tuple[QueueState, set[int]]] = {}
    for queue, taken in lost:
        for above in queue.path:
            losers.setdefault(above.index, (above, set()))[1].update(r for r, _amount in (*ask, *taken))
    for ours in leaf.path:
        for sibling, resources in losers.values():
            if sibling.parent is not ours.parent or sibling is ours:
                continue
            for r in resources:
                mine = _saturation(ours, r)
                if mine > 1 and sibling.fair[r] > 0 and mine >= _saturation(sibling, r):
                    return False
    return True


def _saturation(queue: QueueState, r: int) -> Amount:
    have, fair = queue.alloc[r], queue.fair[r]
    if have <= 0 or fair == UNLIMITED:
        return 0
    return UNLIMITED if fair == 0 else Fraction(have) / Fraction(fair)
