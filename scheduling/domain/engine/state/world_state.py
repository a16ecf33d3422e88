"""The mutable state of a cycle: usage of every queue, free amounts of every node, with undo for every change.

Only `start` and `stop` change the state; each change of one task is written to a journal, so that `undo(mark)` reverts
a trial. `make_final` makes the changes since the last one final: it updates the lists of waiting and running gangs, and
tells them to the watchers."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from pools.domain.configuration.backend_config import VictimRule
from pools.domain.values.amounts import Amount, Number
from scheduling.domain.engine.facts import ClusterFacts, GangFacts
from scheduling.domain.engine.state.amount_text import amounts_text
from scheduling.domain.engine.state.build import WorldRecords
from scheduling.domain.engine.state.nodes import NOWHERE, NodeIndex, Request, has_enough
from scheduling.domain.engine.state.placement import place_requests
from scheduling.domain.engine.state.records import RELEASING, RUNNING, GangState, OrderKey, QueueState, SortedGangs


class TaskChange(NamedTuple):
    """A change of one task. In the journal: it left or took the node. For watchers: it was on this node before, or
    waited (`NOWHERE`)."""

    gang: GangState
    task: int
    node: int


class Watcher:
    """Its methods are called for every final change of the state, not for trials and their undo."""

    def came(self, world: WorldState, gang: GangState) -> None:
        """A gang is there now, with its running and releasing tasks."""

    def leaves(self, world: WorldState, gang: GangState) -> None:
        """A gang is about to leave, with all that it holds."""

    def tasks_changed(self, world: WorldState, changes: Sequence[TaskChange]) -> None:
        """These tasks started or stopped."""

    def share_changed(self, world: WorldState, queue: QueueState) -> None:
        """A queue has another fair share."""


class WorldState:
    """The state of a cluster during one cycle."""

    def __init__(self, facts: ClusterFacts) -> None:
        self._build(WorldRecords(facts), facts)

    def __del__(self) -> None:
        # Queues and gangs refer to each other. With thousands of them the garbage collector would need longer to find
        # them than the engine needs to make them.
        for queue in getattr(self, "queues", ()):
            queue.unlink()
        for gang in getattr(self, "gangs", ()):
            for each in gang.choices:
                each.choices = ()

    def _build(self, built: WorldRecords, facts: ClusterFacts) -> None:
        self.facts = facts
        self._records = built
        self.keys = built.keys
        self.queues = built.queues
        self.queue_of = built.queue_of
        self.tops = built.tops
        self.leaves = [queue for queue in built.queues if not (queue.children or queue.is_cyclic)]
        self.tree = built.tree
        self.columns = [self.tree.columns[key] for key in self.keys] if self.queues else []
        self.nodes: NodeIndex | None = built.nodes
        self.firm = None if self.nodes is None else self.nodes.empty_copy()
        """The nodes without evictable work: no eviction can free more than that."""
        self.gangs = built.gangs
        """All gangs by name; of several choices the one that the gang has, or had last."""
        self.has_choices = any(gang.choices for gang in built.gangs)
        """Whether some gang has several choices, or had."""
        self.gang_of = {gang.fact.name: gang for gang in self.gangs}
        self.on_node: list[dict[tuple[GangState, int], None]] = [{} for _ in self.nodes.names] if self.nodes else []
        self.watchers: list[Watcher] = []
        self.notes_spared = False
        """Whether the steps say which other work could have been evicted, which only decisions for real need."""
        self.feasibility = built.feasibility
        self.journal: list[TaskChange] = []
        self._postponed: list[tuple[GangState, Sequence[int]]] = []
        """Stops that count against quotas, but not yet on the nodes and for the gang."""
        self._free_later: dict[int, list[Number]] = {}
        """The free amounts after the postponed stops, of the nodes that they change."""
        self._above: dict[int, list[int]] = {}
        self._neighbours: dict[int | None, list[QueueState]] | None = None
        self._is_flat: dict[int, bool] = {}
        self.version = 0
        """Grows with every final change."""
        self.changed: set[int] = set()
        """Gangs that differ from their facts."""
        self.run_changed: list[GangState] = []
        """Gangs that changed in this run."""
        self.incomplete: dict[str, GangState] = {}
        """Gangs that run below their minimum, by name."""
        self.orphans: list[GangState] = []
        self.held: list[GangState] = []
        """Gangs with a hold of their own: they wait, and no pass tries them."""
        for gang in self.gangs:
            for i, status in enumerate(gang.status):
                node = gang.node[i]
                if status == RUNNING and node != NOWHERE:
                    self.on_node[node][gang, i] = None
                if self.firm is not None and node != NOWHERE and not (status == RUNNING and gang.is_evictable):
                    self.firm.reserve(node, gang.needs[i])
        self._fill_lists()

    @property
    def takes_least_lost(self) -> bool:
        """Whether of equal victims the set goes that loses least; else the youngest."""
        return self.facts.policy is not None and self.facts.policy.victims is VictimRule.LEAST_LOST

    def _fill_lists(self) -> None:
        for gang in sorted(self.gangs, key=lambda gang: gang.order_key):
            self._note_incomplete(gang)
            if gang.queue is None:
                self.orphans.append(gang)
                continue
            if gang.fact.hold is not None:
                self.held.append(gang)
            for each in gang.choices or (gang,):
                self._add_to_lists(each, gang.queue)

    # -- instants ----------------------------------------------------------------------------------------------------

    @property
    def signatures(self) -> int:
        """The number of different signatures so far."""
        return self._records.signatures

    def begin_run(self) -> None:
        """Begin another run in this state."""
        for gang in self.run_changed:
            gang.ran = any(gang.active) or any(gang.released)
        self.run_changed.clear()

    def time_passed(self) -> None:
        """The time is another one now, and a policy may decide otherwise: findings of this version hold no more."""
        self.version += 1

    # -- one gang ----------------------------------------------------------------------------------------------------

    def add_gang(self, fact: GangFacts) -> GangState:
        """Add a gang, with its running and releasing tasks on their nodes; fair shares stay as they are."""
        self.version += 1
        gang = self._records.new_gang(fact)
        self.has_choices = self.has_choices or bool(gang.choices)
        insort(self.gangs, gang, key=_name_of)
        self.gang_of[fact.name] = gang
        self._note_incomplete(gang)
        for i, status in enumerate(gang.status):
            node = gang.node[i]
            if status == RUNNING and node != NOWHERE:
                self.on_node[node][gang, i] = None
            if self.firm is not None and node != NOWHERE and not (status == RUNNING and gang.is_evictable):
                self.firm.reserve(node, gang.needs[i])
            if status in {RUNNING, RELEASING}:
                self._hold(gang, gang.requests[i], 1)
        if gang.queue is None:
            insort(self.orphans, gang, key=_order_of)
        else:
            if fact.hold is not None:
                insort(self.held, gang, key=_order_of)
            for each in gang.choices or (gang,):
                self._add_to_lists(each, gang.queue)
        for watcher in self.watchers:
            watcher.came(self, gang)
        return gang

    def remove_gang(self, gang: GangState) -> None:
        """Remove a gang, with all that it holds; fair shares stay as they are."""
        self.version += 1
        for watcher in self.watchers:
            watcher.leaves(self, gang)
        for each in gang.choices or (gang,):
            self._remove_from_lists(each)
            self.changed.discard(each.index)
        for i, status in enumerate(gang.status):
            node = gang.node[i]
            if status == RUNNING and node != NOWHERE:
                del self.on_node[node][gang, i]
            if self.nodes is not None and self.firm is not None and node != NOWHERE:
                self.nodes.release(node, gang.needs[i])
                if not (status == RUNNING and gang.is_evictable):
                    self.firm.release(node, gang.needs[i])
            if status in {RUNNING, RELEASING}:
                self._hold(gang, gang.requests[i], -1)
        del self.gangs[bisect_left(self.gangs, gang.fact.name, key=_name_of)]
        del self.gang_of[gang.fact.name]
        self.incomplete.pop(gang.fact.name, None)
        for others in (self.orphans, self.held):
            if gang in others:
                others.remove(gang)

    # -- one task ----------------------------------------------------------------------------------------------------

    def _hold(self, gang: GangState, request: Request, sign: int) -> None:
        queue = gang.queue
        if queue is None:
            return
        for r, amount in request:
            change = sign * amount
            for above in queue.path:
                above.alloc[r] += change
                above.rank = None
                if not gang.preemptible:
                    above.non_preemptible[r] += change
            if queue.has_cohort_above:
                if sign > 0:
                    self.columns[r].reserve(queue.column, amount)
                else:
                    self.columns[r].release(queue.column, amount)

    def _record_start(self, gang: GangState, i: int, node: int) -> None:
        gang.start(i, node)
        if node != NOWHERE:
            self.on_node[node][gang, i] = None
            if self.firm is not None and not gang.is_evictable:
                self.firm.reserve(node, gang.needs[i])
        self._hold(gang, gang.requests[i], 1)

    def _record_stop(self, gang: GangState, i: int) -> int:
        node = self._vacate(gang, i)
        self._hold(gang, gang.requests[i], -1)
        return node

    def _vacate(self, gang: GangState, i: int) -> int:
        node = gang.stop(i)
        if node != NOWHERE and self.nodes is not None:
            del self.on_node[node][gang, i]
            self.nodes.release(node, gang.needs[i])
            if self.firm is not None and not gang.is_evictable:
                self.firm.release(node, gang.needs[i])
        return node

    def cohorts_above(self, top: QueueState) -> list[int]:
        """The tree indexes of the cohorts above a top queue, nearest first. Callers do not change the list."""
        known = self._above.get(top.index)
        if known is None:
            known = self._above[top.index] = []
            x = self.tree.parents[top.column]
            while x >= 0:
                known.append(x)
                x = self.tree.parents[x]
        return known

    def root_cohort(self, top: QueueState) -> int | None:
        """The tree index of the highest cohort above a top queue, or None."""
        above = self.cohorts_above(top)
        return above[-1] if above else None

    def cohort_neighbours(self, top: QueueState) -> list[QueueState]:
        """All top queues under the same root cohort, this one too; none for a queue under no cohort."""
        if self._neighbours is None:
            self._neighbours = {}
            for queue in self.tops:
                self._neighbours.setdefault(self.root_cohort(queue), []).append(queue)
        root = self.root_cohort(top)
        return [] if root is None else self._neighbours[root]

    def is_flat_below_root(self, top: QueueState) -> bool:
        """Whether every cohort above a neighbour is above this top queue too, so that no two neighbours lend through a
        cohort of their own."""
        known = self._is_flat.get(top.index)
        if known is None:
            ours = set(self.cohorts_above(top))
            neighbours = self.cohort_neighbours(top)
            known = self._is_flat[top.index] = all(ours.issuperset(self.cohorts_above(other)) for other in neighbours)
        return known

    # -- trials ------------------------------------------------------------------------------------------------------

    def mark(self) -> int:
        """The current position of the journal, for `undo`."""
        return len(self.journal)

    def undo(self, mark: int) -> None:
        """Revert every change since the mark, last first, and all postponed stops."""
        for gang, tasks in self._postponed:
            for i in tasks:
                self._hold(gang, gang.requests[i], 1)
        self._postponed.clear()
        self._free_later.clear()
        while len(self.journal) > mark:
            gang, i, node = self.journal.pop()
            if gang.status[i] == RUNNING:
                self._record_stop(gang, i)
            else:
                if node != NOWHERE and self.nodes is not None:
                    self.nodes.reserve(node, gang.needs[i])
                self._record_start(gang, i, node)

    def stop(self, gang: GangState, tasks: Iterable[int]) -> None:
        """Stop these running tasks; they wait afterwards."""
        self.stop_postponed()
        for i in tasks:
            self.journal.append(TaskChange(gang, i, self._record_stop(gang, i)))

    def stop_later(self, gang: GangState, tasks: Sequence[int]) -> None:
        """Give up what the running tasks of a gang count against quotas, and postpone the rest of their stop: most
        searches evict one gang after the other, find that no node becomes free enough, and undo everything. Before
        anything starts, `stop_postponed` or `undo` is called."""
        self._postponed.append((gang, tasks))
        for i in tasks:
            self._hold(gang, gang.requests[i], -1)
            node = gang.node[i]
            if self.nodes is not None and node != NOWHERE:
                free = self._free_later.get(node)
                if free is None:
                    free = self._free_later[node] = list(self.nodes.free[node])
                for r, amount in gang.requests[i]:
                    free[r] += amount

    def fits_later(self, node: int, need: Request) -> bool:
        """Whether the need fits on the node after the postponed stops."""
        free = self._free_later.get(node)
        if free is not None:
            return has_enough(free, need)
        return self.nodes is None or self.nodes.fits(node, need)

    def stop_postponed(self) -> None:
        """Finish the postponed stops."""
        for gang, tasks in self._postponed:
            for i in tasks:
                self.journal.append(TaskChange(gang, i, self._vacate(gang, i)))
        self._postponed.clear()
        self._free_later.clear()

    def start(self, gang: GangState, tasks: Sequence[int]) -> bool:
        """Start these waiting tasks on the tightest nodes, all or nothing. The caller has checked the quotas."""
        needs = [gang.needs[i] for i in tasks]
        if self.nodes is None:
            nodes = [NOWHERE] * len(needs)
        else:
            found = place_requests(self.nodes, needs)
            if found is None:
                return False
            nodes = found
        for i, node in zip(tasks, nodes, strict=True):
            self._record_start(gang, i, node)
            self.journal.append(TaskChange(gang, i, node))
        return True

    def start_on(self, gang: GangState, i: int, node: int) -> None:
        """Start one waiting task on a node that it fits on (`NOWHERE` without nodes, or on a node of another
        cluster)."""
        if self.nodes is not None and node != NOWHERE:
            self.nodes.reserve(node, gang.needs[i])
        self._record_start(gang, i, node)
        self.journal.append(TaskChange(gang, i, node))

    # -- lists -------------------------------------------------------------------------------------------------------

    def make_final(self) -> list[GangState]:
        """Make the changes since the last one final. Returns the gangs that changed, in their lists."""
        changes = _net_changes(self.journal)
        self.journal.clear()
        self.version += 1
        gangs = list(dict.fromkeys(change.gang for change in changes))
        for gang in gangs:
            self.changed.add(gang.index)
            self._note_incomplete(gang)
            if gang.queue is not None:
                self._remove_from_lists(gang)
                self._add_to_lists(gang, gang.queue)
                if gang.choices:
                    self._list_choices(gang, gang.queue)
        self.run_changed += gangs
        for watcher in self.watchers:
            watcher.tasks_changed(self, changes)
        return gangs

    def _list_choices(self, gang: GangState, queue: QueueState) -> None:
        """The other choices of the gang wait while this one holds nothing."""
        if any(gang.active):
            self.gangs[bisect_left(self.gangs, gang.fact.name, key=_name_of)] = gang
            self.gang_of[gang.fact.name] = gang
        for other in gang.choices:
            if other is not gang:
                self._remove_from_lists(other)
                self._add_to_lists(other, queue)

    def _note_incomplete(self, gang: GangState) -> None:
        if any(gang.active) and not gang.is_satisfied:
            self.incomplete[gang.fact.name] = gang
        else:
            self.incomplete.pop(gang.fact.name, None)

    def _remove_from_lists(self, gang: GangState) -> None:
        queue = gang.queue
        if queue is None:
            return
        if gang.listed_signature is not None:
            group = queue.waiting[gang.listed_signature]
            group.remove(gang)
            if not len(group):
                del queue.waiting[gang.listed_signature]
            gang.listed_signature = None
        if queue.running is not None and gang in queue.running:
            queue.running.remove(gang)

    def _add_to_lists(self, gang: GangState, queue: QueueState) -> None:
        if any(gang.waiting) and gang.fact.hold is None and not (gang.choices and gang.is_elsewhere):
            gang.listed_signature = gang.signature
            queue.waiting.setdefault(gang.listed_signature, SortedGangs()).add(gang)
        if gang.preemptible and any(gang.active):
            if queue.running is None:
                queue.running = SortedGangs()
            queue.running.add(gang)

    # -- numbers -----------------------------------------------------------------------------------------------------

    def named_amounts(self, request: Request) -> dict[str, Number]:
        """A sparse request as `{"flavor/resource": n}`."""
        return {self.keys[r]: amount for r, amount in request}

    def amounts_text(self, amounts: Mapping[str, Amount], *, relevant: Collection[str] = ()) -> str:
        """Amounts for a message, in the units of the facts."""
        return amounts_text(amounts, self.facts.units, relevant=relevant, parts=self.facts.parts)

    def has_free_total(self, request: Request) -> bool:
        """Whether the nodes together have the requested amounts; a quick check before placing."""
        return self.nodes is None or all(self.nodes.total[r] >= amount for r, amount in request)


def _net_changes(journal: Sequence[TaskChange]) -> list[TaskChange]:
    """The changes without those of tasks that are as they were before: each entry of a task turns its state."""
    firsts: dict[tuple[GangState, int], TaskChange] = {}
    turned: dict[tuple[GangState, int], bool] = {}
    for change in journal:
        key = change.gang, change.task
        firsts.setdefault(key, change)
        turned[key] = not turned.get(key, False)
    found = []
    for (gang, i), first in firsts.items():
        runs = gang.status[i] == RUNNING
        node = first.node if runs != turned[gang, i] else NOWHERE
        if turned[gang, i] or (runs and gang.node[i] != node):
            found.append(TaskChange(gang, i, node))
    return found


def _name_of(gang: GangState) -> str:
    return gang.fact.name


def _order_of(gang: GangState) -> OrderKey:
    return gang.order_key
