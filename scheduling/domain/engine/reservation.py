"""The policy against endless waiting: start reservations, and the work that may start before them (backfill).

Without it, a gang that needs much room may be passed forever by smaller gangs that use each freed piece. After a
settable wait the first gang of a leaf gets a reservation: of non-preemptible work the first, and of preemptible work
the first. It holds back later gangs, first from the quotas and limits that the gang lacks, and, once these let it
start, from certain nodes. Running work is left alone, so the held part only grows, and the gang starts at the latest
when the work that ran there has ended. The nodes of a reservation stay the same until the gang has started.

A reservation holds back no gang that

* comes before the reserved gang in the same leaf;
* ends before the reserved gang could start, by its time limit;
* is not preemptible, while the reserved gang is: a guarantee comes before it;
* can be taken back: preemptible work of the same leaf, while the reserved gang is not preemptible and has a higher
  priority;
* is inside the fair share of another leaf, while the reserved gang is over its own.
"""

from __future__ import annotations

import math
import weakref
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from pools.domain.amounts import UNLIMITED, Number
from scheduling.domain.engine.facts import PolicyFacts, StartReservationFacts
from scheduling.domain.engine.gates import may_start
from scheduling.domain.engine.nodes import NOWHERE, NodeIndex, Request
from scheduling.domain.engine.placement import place_requests
from scheduling.domain.engine.state import FINISHED, WAITING, GangState, QueueState, sum_requests

if TYPE_CHECKING:
    from scheduling.domain.engine.world import World

MAX_RESERVATIONS = 16
"""The most reservations at one time, for the gangs that have waited longest. Each of them keeps capacity idle."""


@dataclass(frozen=True, slots=True)
class LatestStart:
    """When a reserved gang starts at the latest, in seconds; None: the end of some work is not known. `is_certain`:
    time limits say so; otherwise expected run times do."""

    time: Number | None
    is_certain: bool


