"""The policy against endless waiting: start reservations, and the work that may start before them (backfill).

Without it, smaller gangs could pass a gang that needs much room for ever, because they use each freed piece first.
After a wait that a setting says, a gang gets a reservation if it is the first non-preemptible or the first preemptible
one of its leaf. The reservation holds back later gangs: first from the quotas and limits that the gang lacks, and,
once these let it start, from certain nodes. Running work goes on, so the held part only grows, and the gang starts at
the latest when the work that ran there has ended. The nodes of a reservation stay the same until the gang has started,
unless work without a time limit comes there that is allowed to.

All reservations of a cluster have one order: the time since which they exist, then the time since which their gangs
wait, then the name. They are kept in this order, and only as long as their gangs could all start together once the work
that runs now has ended: a later one gives way, whether it holds nodes or quota. So none waits for another, and on a
cluster without running work each of their gangs starts. A new reservation is not made if it would keep out a gang which
has waited longer and gives way now: the next gangs of other leaves would pass that gang in turn. A gang whose quota is
held on another cluster has no reservation, because no end of work here would release that quota.

A reservation does not hold back a gang that

* has an older reservation, or comes before the reserved gang in the same leaf;
* ends before the reserved gang could start, by its time limit;
* is not preemptible, while the reserved gang is: a guarantee comes before it;
* is preemptible work inside the fair share of another leaf, while the reserved gang is preemptible and over its own.

Work that moves to make room for another gang does not use nodes that are reserved against it: it ran before, so it is
not a guest there.

Two kinds of other work may use reserved nodes, but not reserved quota:

* a *guest*: preemptible work, while the reserved gang is not preemptible. The reserved gang takes the nodes back as
  soon as only guests, and lower work of its own leaf, are on them;
* non-preemptible work that takes the place of lower work of its own leaf. It can do so only where such work ran before
  the nodes were reserved.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from heapq import merge
from typing import cast

from pools.domain.values.amounts import Amount, Number
from scheduling.domain.engine.facts import PolicyFacts, StartReservationFacts
from scheduling.domain.engine.rules.gates import may_start
from scheduling.domain.engine.rules.reserved_start import (
    LatestStart,
    QuotaRoom,
    ReservationRank,
    ReservedStart,
    WorkEnd,
    can_take_back,
    could_take_quota,
    find_end,
    find_latest_start,
    firm_rooms,
    holds_back,
    lacks_cohort_quota,
    quota_rooms,
    waits_since,
)
from scheduling.domain.engine.state.kinds import shares_gpus
from scheduling.domain.engine.state.nodes import NOWHERE, NodeIndex, Request
from scheduling.domain.engine.state.placement import could_place
from scheduling.domain.engine.state.records import FINISHED, RUNNING, WAITING, GangState, QueueState, sum_requests
from scheduling.domain.engine.state.world_state import TaskChange, Watcher, WorldState

MAX_RESERVATIONS = 16
"""The most reservations at one time, for the gangs that have waited longest. Each of them keeps capacity idle."""

MAX_VERDICTS = 4096
"""The most lists of reservations without some gangs that are kept."""


class StartPolicy(Watcher):
    """The reservations of one cluster. `now` is the time of the run, in seconds."""

    def __init__(self, world: WorldState, facts: PolicyFacts) -> None:
        # A weak reference: with a strong one the world would not be freed by its reference count.
        self._world, self._facts = cast("WorldState", weakref.proxy(world)), facts
        self.now = facts.now
        self._started = {gang.index: gang.fact.started for gang in world.gangs if gang.fact.started is not None}
        self._held: list[ReservedStart] = []
        """The reservations in their order."""
        self._ranks: dict[tuple[int, int], ReservationRank] = {}
        """The oldest reservation of interchangeable gangs, by leaf and signature: the first of them stands for all."""
        self._applied: list[tuple[int, Request]] = []
        """The amounts that are withheld on nodes from the gang that is tried."""
        self._limits_moves = False
        """Whether more was withheld from gangs that would move for the gang that is tried."""
        self._net: list[tuple[ReservedStart, list[Amount]]] = []
        """The reservations to which the gang that is tried must leave their quota, with the rooms that they have."""
        self._possible: dict[tuple[int, int], bool] = {}
        self._unlisted: dict[int, dict[int, Number]] | None = None
        self._latest: dict[tuple[int, bool], LatestStart] = {}
        self._ends: list[WorkEnd] | None = None
        self._read_in: tuple[Number, int] | None = None
        """The time and the version of the world in which the ends were read for `latest_start`."""
        self._heads: list[tuple[Number, str, GangState]] = []
        """The heads of all leaves by the time since which they wait, then by name."""
        self._heads_of: dict[int, list[tuple[Number, str, GangState]]] = {}
        self._stale = {queue.index: queue for queue in world.queues}
        """The leaves whose heads may be other gangs now."""
        self._gone: Collection[GangState] = ()
        """Waiting gangs that are left out (`without`)."""
        self._without: dict[tuple[Number, int, frozenset[GangState]], list[ReservedStart]] = {}
        """The reservations without some gangs, by the time and the version of the world."""
        for each in facts.reservations:
            gang, places = world.gang_of.get(each.gang), self._places_of(each.nodes)
            if gang is not None and gang.choices:
                gang = _choice_of(gang.choices, each, places)
            if gang is not None and gang.queue is not None:
                placed = None if places is None else each.since if each.placed is None else each.placed
                self._held.append(ReservedStart(gang, each.since, places, placed))
        self._held.sort(key=_rank)
        self._note_ranks()

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

    def came(self, world: WorldState, gang: GangState) -> None:
        """A gang has arrived, which may run already."""
        if gang.fact.started is not None:
            self._started[gang.index] = gang.fact.started
        self._note_lists(gang)

    def leaves(self, world: WorldState, gang: GangState) -> None:
        """A gang is about to leave."""
        self._started.pop(gang.index, None)
        self._note_lists(gang)

    def tasks_changed(self, world: WorldState, changes: Sequence[TaskChange]) -> None:
        """Tasks started or stopped. A gang whose tasks moved begins again."""
        moved = {gang for gang, i, node in changes if node != NOWHERE and gang.status[i] == RUNNING}
        for gang in {change.gang for change in changes}:
            self._note_lists(gang)
            if not any(gang.active):
                self._started.pop(gang.index, None)
            elif gang in moved:
                self._started[gang.index] = self.now
            else:
                self._started.setdefault(gang.index, self.now)

    def _note_lists(self, gang: GangState) -> None:
        """The waiting gangs of its leaf change."""
        if gang.queue is not None:
            self._stale[gang.queue.index] = gang.queue

    def started_at(self, gang: GangState) -> Number | None:
        """When a running gang started; None if it waits or the time is not known."""
        return self._started.get(gang.index)

    def work_began_at(self, gang: GangState) -> Number | None:
        """When a running gang started, or began again on other nodes; None if the time is not known."""
        started, moved = self._started.get(gang.index), gang.fact.moved
        return started if started is None or moved is None else max(started, moved)

    def note_start(self, gang: GangState, at: Number, expected: Number | None, moved: Number | None) -> None:
        """A running gang started at this time, a little later than its plan was made, and began again when it moved."""
        self._started[gang.index] = at
        if (gang.fact.started, gang.fact.expected_time, gang.fact.moved) != (at, expected, moved):
            for each in gang.choices or (gang,):
                each.fact = replace(
                    each.fact, started=at if each is gang else None, expected_time=expected, moved=moved
                )

    def note_wait(self, gang: GangState, at: Number, expected: Number | None) -> None:
        """A gang that was taken back begins a new wait at this time, whichever of its choices it gets."""
        for each in gang.choices or (gang,):
            each.fact = replace(each.fact, waiting_since=at, expected_time=expected, moved=None)
            self._note_lists(each)

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
                    None if places is None else held.placed,
                    held.gang.choice,
                )

    def refresh(self) -> None:
        """Drop the reservations that are not due any more or give way to older ones, and make new ones."""
        self._read_ends()
        has_held = bool(self._held)
        due = sorted((held for held in self._held if self._is_due(held)), key=_rank)
        if self._facts.are_totals:
            self._held = due
        else:
            self._renew(due)
        self._note_ranks()
        if has_held or self._held:
            self._world.time_passed()

    def _renew(self, due: Sequence[ReservedStart]) -> None:
        """Keep those of these reservations that do not give way to older ones, and make new ones."""
        self._held = []
        stood = {held.gang.fact.name for held in due}
        passed: list[ReservedStart] = []
        for held in merge(due, self._find_new(stood), key=_rank):
            if len(self._held) == MAX_RESERVATIONS:
                break
            is_new = held.gang.fact.name not in stood
            if is_new and held.gang.choices:
                self._keep_one_choice(held.gang, passed)
                continue
            if is_new and any(self._is_in_the_way(held, other) for other in passed):
                continue
            if not self._keep(held) and is_new and self._could_start_together(held, []):
                passed.append(held)

    def _keep_one_choice(self, gang: GangState, passed: list[ReservedStart]) -> None:
        """Make the reservation of a gang that may use several flavors: of those that can be kept the one with the
        earliest start, as things stand."""
        each_choice = [ReservedStart(each, self.now) for each in self._possible_choices(gang)]
        new = [held for held in each_choice if not any(self._is_in_the_way(held, other) for other in passed)]
        kept = [self._held.pop() for held in new if self._keep(held)]
        if kept:
            self._held.append(min(kept, key=self._start_order))
        else:
            passed += [held for held in new if self._could_start_together(held, [])]

    def _start_order(self, held: ReservedStart) -> tuple[bool, Number, int]:
        time = self._latest_start(held, with_nodes=True).time
        return time is None, 0 if time is None else time, held.gang.choice

    def _find_new(self, reserved: Collection[str]) -> Iterator[ReservedStart]:
        """The reservations that overdue heads without one would get now, in their order."""
        for _since, name, gang in self._overdue_heads() if self._facts.reserve_after is not None else ():
            if name not in reserved:
                yield ReservedStart(gang, self.now)

    def _possible_choices(self, head: GangState) -> Iterator[GangState]:
        """The head of a leaf, and the choices of its gang behind it with which it could ever start."""
        yield head
        for each in head.choices[head.choice + 1 :]:
            if each.queue is not None and not each.is_elsewhere and self._is_possible(each.signature, each, each.queue):
                yield each

    def _is_in_the_way(self, held: ReservedStart, other: ReservedStart) -> bool:
        """Whether a new reservation would keep out a gang which has waited longer and gives way to older ones now.
        Otherwise the next gangs of other leaves would have reservations in turn, and that gang would never have one."""
        return holds_back(other.gang, held.gang) and not self._could_start_together(other, [held])

    def _keep(self, held: ReservedStart) -> bool:
        """Keep a reservation, and choose its nodes if quotas and limits let its gang start. Returns False if its gang
        could not start together with those of the older ones."""
        older = self._older_than(held)
        if not self._could_start_together(held, older):
            if not held.places:
                return False
            # Nodes other than the old ones may be enough: an older reservation has received these in the meantime.
            held.places = held.placed = None
            if not self._could_start_together(held, older):
                return False
        self._held.append(held)
        queue = held.gang.queue
        if held.places is None and queue is not None and (self._has_quota(held.gang, queue) or self._is_alone(queue)):
            self._choose_places(held, older)
        elif held.places:
            self._leave_endless_work(held, older)
        return True

    def _is_alone(self, queue: QueueState) -> bool:
        """Whether no other leaf could use nodes until the gang has its quota."""
        return not any(other.is_open and other is not queue for other in self._world.queues)

    def _leave_endless_work(self, held: ReservedStart, older: Sequence[ReservedStart]) -> None:
        """Choose other nodes where work without a time limit came to those of the reservation, as older gangs and gangs
        of a higher priority may. Nobody knows when such nodes become free, so others would pass the gang for ever."""
        nodes, places, placed = self._world.nodes, held.places, held.placed
        if nodes is None or placed is None or not places or not self._has_endless_work(held, placed):
            return
        moved = replace(held, places=None, placed=None)
        self._choose_places(moved, older)
        if moved.places and moved.places != places and self._will_have_places(moved, older, nodes):
            held.places, held.placed = moved.places, moved.placed

    def _has_endless_work(self, held: ReservedStart, placed: Number) -> bool:
        came = {
            gang.index: gang
            for n in held.places or ()
            for gang, _task in self._world.on_node[n]
            if gang.fact.time_limit is None and self._started.get(gang.index, placed - 1) >= placed
        }
        return bool(came) and not came.keys() <= {gang.index for gang in self._taken_back(held)}

    def _will_have_places(self, held: ReservedStart, older: Sequence[ReservedStart], nodes: NodeIndex) -> bool:
        """Whether its nodes are free, or will be at a known time."""
        if all(nodes.fits(n, need) for n, need in (held.places or {}).items()):
            return True
        return find_latest_start(held, older, nodes, self._all_ends(), set(self._taken_back(held))).time is not None

    def _older_than(self, held: ReservedStart) -> list[ReservedStart]:
        """The reservations that hold back the gang of this one."""
        return [other for other in self._held if other.rank < held.rank and holds_back(other.gang, held.gang)]

    def _note_ranks(self) -> None:
        self._ranks = {}
        for held in self._held:
            if held.gang.queue is not None:
                self._ranks.setdefault((held.gang.queue.index, held.gang.signature), held.rank)

    def _is_due(self, held: ReservedStart) -> bool:
        gang = held.gang
        there = self._world.gang_of.get(gang.fact.name)
        if there is None or not (there is gang or gang in there.choices) or gang.queue is None or gang.is_elsewhere:
            return False
        if not any(gang.waiting) or gang.is_running or not self._may_wait_for_start(gang, gang.queue):
            return False
        nodes, places = self._world.nodes, held.places
        if places and nodes is not None:
            is_large_enough = all(nodes.capacity[n][r] >= amount for n, need in places.items() for r, amount in need)
            if not is_large_enough or sum_requests(list(places.values())) != gang.next_request:
                held.places = held.placed = None
        return True

    def _may_wait_for_start(self, gang: GangState, queue: QueueState) -> bool:
        return queue.is_open and gang.is_complete and gang.fact.hold is None

    def _overdue_heads(self) -> Iterator[tuple[Number, str, GangState]]:
        """The first gang of each leaf that is never preempted, and the first that may be, if they have waited long and
        could start once other work ended; those that have waited longest first."""
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
            first = next((gang for gang in group if gang not in self._gone), None)
            head = None if first is None else heads.get(first.preemptible)
            if first is None or (head is not None and head.order_key < first.order_key):
                continue
            if not first.is_running and self._is_possible(signature, first, leaf):
                heads[first.preemptible] = first
        return [(waits_since(head), head.fact.name, head) for head in heads.values()]

    def _is_possible(self, signature: int, gang: GangState, queue: QueueState) -> bool:
        """Whether the gang could start if all other work ended."""
        known = self._possible.get((queue.index, signature))
        if known is None:
            known = self._possible[queue.index, signature] = self._world.feasibility.could_start_alone(gang, queue)
        return known

    # -- all reservations together -----------------------------------------------------------------------------------

    def _could_start_together(self, held: ReservedStart, older: Sequence[ReservedStart]) -> bool:
        """Whether the gang could start together with those of the older reservations, once all work of this cluster has
        ended."""
        return (
            self._has_quota_together(held.gang, older)
            and self._has_tree_together(held.gang, older)
            and self._has_nodes_together(held, older)
        )

    def _has_quota_together(self, gang: GangState, older: Sequence[ReservedStart]) -> bool:
        unlisted = self._unlisted_usage()
        for above in gang.queue.path if gang.queue is not None else ():
            used = dict(unlisted.get(above.index, {}))
            firm: dict[int, Number] = {}
            for other in older:
                if other.gang.queue is not None and above in other.gang.queue.path:
                    for r, amount in other.gang.next_request:
                        used[r] = used.get(r, 0) + amount
                        firm[r] = firm.get(r, 0) + (0 if other.gang.preemptible else amount)
            for r, amount in gang.next_request:
                if used.get(r, 0) + amount > above.limit[r]:
                    return False
                if not gang.preemptible and firm.get(r, 0) + amount > above.quota[r]:
                    return False
        return True

    def _unlisted_usage(self) -> dict[int, dict[int, Number]]:
        """The amounts that unlisted work uses of each queue, by resource."""
        if self._unlisted is None:
            self._unlisted = {}
            world = self._world
            index_of = {key: r for r, key in enumerate(world.keys)}
            for name, amounts in world.facts.usage.items():
                for above in world.queue_of[name].path:
                    used = self._unlisted.setdefault(above.index, {})
                    for key, amount in amounts.items():
                        used[index_of[key]] = used.get(index_of[key], 0) + amount
        return self._unlisted

    def _has_tree_together(self, gang: GangState, older: Sequence[ReservedStart]) -> bool:
        queue, world = gang.queue, self._world
        if queue is None or not queue.has_cohort_above:
            return True
        claims = [other.gang for other in older if other.gang.queue is not None and other.gang.queue.has_cohort_above]
        for r, amount in gang.next_request:
            column = world.columns[r]
            changes = [
                (other.queue.column, n)
                for other in claims
                for which, n in other.next_request
                if which == r and other.queue is not None
            ]
            with column.changed(changes):
                is_enough = amount <= column.available(queue.column)
            if not is_enough:
                with column.changed([*self._ended_usage(queue, r), *changes]):
                    is_enough = amount <= column.available(queue.column)
            if not is_enough:
                return False
        return True

    def _ended_usage(self, queue: QueueState, r: int) -> Iterator[tuple[int, Number]]:
        """The changes in the cohort tree of the queue when all work of this cluster has ended."""
        unlisted = self._unlisted_usage()
        for top in self._world.cohort_neighbours(queue.path[-1]):
            for leaf in () if top.fact.is_external else top.leaves():
                listed = self._world.columns[r].own[leaf.column] - unlisted.get(leaf.index, {}).get(r, 0)
                if listed:
                    yield leaf.column, -listed

    def _has_nodes_together(self, held: ReservedStart, older: Sequence[ReservedStart]) -> bool:
        empty = self._world.feasibility.empty
        if empty is None:
            return True
        taken: list[tuple[int, Request]] = []
        for other in older:
            places = other.places
            if places is None:
                tasks = other.gang.next_tasks()
                nodes = could_place(empty, [other.gang.needs[i] for i in tasks]) or ()
                taken_here = [(n, other.gang.requests[i]) for n, i in zip(nodes, tasks, strict=False)]
            else:
                taken_here = list(places.items())
            for n, need in taken_here:
                empty.reserve(n, need)
            taken += taken_here
        if held.places:
            fits = all(empty.fits(n, need) for n, need in held.places.items())
        else:
            fits = place_on(empty, held.gang) is not None
        for n, need in taken:
            empty.release(n, need)
        return fits

    def _choose_places(self, held: ReservedStart, older: Sequence[ReservedStart]) -> None:
        """Choose the nodes of a reservation next to those of the older ones: those that become free first."""
        world = self._world
        if world.nodes is None:
            held.places, held.placed = {}, self.now
            return
        nodes = NodeIndex(world.nodes.names, world.nodes.free, world.nodes.width)
        for other in older:
            for n, need in (other.places or {}).items():
                nodes.reserve(n, need)
        found = place_on(nodes, held.gang)
        for end in self._all_ends() if found is None else ():
            for i, status in enumerate(end.gang.status):
                if end.gang.node[i] != NOWHERE and status not in {WAITING, FINISHED}:
                    nodes.release(end.gang.node[i], end.gang.needs[i])
            found = place_on(nodes, held.gang)
            if found is not None:
                break
        if found is not None:
            by_node: dict[int, list[Request]] = {}
            for i, n in zip(held.gang.next_tasks(), found, strict=True):
                by_node.setdefault(n, []).append(held.gang.requests[i])
            held.places = {n: sum_requests(needs) for n, needs in by_node.items()}
            held.placed = self.now

    # -- the latest start --------------------------------------------------------------------------------------------

    def _read_ends(self) -> None:
        """Forget the ends of running gangs, and what follows from them."""
        self._ends, self._latest, self._read_in = None, {}, None

    def _all_ends(self) -> list[WorkEnd]:
        """The ends of all gangs that ran when they were last read, first ones first."""
        if self._ends is None:
            running = (gang for gang in self._world.gangs if any(gang.active) or any(gang.released))
            ends = [find_end(gang, self._started.get(gang.index, self.now), self.now) for gang in running]
            self._ends = sorted(ends, key=lambda end: (end.time, end.gang.fact.name))
        return self._ends

    def latest_start(self, name: str) -> LatestStart | None:
        """When the reserved gang of this name starts at the latest, as things stand now; None if it has no
        reservation."""
        state = (self.now, self._world.version)
        if self._read_in != state:
            self._read_ends()
            self._read_in = state
        held = next((each for each in self._held if each.gang.fact.name == name and self._is_due(each)), None)
        if held is None:
            return None
        latest = self._latest_start(held, with_nodes=True)
        return replace(latest, is_certain=latest.is_certain and self._holds_everything(held))

    def _latest_start(self, held: ReservedStart, *, with_nodes: bool) -> LatestStart:
        """`with_nodes`: while no nodes are chosen, include the wait for them. Other leaves may still use these nodes,
        which moves that time again and again; work that backfills the quota until then would never end."""
        nodes = self._world.nodes if with_nodes or held.places is not None else None
        key = (held.gang.index, nodes is None)
        known = self._latest.get(key)
        if known is None:
            older, taken_back = self._older_than(held), set(self._taken_back(held))
            known = self._latest[key] = find_latest_start(held, older, nodes, self._all_ends(), taken_back)
        return known

    def _holds_everything(self, held: ReservedStart) -> bool:
        """Whether the reservation holds all that its gang needs, whatever other work is there: the nodes are chosen; no
        older reservation, and no work that preemptible work does not hold back, may use a part of it; and no work
        elsewhere may use the quota of its cohorts."""
        gang, queue = held.gang, held.gang.queue
        if queue is None or any(self._comes_before(other, held) for other in self._held):
            return False
        if held.places is None or (gang.preemptible and self._has_waiting_firm_work()):
            return False
        if not queue.has_cohort_above:
            return True
        tops = self._world.cohort_neighbours(queue.path[-1])
        return not lacks_cohort_quota(self._world, gang, queue) and not any(top.fact.is_external for top in tops)

    def _has_waiting_firm_work(self) -> bool:
        return any(not group.first.preemptible for leaf in self._world.queues for group in leaf.waiting.values())

    def _comes_before(self, other: ReservedStart, held: ReservedStart) -> bool:
        """Whether the other reservation is older, and the start of its gang may take what this one holds."""
        mine, theirs = held.gang.queue, other.gang.queue
        if other.rank >= held.rank or mine is None or theirs is None:
            return False
        if not shares_gpus(mine, held.gang.next_request, other.gang.next_request):
            return False
        shares_quota = mine.path[-1] is theirs.path[-1] or (mine.has_cohort_above and theirs.has_cohort_above)
        return shares_quota or not can_take_back(held.gang, other.gang)

    def _has_quota(self, gang: GangState, queue: QueueState) -> bool:
        """Whether quotas and limits alone let the gang start now, or once it has taken back the quota that LOW work
        borrows."""
        if may_start(self._world, queue, gang.next_request, preemptible=gang.preemptible):
            return True
        return not gang.preemptible and could_take_quota(self._world, gang, queue)

    def _will_have_quota(self, held: ReservedStart) -> bool:
        """Whether quotas and limits let the gang start now, or will when work has ended by its limit. Otherwise work of
        its own queue may use the quota first, and others would lose the nodes to it in the meantime, again and
        again."""
        gang, queue = held.gang, held.gang.queue
        if queue is None:
            return False
        if self._facts.are_totals or self._has_quota(gang, queue):
            return True
        room, lacks_tree = QuotaRoom(gang, queue), lacks_cohort_quota(self._world, gang, queue)
        for other in () if lacks_tree else self._world.gangs:
            is_running = any(other.active) or any(other.released)
            if is_running and (other.fact.time_limit is not None or self._is_lower(other, gang)):
                room.count_end(other)
        return room.is_enough and not lacks_tree

    # -- guests ------------------------------------------------------------------------------------------------------

    def guest_places(self, leaf: QueueState) -> dict[tuple[int, int], Number]:
        """The amounts that work of the leaf uses of places that were reserved for gangs of other leaves before it came,
        by node and resource."""
        needs: dict[tuple[int, int], Number] = {}
        for held in self._held:
            for n, need in (held.places or {}).items() if held.gang.queue is not leaf else ():
                for r, amount in need:
                    needs[n, r] = needs.get((n, r), 0) + amount
        used = self._held_by_guests(self._held, leaf)
        return {place: min(amount, needs[place]) for place, amount in used.items()}

    def _held_by_guests(
        self, several: Sequence[ReservedStart], leaf: QueueState | None
    ) -> dict[tuple[int, int], Number]:
        """The amounts that guests of the leaf use on the nodes of these reservations, by node and resource."""
        used: dict[tuple[int, int], Number] = {}
        counted: set[tuple[int, int]] = set()
        for held in several:
            for guest in self._guests_of(held):
                for i, status in enumerate(guest.status) if guest.queue is leaf else ():
                    n = guest.node[i]
                    if status == RUNNING and n in (held.places or ()) and (guest.index, i) not in counted:
                        counted.add((guest.index, i))
                        for r, amount in guest.requests[i]:
                            if any(r == which for which, _amount in (held.places or {})[n]):
                                used[n, r] = used.get((n, r), 0) + amount
        return used

    def _guests_of(self, held: ReservedStart) -> list[GangState]:
        """The work of other leaves that came to the reserved nodes later, last served first."""
        world, placed = self._world, held.placed
        if held.gang.preemptible or not held.places or placed is None or world.nodes is None:
            return []
        found = {
            gang.index: gang
            for n in held.places
            for gang, _task in world.on_node[n]
            if gang.is_evictable
            and gang.queue is not held.gang.queue
            and (started := self._started.get(gang.index)) is not None
            and started >= placed
        }
        return sorted(found.values(), key=lambda gang: gang.order_key, reverse=True)

    def _taken_back(self, held: ReservedStart) -> Iterator[GangState]:
        """The running work that the gang can take back: guests, and lower work of its own leaf."""
        yield from self._guests_of(held)
        queue = held.gang.queue
        for other in () if queue is None or queue.running is None else queue.running:
            if self._is_lower(other, held.gang):
                yield other

    def _is_lower(self, other: GangState, gang: GangState) -> bool:
        return (
            other.queue is gang.queue
            and other.is_evictable
            and not gang.preemptible
            and other.fact.priority < gang.fact.priority
        )

    def taking_back(self) -> Iterator[tuple[GangState, QueueState, list[GangState]]]:
        """The reserved gangs, with their leaves, whose nodes are free but for guests and lower work of their own leaf;
        with the guests."""
        nodes = self._world.nodes
        for held in list(self._held):
            queue = held.gang.queue
            guests = self._guests_of(held) if nodes is not None and queue is not None and self._is_due(held) else []
            if queue is None or nodes is None or not guests:
                continue
            missing = {(n, r): need - nodes.free[n][r] for n, needs in (held.places or {}).items() for r, need in needs}
            for other in set(self._taken_back(held)):
                for i, status in enumerate(other.status):
                    for r, amount in other.requests[i] if status == RUNNING else ():
                        if (other.node[i], r) in missing:
                            missing[other.node[i], r] -= amount
            if all(amount <= 0 for amount in missing.values()):
                yield held.gang, queue, guests

    # -- attempts ----------------------------------------------------------------------------------------------------

    def begin_attempt(self, gang: GangState, *, in_place: bool = False) -> bool:
        """Withhold the nodes that are reserved against this gang, until `end_attempt`. Returns False if a reservation
        holds the quota that it would use.

        `in_place`: the gang evicts lower work of its own leaf. If it is not preemptible it may stand where that work
        stood, and use its quota: of the nodes of other leaves' reservations only what is free, and what pods of guests
        hold, is withheld, and `leaves_quota` tells afterwards about their quota."""
        if not self._held:
            return True
        binding = self._binding(gang)
        younger = self._spared_places(gang)
        replaces = [held for held in binding if in_place and not gang.preemptible and held.gang.queue is not gang.queue]
        if any(self._takes_quota(held, gang) for held in binding if held not in replaces):
            return False
        self._net = [(held, self._rooms(held, gang)) for held in replaces]
        if self._world.nodes is not None:
            # While quotas stop the reserved gang for an unknown time, it cannot use its nodes.
            with_nodes = [held for held in binding if held.places and self._will_have_quota(held)]
            for held in with_nodes:
                if held not in replaces and not self._may_be_guest(held, gang):
                    self._withhold((held.places or {}).items())
            in_place_of = [held for held in with_nodes if held in replaces]
            self._withhold(self._unused_parts(in_place_of, self._held_by_guests(in_place_of, gang.queue)))
            self._withhold(younger)
        return True

    def _may_be_guest(self, held: ReservedStart, gang: GangState) -> bool:
        """Whether the gang may use the reserved nodes until they are taken back. A gang that ran there before and grows
        may not, nor may any gang while the reserved gang could start there now."""
        if not can_take_back(held.gang, gang):
            return False
        if gang.queue is held.gang.queue:
            return True
        if any(gang.active) and self._started.get(gang.index, held.since) < (held.placed or held.since):
            return False
        return not self._could_start_now(held)

    def _could_start_now(self, held: ReservedStart) -> bool:
        nodes, queue = self._world.nodes, held.gang.queue
        if nodes is None or queue is None or not all(nodes.fits(n, need) for n, need in (held.places or {}).items()):
            return False
        older = self._older_than(held)
        return self._has_quota(held.gang, queue) and not any(self._takes_quota(other, held.gang) for other in older)

    def _spared_places(self, gang: GangState) -> list[tuple[int, Request]]:
        """The amounts that younger reservations hold already; the gang does not use them if its own places are free
        now."""
        own = next((held for held in self._held if held.gang is gang), None)
        nodes = self._world.nodes
        if own is None or not own.places or nodes is None:
            return []
        if not all(nodes.fits(n, need) for n, need in own.places.items()):
            return []
        younger = [held for held in self._held if held.rank > own.rank and holds_back(gang, held.gang)]
        minus = {(n, r): -amount for n, need in own.places.items() for r, amount in need}
        return list(self._unused_parts(younger, minus))

    def _withhold(self, needs: Collection[tuple[int, Request]] | Iterator[tuple[int, Request]]) -> None:
        assert self._world.nodes is not None
        for n, need in list(needs):
            self._world.nodes.reserve(n, need)
            self._applied.append((n, need))

    def _unused_parts(
        self, several: Sequence[ReservedStart], more: Mapping[tuple[int, int], Number]
    ) -> Iterator[tuple[int, Request]]:
        """The free parts of the places of these reservations. `more`: amounts by node and resource that count as free
        too, or as used if below 0."""
        nodes = self._world.nodes
        assert nodes is not None
        left = {(n, r): nodes.free[n][r] + amount for (n, r), amount in more.items()}
        for held in several:
            for n, need in (held.places or {}).items():
                part = []
                for r, amount in need:
                    free = max(0, left.get((n, r), nodes.free[n][r]))
                    left[n, r] = free - min(amount, free)
                    part.append((r, min(amount, free)))
                yield n, tuple(part)

    def leaves_quota(self, gang: GangState | None = None) -> bool:
        """Whether an attempt `in_place`, as it stands now, leaves the reservations of other leaves as much quota as
        they had before, or as they need. `gang`: one that would still start."""
        return all(
            now >= min(before, 0)
            for held, rooms in self._net
            for now, before in zip(firm_rooms(held.gang, gang), rooms, strict=True)
        )

    @contextmanager
    def preview(self) -> Iterator[None]:
        """Attempts inside it have no effect afterwards. The ends of running work are read when an attempt first needs
        them, and count until the next `refresh`; here they are read for the preview alone."""
        ends, latest = self._ends, self._latest
        self._latest = dict(latest)
        try:
            yield
        finally:
            self._ends, self._latest = ends, latest

    @contextmanager
    def moving(self, gang: GangState) -> Iterator[None]:
        """Withhold what is reserved against this gang, which moves to make room for the one that is tried. It is not a
        guest there, and its time limit does not count: it ran before, and begins again."""
        places = [
            place
            for held in self._held
            if held.places and not held.gang.is_running and holds_back(held.gang, gang)
            for place in held.places.items()
            if place not in self._applied
        ]
        self._limits_moves = self._limits_moves or bool(places)
        begin = len(self._applied)
        self._withhold(places)
        try:
            yield
        finally:
            self._release_applied(begin)

    @property
    def is_withholding(self) -> bool:
        """Whether something is withheld from the gang that is tried, so that its failure says nothing about others."""
        return bool(self._applied or self._net or self._limits_moves)

    @property
    def has_reservations(self) -> bool:
        """Whether any gang has one."""
        return bool(self._held)

    def is_reserved(self, gang: GangState) -> bool:
        """Whether the gang has a reservation, in this choice or another one."""
        return any(held.gang is gang or held.gang in gang.choices for held in self._held)

    def end_attempt(self) -> None:
        """Release the withheld nodes."""
        self._net, self._limits_moves = [], False
        self._release_applied(0)

    def _release_applied(self, begin: int) -> None:
        """Release what was withheld from the entry `begin` on."""
        for n, need in reversed(self._applied[begin:]):
            cast("NodeIndex", self._world.nodes).release(n, need)
        del self._applied[begin:]

    def binding_gangs(self, gang: GangState) -> list[GangState]:
        """The reserved gangs whose reservations hold back this one, oldest first."""
        return [held.gang for held in self._binding(gang)]

    @contextmanager
    def nothing_reserved(self) -> Iterator[None]:
        """Attempts inside it are made as if there were no reservation."""
        held, self._held = self._held, []
        try:
            yield
        finally:
            self._held = held

    @contextmanager
    def without(self, gone: Collection[GangState]) -> Iterator[None]:
        """Attempts inside it are made as if these waiting gangs did not exist, with the reservations that others would
        have then."""
        before = self._held, self._latest, self._ranks
        if gone:
            every = frozenset(each for gang in gone for each in gang.choices or (gang,))
            self._held, self._latest = self._held_without(every), {}
            self._note_ranks()
        try:
            yield
        finally:
            self._held, self._latest, self._ranks = before

    def _held_without(self, gone: frozenset[GangState]) -> list[ReservedStart]:
        key = self.now, self._world.version, gone
        known = self._without.get(key)
        if known is not None:
            return known
        left = [replace(held) for held in self._held if held.gang not in gone and self._is_due(held)]
        if self._facts.are_totals:
            return left
        self._update_heads()
        before = self._held, self._heads, self._heads_of
        self._heads, self._heads_of, self._gone = list(self._heads), dict(self._heads_of), gone
        self._stale = {gang.queue.index: gang.queue for gang in gone if gang.queue is not None}
        self._renew(left)
        found = self._held
        self._held, self._heads, self._heads_of = before
        self._gone, self._stale = (), {}
        if len(self._without) >= MAX_VERDICTS:
            self._without.clear()
        self._without[key] = found
        return found

    def backfill_until(self, gang: GangState) -> Number | None:
        """The time before which work has to end that may use what is reserved for this gang; None if that is not
        known."""
        held = next((each for each in self._held if each.gang is gang), None)
        return None if held is None else self._latest_start(held, with_nodes=False).time

    def _binding(self, gang: GangState) -> list[ReservedStart]:
        """The reservations that hold back this gang."""
        if not self._held:
            return []
        rank = None if gang.queue is None else self._ranks.get((gang.queue.index, gang.signature))
        knows_shares = not self._facts.are_totals
        return [
            held
            for held in self._held
            if (rank is None or held.rank < rank)
            and holds_back(held.gang, gang, knows_shares=knows_shares)
            and not self._ends_before(gang, held)
        ]

    def _ends_before(self, gang: GangState, held: ReservedStart) -> bool:
        limit = gang.fact.time_limit
        if limit is None:
            return False
        latest = self._latest_start(held, with_nodes=False).time
        return latest is not None and self.now + limit <= latest

    def _takes_quota(self, held: ReservedStart, gang: GangState) -> bool:
        """Whether the gang would use quota that the reserved gang needs."""
        queue, other = gang.queue, held.gang.queue
        if queue is None or other is None:
            return False
        shares_cohort = queue.has_cohort_above and other.has_cohort_above and gang.preemptible
        if queue.path[-1] is not other.path[-1] and not shares_cohort:
            return False
        rooms = self._rooms(held, gang, earlier=gang)
        if min(rooms, default=0) >= 0:
            return False
        return any(now < min(before, 0) for now, before in zip(rooms, self._rooms(held, gang), strict=True))

    def _rooms(self, held: ReservedStart, gang: GangState, *, earlier: GangState | None = None) -> list[Amount]:
        """The amounts that quotas and limits leave the reserved gang, as far as this one may use them; with `earlier`,
        after that gang has started."""
        if gang.preemptible or held.gang.preemptible:
            return quota_rooms(self._world, held.gang, earlier)
        return firm_rooms(held.gang, earlier)


def _rank(held: ReservedStart) -> ReservationRank:
    return held.rank


def _choice_of(
    choices: Sequence[GangState], fact: StartReservationFacts, places: Mapping[int, Request] | None
) -> GangState:
    """The choice that a reservation of the facts is for: the one that it names, unless its amounts are those of
    another one."""
    named = choices[min(fact.choice, len(choices) - 1)]
    held = sum_requests(list((places or {}).values()))
    return next((each for each in (named, *choices) if held and each.next_request == held), named)


def place_on(nodes: NodeIndex, gang: GangState) -> list[int] | None:
    """Nodes for the next tasks of the gang, or None; the nodes stay unchanged."""
    return could_place(nodes, [gang.needs[i] for i in gang.next_tasks()])
