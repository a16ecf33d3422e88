"""One start reservation: the rules between it and other gangs, the quota that it needs next to that of others, and when
its gang starts at the latest, by the ends of the running work.

Non-preemptible work is always inside the quotas of its own path, and takes back there what preemptible work borrows. So
two such gangs share nothing but the quotas and limits of the queues above both."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pools.domain.values.amounts import UNLIMITED, Amount, Number
from scheduling.domain.engine.rules.gates import is_within_quota
from scheduling.domain.engine.state.nodes import NOWHERE, NodeIndex, Request
from scheduling.domain.engine.state.placement import could_place
from scheduling.domain.engine.state.records import FINISHED, WAITING, GangState, QueueState
from scheduling.domain.engine.state.world_state import WorldState

ReservationRank = tuple[Number, Number, str]
"""The place of a reservation in the one order of all reservations: the time since which it exists, the time since which
its gang waits, the name of the gang."""


@dataclass(slots=True, eq=False)
class ReservedStart:
    """A gang with a start reservation that exists `since` this time. `places`: the requests of its tasks on each node
    (by number), chosen at the time `placed`; None while quotas and limits do not let it start."""

    gang: GangState
    since: Number
    places: dict[int, Request] | None = None
    placed: Number | None = None

    @property
    def rank(self) -> ReservationRank:
        """Its place in the order of all reservations."""
        return self.since, waits_since(self.gang), self.gang.fact.name


def waits_since(gang: GangState) -> Number:
    """Since when the gang waits, in seconds."""
    since = gang.fact.waiting_since
    return gang.fact.submitted if since is None else since


def holds_back(reserved: GangState, gang: GangState, *, knows_shares: bool = True) -> bool:
    """Whether a reservation holds back the gang; the order of reservations and time limits are left aside.

    `knows_shares`: False where the facts leave waiting work out, so that fair shares look larger than they are. There
    the reservation holds back work inside its share too."""
    if gang is reserved or gang in reserved.choices or (reserved.preemptible and not gang.preemptible):
        return False
    queue, other = gang.queue, reserved.queue
    if queue is None or other is None:
        return False
    if queue is other:
        return gang.order_key > reserved.order_key and not can_take_back(reserved, gang)
    if not (gang.preemptible and reserved.preemptible):
        return True
    return not knows_shares or _is_inside_share(reserved, other) or not _is_inside_share(gang, queue)


def can_take_back(reserved: GangState, gang: GangState) -> bool:
    """Whether the gang may use nodes that are reserved, because the reserved gang can take them back: preemptible work,
    for a reserved gang that is not preemptible; in its own leaf, of a lower priority."""
    if reserved.preemptible or not gang.preemptible:
        return False
    return gang.queue is not reserved.queue or gang.fact.priority < reserved.fact.priority


def _is_inside_share(gang: GangState, queue: QueueState) -> bool:
    return all(queue.alloc[r] + amount <= queue.fair[r] for r, amount in gang.next_request)


def quota_rooms(world: WorldState, gang: GangState, earlier: GangState | None = None) -> list[Amount]:
    """The amounts that each quota and limit above a gang, and the cohort tree, leave when it starts; below 0 they are
    too small for it. `earlier`: a gang that would start before it.

    Where a queue below has more work than fits next to the gang, the surplus has to end first, which gives the
    queues above it as much room."""
    queue = gang.queue
    assert queue is not None, "a reserved gang has a queue"
    rooms: list[Amount] = []
    added = {} if earlier is None else dict(earlier.next_request)
    for r, needed in gang.next_request:
        extra = added.get(r, 0)
        firm_change: Amount = 0 if gang.preemptible else needed
        other_change: Amount = needed if gang.preemptible else 0
        for above in queue.path:
            more = extra if _is_below(earlier, above) else 0
            more_firm = 0 if earlier is None or earlier.preemptible else more
            firm = above.non_preemptible[r] + more_firm + firm_change
            used = above.alloc[r] + more + firm_change + other_change
            if not gang.preemptible:
                rooms.append(above.quota[r] - firm)
                excess = max(0, firm - above.quota[r])
                firm_change, used = firm_change - excess, used - excess
            rooms.append(above.limit[r] - used)
            other_change -= max(0, used - above.limit[r])
        if queue.has_cohort_above:
            column = world.columns[r]
            is_under = earlier is not None and earlier.queue is not None and earlier.queue.has_cohort_above
            changes = [(earlier.queue.column, extra)] if is_under and extra else []  # type: ignore[union-attr]
            with column.changed(changes):
                rooms.append(column.available(queue.column) - firm_change - other_change)
    return rooms


def firm_rooms(gang: GangState, earlier: GangState | None = None) -> list[Amount]:
    """The amounts that quotas and limits leave a non-preemptible gang, as if no preemptible work were there."""
    queue = gang.queue
    assert queue is not None, "a reserved gang has a queue"
    rooms: list[Amount] = []
    added = {} if earlier is None else dict(earlier.next_request)
    for r, needed in gang.next_request:
        change: Amount = needed
        for above in queue.path:
            most = min(above.quota[r], above.limit[r])
            used = above.non_preemptible[r] + change + (added.get(r, 0) if _is_below(earlier, above) else 0)
            rooms.append(most - used)
            change -= max(0, used - most)
    return rooms


def could_take_quota(world: WorldState, gang: GangState, queue: QueueState) -> bool:
    """Whether quotas and limits let this non-preemptible gang start now, once it has taken back what preemptible work
    borrows, and what such work of its own leaf holds."""
    if not (queue.is_open and is_within_quota(queue, gang.next_request)):
        return False
    for r, amount in gang.next_request:
        for above, taken in _taken_back_on(queue, r):
            if above.alloc[r] - taken + amount > above.limit[r]:
                return False
    return not lacks_cohort_quota(world, gang, queue)


def lacks_cohort_quota(world: WorldState, gang: GangState, queue: QueueState) -> bool:
    """Whether the cohort tree has too little for the gang; for a non-preemptible one, once it has taken back what
    preemptible work borrows."""
    if not queue.has_cohort_above:
        return False
    for r, amount in gang.next_request:
        column = world.columns[r]
        if amount <= column.available(queue.column):
            continue
        if gang.preemptible:
            return True
        top = queue.path[-1]
        changes = [(other.column, -_borrowed(other, r)) for other in world.cohort_neighbours(top) if other is not top]
        *_below, (_top, taken) = _taken_back_on(queue, r)
        with column.changed([*changes, (queue.column, -taken)]):
            if amount > column.available(queue.column):
                return True
    return False


def _taken_back_on(queue: QueueState, r: int) -> Iterator[tuple[QueueState, Number]]:
    """The queues above a leaf, with what a non-preemptible gang of the leaf could take back below each of them."""
    taken = _preemptible(queue, r)
    yield queue, taken
    for below, above in zip(queue.path, queue.path[1:], strict=False):
        taken += sum(_borrowed(other, r) for other in above.children if other is not below)
        yield above, taken


def _borrowed(queue: QueueState, r: int) -> Number:
    """The amount that preemptible work below a queue uses above the quotas there, on this cluster."""
    quota = queue.quota[r]
    over = queue.alloc[r] - quota
    if over <= 0 or queue.fact.is_external:
        return 0
    below = sum(_borrowed(each, r) for each in queue.children) if queue.children else _preemptible(queue, r)
    return min(over, below)  # type: ignore[return-value]


def _preemptible(queue: QueueState, r: int) -> Number:
    """The amount that preemptible work of a leaf uses, as far as this run lists it."""
    return sum(dict(gang.running_request).get(r, 0) for gang in queue.running or () if gang.is_evictable)


def _is_below(gang: GangState | None, queue: QueueState) -> bool:
    return gang is not None and gang.queue is not None and queue in gang.queue.path


@dataclass(frozen=True, slots=True)
class LatestStart:
    """When a reserved gang starts at the latest, in seconds; None: it is not known. `is_certain`: time limits say so,
    and the reservation holds all that the gang needs, so that only an event moves this time: work that comes first by
    its priority, age or share, a change of quotas, nodes or limits. Otherwise expected run times say so."""

    time: Number | None
    is_certain: bool


@dataclass(frozen=True, slots=True)
class WorkEnd:
    """The end of a running gang; `math.inf` when it is not known. `is_certain`: by its time limit."""

    time: Number | float
    is_certain: bool
    gang: GangState


def find_end(gang: GangState, started: Number, now: Number) -> WorkEnd:
    """The end of a running gang by the expected run time, or the time limit if that is earlier. A gang that runs longer
    than expected ends by its limit, or nobody knows when: a guess that moves would let other work start before the
    reservation again and again."""
    fact = gang.fact
    limit = math.inf if fact.time_limit is None else started + fact.time_limit
    expected = math.inf if fact.expected_time is None else started + fact.expected_time
    if now < expected < limit:
        return WorkEnd(expected, False, gang)
    return WorkEnd(limit, fact.time_limit is not None, gang)


def find_latest_start(
    held: ReservedStart,
    older: Sequence[ReservedStart],
    nodes: NodeIndex | None,
    ends: Iterable[WorkEnd],
    taken_back: Collection[GangState],
) -> LatestStart:
    """The end after which the gang has its quota and its places next to the older reservations that hold it back; where
    no places are chosen yet, places that are free then, as things stand.

    `nodes`: with their free amounts now; `ends`: of all running work, first ones first; `taken_back`: the running work
    that the gang can take back, which does not stand in its way. The time is None too where something else than running
    work is in the way."""
    gang, queue = held.gang, held.gang.queue
    assert queue is not None, "a reserved gang has a queue"
    room = QuotaRoom(gang, queue, older)
    places = None if nodes is None else _PlacesRoom(held, older, nodes)

    def release(other: GangState) -> bool:
        helps = room.count_end(other)
        return (places is not None and places.count_end(other)) or helps

    def is_enough() -> bool:
        return room.is_enough and (places is None or places.is_enough)

    for other in taken_back:
        release(other)
    if is_enough():
        return LatestStart(None, is_certain=False)
    is_certain = True
    for end in ends:
        if end.gang in taken_back or not release(end.gang):
            continue
        is_certain = is_certain and end.is_certain
        if is_enough():
            return LatestStart(None if isinstance(end.time, float) else end.time, is_certain)
    return LatestStart(None, is_certain=False)


class _PlacesRoom:
    """The amounts that the nodes lack for a reservation and older ones, while other work ends."""

    def __init__(self, held: ReservedStart, older: Iterable[ReservedStart], nodes: NodeIndex) -> None:
        self._gang = held.gang
        self._free: NodeIndex | None = None
        """Where no places are chosen, the nodes without what older reservations hold."""
        if held.places is None:
            self._free = NodeIndex(nodes.names, nodes.free, nodes.width)
            for other in older:
                for n, need in (other.places or {}).items():
                    self._free.reserve(n, need)
        self._lacking = {
            (n, r): amount - nodes.free[n][r] for n, need in (held.places or {}).items() for r, amount in need
        }
        for other in older:
            for n, need in (other.places or {}).items():
                for r, amount in need:
                    if (n, r) in self._lacking:
                        self._lacking[n, r] += amount

    @property
    def is_enough(self) -> bool:
        """Whether the gang fits."""
        if self._free is not None:
            return could_place(self._free, [self._gang.needs[i] for i in self._gang.next_tasks()]) is not None
        return all(amount <= 0 for amount in self._lacking.values())

    def count_end(self, other: GangState) -> bool:
        """Count the end of a gang. Returns whether it may help the reserved one."""
        helps = False
        for i, r, amount in held_amounts(other):
            n = other.node[i]
            if self._free is not None and n != NOWHERE:
                self._free.release(n, ((r, amount),))
                helps = True
            elif (n, r) in self._lacking:
                helps = helps or self._lacking[n, r] > 0
                self._lacking[n, r] -= amount
        return helps


class QuotaRoom:
    """The amounts that the quotas and limits above a gang lack for it and for some reservations, while other work
    ends."""

    def __init__(self, gang: GangState, queue: QueueState, older: Iterable[ReservedStart] = ()) -> None:
        self._path = queue.path
        self._lacking: dict[tuple[int, int, bool], Number] = {}
        for above in queue.path:
            for r, amount in gang.next_request:
                limit = above.limit[r]
                if limit != UNLIMITED:
                    self._lacking[above.index, r, True] = above.alloc[r] + amount - limit  # type: ignore[assignment]
                quota = above.quota[r]
                if not gang.preemptible and quota != UNLIMITED:
                    self._lacking[above.index, r, False] = above.non_preemptible[r] + amount - quota  # type: ignore[assignment]
        for other in older:
            for r, amount in other.gang.next_request:
                self._count(other.gang, r, amount)

    @property
    def is_enough(self) -> bool:
        """Whether nothing is lacking."""
        return all(amount <= 0 for amount in self._lacking.values())

    def count_end(self, other: GangState) -> bool:
        """Count the end of a gang. Returns whether it releases something that is lacking."""
        helps = False
        for _i, r, amount in held_amounts(other):
            helps = self._count(other, r, -amount) or helps
        return helps

    def _count(self, other: GangState, r: int, amount: Number) -> bool:
        """Let the other gang use this amount more. Returns whether some of it was lacking before."""
        was_lacking = False
        for above in self._path if other.queue is not None else ():
            if above not in other.queue.path:  # type: ignore[union-attr]
                continue
            for is_limit in (True,) if other.preemptible else (True, False):
                key = (above.index, r, is_limit)
                if key in self._lacking:
                    was_lacking = was_lacking or self._lacking[key] > 0
                    self._lacking[key] += amount
        return was_lacking


def held_amounts(gang: GangState) -> Iterator[tuple[int, int, Number]]:
    """Task, resource and amount of everything that the gang holds."""
    for i, status in enumerate(gang.status):
        if status not in {WAITING, FINISHED}:
            for r, amount in gang.requests[i]:
                yield i, r, amount