@dataclass(slots=True)
class _Reservation:
    """`places`: the node and the need of the gang there; None while quotas and limits do not let it start."""

    gang: GangState
    since: Number
    places: dict[int, Request] | None = None


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a running gang; `math.inf` when it is not known."""

    time: Number | float
    is_certain: bool
    gang: GangState


class StartPolicy:
    """The reservations of one cluster. `now` is the time of the run, in seconds."""

    def __init__(self, world: World, facts: PolicyFacts) -> None:
        # Not a reference of its own: the world is freed by its reference count.
        self._world, self._facts = cast("World", weakref.proxy(world)), facts
        self.now = facts.now
        self._started = {gang.index: gang.fact.started for gang in world.gangs if gang.fact.started is not None}
        self._held: list[_Reservation] = []
        self._applied: list[_Reservation] = []
        """The reservations whose nodes are withheld from the gang that is tried."""
        self._possible: dict[tuple[int, int], bool] = {}
        self._unplaceable: dict[int, tuple[int, ...]] = {}
        self._latest: dict[int, LatestStart] = {}
        self._ends: list[_End] | None = None
        self._will_have: dict[int, bool] = {}
        """Whether a reserved gang without quota will have it; until something starts or stops."""
        self._heads: list[tuple[Number, str, GangState]] = []
        """The heads of all leaves by the time since that they wait, then by name."""
        self._heads_of: dict[int, list[tuple[Number, str, GangState]]] = {}
        self._stale = {queue.index: queue for queue in world.queues}
        """The leaves whose heads may be other gangs now."""
        for each in facts.reservations:
            gang = world.gang_of.get(each.gang)
            if gang is not None and gang.queue is not None:
                self._held.append(_Reservation(gang, each.since, self._places_of(each.nodes)))

    def _places_of(self, nodes: Mapping[str, Mapping[str, Number]] | None) -> dict[int, Request] | None:
        """The places of a reservation of the facts; None if a node or a resource is gone."""
        world = self._world
        if nodes is None:
            return None
        if world.nodes is None:
            return {}
        numbers = {name: i for i, name in enumerate(world.nodes.names)}
        index_of = {key: r for r, key in enumerate(world.keys)}
        if not all(name in numbers and index_of.keys() >= amounts.keys() for name, amounts in nodes.items()):
            return None
        return {
            numbers[name]: tuple(sorted((index_of[key], amount) for key, amount in amounts.items()))
            for name, amounts in nodes.items()
        }

    # -- what happens to gangs ---------------------------------------------------------------------------------------

    def note_change(self, gang: GangState) -> None:
        """Tasks of the gang started or stopped."""
        self._will_have.clear()
        if any(gang.active):
            self._started.setdefault(gang.index, self.now)
        else:
            self._started.pop(gang.index, None)

    def note_lists(self, leaf: QueueState) -> None:
        """The waiting gangs of the leaf change."""
        self._stale[leaf.index] = leaf

    def note_restart(self, gang: GangState) -> None:
        """The gang moved, and begins again."""
        self._started[gang.index] = self.now

    def started_at(self, gang: GangState) -> Number | None:
        """When a running gang started; None if it waits or the time is not known."""
        return self._started.get(gang.index)

    # -- reservations ------------------------------------------------------------------------------------------------

    def facts(self) -> PolicyFacts:
        """The policy with its reservations as they stand now."""
        return replace(self._facts, now=self.now, reservations=tuple(self.reservations()))

    def reservations(self) -> Iterator[StartReservationFacts]:
        """The reservations of gangs that still wait."""
        names = [] if self._world.nodes is None else self._world.nodes.names
        for held in self._held:
            if self._is_due(held):
                places = held.places
                amounts = self._world.named_amounts
                yield StartReservationFacts(
                    held.gang.fact.name,
                    held.since,
                    None if places is None else {names[n]: amounts(need) for n, need in sorted(places.items())},
                )

    def refresh(self) -> None:
        """Drop the reservations that are not due any more, and make new ones."""
        self._read_ends()
        self._will_have.clear()
        self._held = [held for held in self._held if self._is_due(held)]
        for held in self._held:
            self._place(held)
        if self._facts.reserve_after is None or len(self._held) >= MAX_RESERVATIONS:
            return
        reserved = {held.gang.index for held in self._held}
        for _since, _name, gang in self._overdue_heads():
            if gang.index in reserved:
                continue
            if len(self._held) >= MAX_RESERVATIONS:
                break
            held = _Reservation(gang, self.now)
            self._held.append(held)
            if not self._place(held):
                self._held.remove(held)

    def _is_due(self, held: _Reservation) -> bool:
        gang = held.gang
        if self._world.gang_of.get(gang.fact.name) is not gang or gang.queue is None:
            return False
        if not any(gang.waiting) or gang.is_running or not self._may_wait_for_start(gang, gang.queue):
            return False
        nodes, places = self._world.nodes, held.places
        if places and nodes is not None:
            is_large_enough = all(nodes.capacity[n][r] >= amount for n, need in places.items() for r, amount in need)
            if not is_large_enough or sum_requests(list(places.values())) != gang.next_request:
                held.places = None
        return True

    def _may_wait_for_start(self, gang: GangState, queue: QueueState) -> bool:
        return queue.is_open and gang.is_complete and gang.fact.hold is None

    def _overdue_heads(self) -> Iterator[tuple[Number, str, GangState]]:
        """The first gang of each leaf that is never preempted, and the first that is, where they have waited long and
        could start if other work ended; those that have waited longest first."""
        after = self._facts.reserve_after
        assert after is not None, "the caller has checked it"
        self._update_heads()
        for since, name, gang in self._heads:
            if self.now - since < after:
                return
            yield since, name, gang

    def _update_heads(self) -> None:
        """Find the heads of the leaves whose waiting gangs changed."""
        for leaf in self._stale.values():
            for old in self._heads_of.pop(leaf.index, ()):
                del self._heads[bisect_left(self._heads, old)]
        for leaf in self._stale.values():
            found = self._find_heads(leaf) if leaf.is_open and not leaf.children else []
            if found:
                self._heads_of[leaf.index] = found
            for new in found:
                insort(self._heads, new)
        self._stale.clear()

    def _find_heads(self, leaf: QueueState) -> list[tuple[Number, str, GangState]]:
        heads: dict[bool, GangState] = {}
        for signature, group in leaf.waiting.items():
            first = group.first
            head = heads.get(first.preemptible)
            if head is not None and head.order_key < first.order_key:
                continue
            if not first.is_running and self._is_possible(signature, first, leaf):
                heads[first.preemptible] = first
        return [(waits_since(head), head.fact.name, head) for head in heads.values()]

    def _is_possible(self, signature: int, gang: GangState, queue: QueueState) -> bool:
        """Whether the gang could start if all other work ended."""
        known = self._possible.get((queue.index, signature))
        if known is None:
            known = self._possible[queue.index, signature] = self._could_start_alone(gang, queue)
        return known

    def _could_start_alone(self, gang: GangState, queue: QueueState) -> bool:
        alone = gang.feasibility
        if not gang.is_complete or alone is None:
            return False
        most = alone.upper_bounds(queue, preemptible=gang.preemptible)
        if any(amount > most[r] for r, amount in gang.next_request):
            return False
        return alone.empty is None or place_on(alone.empty, gang) is not None

    def _place(self, held: _Reservation) -> bool:
        """Choose the nodes of a reservation once quotas and limits let the gang start: those that become free first.
        Returns False if there are none beside the nodes of older reservations."""
        gang, world = held.gang, self._world
        assert gang.queue is not None, "a reserved gang has a queue"
        if held.places is not None or not self._has_quota(gang, gang.queue):
            return True
        if world.nodes is None:
            held.places = {}
            return True
        others = [other for other in self._held if other is not held and other.places and _binds(other.gang, gang)]
        key = tuple(other.gang.index for other in others)
        if self._unplaceable.get(gang.index) == key:
            return False
        nodes = NodeIndex(world.nodes.names, world.nodes.free, world.nodes.width)
        for other in others:
            for n, need in (other.places or {}).items():
                nodes.reserve(n, need)
        found = place_on(nodes, gang)
        for end in self._all_ends() if found is None else ():
            for i, status in enumerate(end.gang.status):
                if end.gang.node[i] != NOWHERE and status not in {WAITING, FINISHED}:
                    nodes.release(end.gang.node[i], end.gang.needs[i])
            found = place_on(nodes, gang)
            if found is not None:
                break
        if found is None:
            self._unplaceable[gang.index] = key
            return False
        by_node: dict[int, list[Request]] = {}
        for i, n in zip(gang.next_tasks(), found, strict=True):
            by_node.setdefault(n, []).append(gang.requests[i])
        held.places = {n: sum_requests(needs) for n, needs in by_node.items()}
        return True

    # -- ends --------------------------------------------------------------------------------------------------------

    def _read_ends(self) -> None:
        """Forget the ends of running gangs, and what follows from them."""
        self._ends, self._latest = None, {}

    def _all_ends(self) -> list[_End]:
        """The ends of all gangs that ran when they were last read, first ones first."""
        if self._ends is None:
            ends = [self._end_of(gang) for gang in self._world.gangs if any(gang.active) or any(gang.released)]
            self._ends = sorted(ends, key=lambda end: (end.time, end.gang.fact.name))
        return self._ends

    def _end_of(self, gang: GangState) -> _End:
        """By the expected run time, or the time limit if that is earlier. A gang that runs longer than expected ends by
        its limit, or nobody knows when: a guess that moves would let other work start before the reservation again and
        again."""
        fact, now = gang.fact, self.now
        started = self._started.get(gang.index, now)
        limit = math.inf if fact.time_limit is None else started + fact.time_limit
        expected = math.inf if fact.expected_time is None else started + fact.expected_time
        if now < expected < limit:
            return _End(expected, False, gang)
        return _End(limit, fact.time_limit is not None, gang)

    def latest_start(self, name: str) -> LatestStart | None:
        """When the reserved gang of this name starts at the latest, as things stand now; None if it has no
        reservation."""
        self._read_ends()
        held = next((each for each in self._held if each.gang.fact.name == name and self._is_due(each)), None)
        return None if held is None else self._latest_start(held)

    def _latest_start(self, held: _Reservation) -> LatestStart:
        known = self._latest.get(held.gang.index)
        if known is None:
            known = self._latest[held.gang.index] = self._search_latest(held)
        return known

    def _search_latest(self, held: _Reservation) -> LatestStart:
        world, gang, queue = self._world, held.gang, held.gang.queue
        assert queue is not None, "a reserved gang has a queue"
        places = held.places if held.places and world.nodes is not None else {}
        lacking = {(n, r): amount - world.nodes.free[n][r] for n, need in places.items() for r, amount in need}  # type: ignore[union-attr]
        room = _QuotaRoom(gang, queue)
        time: Number | float = self.now
        is_certain = not self._lacks_tree(gang, queue)
        for end in (None, *self._all_ends()):
            if end is not None:
                helps = room.count_end(end.gang)
                for i, status in enumerate(end.gang.status):
                    if status in {WAITING, FINISHED}:
                        continue
                    for r, amount in end.gang.requests[i]:
                        if (end.gang.node[i], r) in lacking:
                            lacking[end.gang.node[i], r] -= amount
                            helps = True
                if not helps:
                    continue
                time, is_certain = end.time, is_certain and end.is_certain
            if room.is_enough and all(amount <= 0 for amount in lacking.values()):
                break
        else:
            time = math.inf
        return LatestStart(None, is_certain=False) if isinstance(time, float) else LatestStart(time, is_certain)

    def _has_quota(self, gang: GangState, queue: QueueState) -> bool:
        """Whether quotas and limits alone let the gang start now."""
        return may_start(self._world, queue, gang.next_request, preemptible=gang.preemptible)

    def _will_have_quota(self, held: _Reservation) -> bool:
        """Whether quotas and limits let the gang start now, or will when work has ended by its limit: work of its own
        queue may use the quota before it starts, and its nodes would be lost to others meanwhile, again and again."""
        gang, queue = held.gang, held.gang.queue
        if queue is None:
            return False
        if self._has_quota(gang, queue):
            return True
        known = self._will_have.get(gang.index)
        if known is None:
            room = _QuotaRoom(gang, queue)
            for other in self._world.gangs if not self._lacks_tree(gang, queue) else ():
                if other.fact.time_limit is not None and (any(other.active) or any(other.released)):
                    room.count_end(other)
            known = self._will_have[gang.index] = room.is_enough and not self._lacks_tree(gang, queue)
        return known

    def _lacks_tree(self, gang: GangState, queue: QueueState) -> bool:
        columns = self._world.columns
        return queue.has_cohort_above and any(
            amount > columns[r].available(queue.column) for r, amount in gang.next_request
        )

    # -- attempts ----------------------------------------------------------------------------------------------------

    def begin_attempt(self, gang: GangState) -> bool:
        """Withhold the nodes that are reserved against this gang, until `end_attempt`. Returns False if a reservation
        holds the quota that it would use."""
        binding = self._binding(gang)
        if any(self._takes_quota(held, gang) for held in binding):
            return False
        if self._world.nodes is not None:
            # While quotas stop the reserved gang for an unknown time, its nodes are of no use to it.
            self._applied = [held for held in binding if held.places and self._will_have_quota(held)]
            for held in self._applied:
                for n, need in (held.places or {}).items():
                    self._world.nodes.reserve(n, need)
        return True

    @contextmanager
    def preview(self) -> Iterator[None]:
        """Attempts inside it leave no trace. The ends of running work are read when an attempt first needs them, and
        count until the next `refresh`; here they are read for the preview alone."""
        ends, latest = self._ends, self._latest
        self._latest = dict(latest)
        try:
            yield
        finally:
            self._ends, self._latest = ends, latest

    @property
    def is_withholding(self) -> bool:
        """Whether nodes are withheld from the gang that is tried, so that its failure says nothing about others."""
        return bool(self._applied)

    def is_reserved(self, gang: GangState) -> bool:
        """Whether the gang has a reservation."""
        return any(held.gang is gang for held in self._held)

    def end_attempt(self) -> None:
        """Release the withheld nodes."""
        nodes = self._world.nodes
        if nodes is None or not self._applied:
            return
        for held in self._applied:
            for n, need in (held.places or {}).items():
                nodes.release(n, need)
        self._applied = []
        self._world.releases += 1

    def holder_of(self, gang: GangState) -> GangState | None:
        """The reserved gang for which this one, which could start otherwise, is held back; None if it could start."""
        binding = self._binding(gang)
        for held in binding:
            if self._takes_quota(held, gang):
                return held.gang
        nodes = self._world.nodes
        if nodes is None or not self.begin_attempt(gang):
            return None
        applied, fits = self._applied, place_on(nodes, gang) is not None
        self.end_attempt()
        return None if fits or not applied else applied[0].gang

    def _binding(self, gang: GangState) -> list[_Reservation]:
        """The reservations that hold back this gang."""
        return [held for held in self._held if _binds(held.gang, gang) and not self._ends_before(gang, held)]

    def _ends_before(self, gang: GangState, held: _Reservation) -> bool:
        limit = gang.fact.time_limit
        if limit is None:
            return False
        latest = self._latest_start(held).time
        return latest is not None and self.now + limit <= latest

    def _takes_quota(self, held: _Reservation, gang: GangState) -> bool:
        """Whether the gang would use quota that the reserved gang needs."""
        other, queue, mine = held.gang, gang.queue, dict(gang.next_request)
        if queue is None or other.queue is None:
            return False
        for above in queue.path:
            if above not in other.queue.path:
                continue
            for r, needed in other.next_request:
                amount = mine.get(r, 0)
                if not amount:
                    continue
                if above.alloc[r] + amount + needed > above.limit[r]:
                    return True
                is_firm = not (gang.preemptible or other.preemptible)
                if is_firm and above.non_preemptible[r] + amount + needed > above.quota[r]:
                    return True
        return self._takes_borrowable(other, other.queue, queue, mine)

    def _takes_borrowable(
        self, other: GangState, other_queue: QueueState, queue: QueueState, mine: Mapping[int, Number]
    ) -> bool:
        """Whether the gang would leave the reserved one less in the cohort tree than it needs."""
        if not (queue.has_cohort_above and other_queue.has_cohort_above):
            return False
        for r, needed in other.next_request:
            amount, column = mine.get(r, 0), self._world.columns[r]
            if amount:
                before = column.available(other_queue.column)
                column.reserve(queue.column, amount)
                after = column.available(other_queue.column)
                column.release(queue.column, amount)
                if after < needed and after < before:
                    return True
        return False


class _QuotaRoom:
    """What the quotas and limits above a gang lack for it, while other work ends."""

    def __init__(self, gang: GangState, queue: QueueState) -> None:
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

    @property
    def is_enough(self) -> bool:
        """Whether nothing is lacking."""
        return all(amount <= 0 for amount in self._lacking.values())

    def count_end(self, other: GangState) -> bool:
        """Count the end of a gang. Returns whether it releases something that is lacking."""
        helps = False
        for above in self._path if other.queue is not None else ():
            if above not in other.queue.path:  # type: ignore[union-attr]
                continue
            for i, status in enumerate(other.status):
                for r, amount in other.requests[i] if status not in {WAITING, FINISHED} else ():
                    for is_limit in (True,) if other.preemptible else (True, False):
                        key = (above.index, r, is_limit)
                        if key in self._lacking:
                            helps = helps or self._lacking[key] > 0
                            self._lacking[key] -= amount
        return helps


def waits_since(gang: GangState) -> Number:
    """Since when the gang waits, in seconds."""
    since = gang.fact.waiting_since
    return gang.fact.submitted if since is None else since


def place_on(nodes: NodeIndex, gang: GangState) -> list[int] | None:
    """Nodes for the next tasks of the gang, or None; the nodes stay unchanged."""
    needs = [gang.needs[i] for i in gang.next_tasks()]
    found = place_requests(nodes, needs)
    if found is not None:
        for n, need in zip(found, needs, strict=True):
            nodes.release(n, need)
    return found


def _binds(reserved: GangState, gang: GangState) -> bool:
    """Whether a reservation holds back the gang, its time limit left aside."""
    if gang is reserved or (reserved.preemptible and not gang.preemptible):
        return False
    queue, other = gang.queue, reserved.queue
    if queue is None or other is None:
        return False
    if queue is other:
        if gang.order_key < reserved.order_key:
            return False
        return not (gang.preemptible and not reserved.preemptible and gang.fact.priority < reserved.fact.priority)
    return not (gang.preemptible and _is_inside_share(gang, queue) and not _is_inside_share(reserved, other))


def _is_inside_share(gang: GangState, queue: QueueState) -> bool:
    return all(queue.alloc[r] + amount <= queue.fair[r] for r, amount in gang.next_request)
