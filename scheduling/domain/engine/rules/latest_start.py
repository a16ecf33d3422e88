"""When a reserved gang starts at the latest: the ends of the work that runs, and what they release."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pools.domain.amounts import UNLIMITED, Number
from scheduling.domain.engine.rules.reserved_start import ReservedStart
from scheduling.domain.engine.state.nodes import NOWHERE, NodeIndex
from scheduling.domain.engine.state.placement import could_place
from scheduling.domain.engine.state.records import FINISHED, WAITING, GangState, QueueState


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
    """The end after which the gang has its quota and its places beside the older reservations that hold it back; where
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
    """What the nodes lack for a reservation beside older ones, while other work ends."""

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
        """Count the end of a gang. Returns whether it may help."""
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
    """What the quotas and limits above a gang lack for it and for some reservations, while other work ends."""

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
        """Let the other gang use so much more. Returns whether some of it was lacking before."""
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
