"""The changeable side of the facts: one record for each queue and each gang, with everything that is asked often."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pools.domain.amounts import Amount, Number
from scheduling.domain.engine.facts import GangFacts, QueueFacts, TaskState
from scheduling.domain.engine.nodes import NOWHERE, Request
from scheduling.domain.engine.share_ratios import ShareRatios
from scheduling.domain.engine.task_index import TaskIndex
from scheduling.domain.gang import ROOT, GangTree, Growth

if TYPE_CHECKING:
    from scheduling.domain.engine.feasibility import Feasibility
    from scheduling.domain.engine.sorted_gangs import SortedGangs

WAITING, RUNNING, RELEASING, FINISHED = range(4)
_CODES = {
    TaskState.PENDING: WAITING,
    TaskState.RUNNING: RUNNING,
    TaskState.RELEASING: RELEASING,
    TaskState.FINISHED: FINISHED,
}
BELOW_MINIMUM, AT_MINIMUM, ABOVE_MINIMUM = range(3)
"""How a gang stands to its minimum; in this order it is served."""


class QueueState:
    """One queue. Lists have one number for each resource; `path` leads from the queue itself up to its top queue."""

    __slots__ = (
        "alloc", "allocatable", "children", "column", "cyclic", "fact", "fair", "governed", "index", "limit", "np",
        "open", "parent", "path", "quota", "rank", "ratios", "request", "running", "waiting",
    )  # fmt: skip

    def __init__(self, fact: QueueFacts, index: int, resources: int, ratios: ShareRatios) -> None:
        self.fact, self.index, self.ratios = fact, index, ratios
        self.parent: QueueState | None = None
        self.children: list[QueueState] = []
        self.path: tuple[QueueState, ...] = ()
        self.quota: list[Amount] = [0] * resources
        self.limit: list[Amount] = [0] * resources
        self.alloc: list[Number] = [0] * resources
        """Held by everything below, usage of unlisted work included."""
        self.np: list[Number] = [0] * resources
        """The part of it that cannot be preempted and counts against the quota."""
        self.request: list[Number] = [0] * resources
        self.fair: list[Amount] = [0] * resources
        self.allocatable: list[Amount] = [0] * resources
        """limit if the quota is unlimited, else min(limit, max(quota, fair share)); fixed like the fair share."""
        self.rank: Rank | None = None
        """Its place among its siblings when victims are looked for; forgotten with every change of `alloc`."""
        self.column = NOWHERE
        """Its place in the tree of cohorts and queues."""
        self.governed = False
        """Whether a cohort stands above it, so that the tree's `available` binds it."""
        self.cyclic = False
        self.open = False
        """Whether anything may start there: a leaf, on no cycle, and not held back, nor anything above it."""
        self.waiting: dict[Signature, SortedGangs] = {}
        self.running: SortedGangs | None = None

    def __repr__(self) -> str:
        return f"<queue {self.fact.name}>"

    def unlink(self) -> None:
        """Forget all others: nobody needs it any more."""
        self.parent, self.children, self.path = None, [], ()
        self.waiting, self.running = {}, None


Rank = tuple[object, ...]
Signature = int
"""Gangs of one leaf with equal signatures are interchangeable but for their age: what stops one stops all."""


class GangState:
    """One gang. `status`, `node`, `requests` and `needs` have one entry for each task, `active` and `waiting` one for
    each node of its tree. What a task requests counts against quotas; its need adds on which nodes it may stand."""

    __slots__ = (
        "_alike", "_ask", "_fresh", "_next", "_order", "_ruled_out", "_signature", "_table", "active", "fact", "index",
        "leaf", "lines", "listed", "needs", "node", "preemptible", "queue", "ran", "reach", "released", "requests",
        "status", "tree", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        fact: GangFacts,
        index: int,
        *,
        queue: QueueState | None,
        requests: list[Request],
        needs: list[Request],
        tree: GangTree,
        table: dict[object, Signature],
    ) -> None:
        self.fact, self.index, self.queue, self.tree, self.requests = fact, index, queue, tree, requests
        self.needs = needs
        self._table = table
        self._alike = tree.is_single_leaf and len(set(needs)) == 1
        self.preemptible = fact.preemptible
        self.status = [_CODES[task.state] for task in fact.tasks]
        self.node = [NOWHERE] * len(fact.tasks)
        self.leaf = (
            [tree.index[task.group] for task in fact.tasks] if not tree.is_single_leaf else [ROOT] * len(fact.tasks)
        )
        self.active = [0] * len(tree.names)
        self.waiting = [0] * len(tree.names)
        self.released = [0] * len(tree.names)
        self.lines = TaskIndex(len(tree.names))
        for i in reversed(range(len(self.status))):
            leaf, status = self.leaf[i], self.status[i]
            if status == WAITING:
                self.waiting[leaf] += 1
                self.lines.add_waiting(i, leaf, needs[i])
            elif status == RUNNING:
                self.active[leaf] += 1
                self.lines.add_running(i, leaf)
            elif status == RELEASING:
                self.released[leaf] += 1
        self.ran = any(self.active) or any(self.released)
        self.reach: Feasibility | None = None
        """Tells what the gang could ever start with; without one nothing is ruled out."""
        self.listed: Signature | None = None
        """The signature under which it stands in its lines."""
        self._signature: Signature | None = None
        self._fresh: object = None
        self._ask: Request | None = None
        self._next: list[int] | None = None
        self._ruled_out = False
        self._order: tuple[Number, int, Number, str] | None = None

    def __repr__(self) -> str:
        return f"<gang {self.fact.name}>"

    # -- one task ----------------------------------------------------------------------------------------------------

    def start(self, i: int, node: int) -> None:
        """A waiting task runs from now on; quotas and nodes are the world's business."""
        leaf = self.leaf[i]
        self.status[i], self.node[i] = RUNNING, node
        self.active[leaf] += 1
        self.waiting[leaf] -= 1
        self.lines.remove_waiting(i, leaf, self.needs[i])
        self.lines.add_running(i, leaf)
        self._forget()

    def stop(self, i: int) -> int:
        """A running task waits from now on; the node it stood on."""
        leaf, node = self.leaf[i], self.node[i]
        self.status[i], self.node[i] = WAITING, NOWHERE
        self.active[leaf] -= 1
        self.waiting[leaf] += 1
        self.lines.remove_running(i, leaf)
        self.lines.add_waiting(i, leaf, self.needs[i])
        self._forget()
        return node

    def _forget(self) -> None:
        self._signature = self._ask = self._next = self._order = None

    # -- how it stands -----------------------------------------------------------------------------------------------

    @property
    def is_satisfied(self) -> bool:
        """Whether it holds its minimum."""
        return self.tree.is_satisfied(self.active)

    @property
    def is_complete(self) -> bool:
        """Whether it has enough tasks to hold its minimum."""
        return self.tree.is_satisfied([a + w for a, w in zip(self.active, self.waiting, strict=True)])

    @property
    def is_running(self) -> bool:
        """Whether it runs: it has its minimum, and something at all."""
        return self.is_satisfied and any(self.active)

    @property
    def is_evictable(self) -> bool:
        """Whether others may ever take its place."""
        return self.preemptible and self.queue is not None

    @property
    def minimum_state(self) -> int:
        """`BELOW`, `AT` or `ABOVE` its minimum."""
        if self.tree.is_single_leaf:
            active, threshold = self.active[ROOT], self.tree.thresholds[ROOT]
            return BELOW_MINIMUM if active < threshold else AT_MINIMUM if active == threshold else ABOVE_MINIMUM
        if not self.tree.is_satisfied(self.active):
            return BELOW_MINIMUM
        step = self.tree.give_up_step(self.active)
        return AT_MINIMUM if sum(n for _leaf, n in step) == sum(self.active) else ABOVE_MINIMUM

    @property
    def order_key(self) -> tuple[Number, int, Number, str]:
        """Its place inside its leaf: priority, then below before above its minimum, then oldest, then name."""
        if self._order is None:
            self._order = -self.fact.priority, self.minimum_state, self.fact.submitted, self.fact.name
        return self._order

    @property
    def signature(self) -> Signature:
        """Equal for gangs that ask for the same, in the same state. Unlike tasks are tried in their own order, so the
        order belongs to what they ask; once some of them run, the gang is like no other."""
        if self._signature is None:
            key: object
            if self._alike and self.waiting[ROOT]:
                key = (self.tree.thresholds[ROOT], self.active[ROOT], self.waiting[ROOT], self.needs[0])
            elif any(self.active):
                key = (self.index, self.lines.waits)
            else:
                key = self._fresh = self._fresh or self._as_waiting()
            key = (self.fact.priority, self.preemptible, key)
            self._signature = self._table.setdefault(key, len(self._table))
        return self._signature

    def _as_waiting(self) -> object:
        waits = tuple((self.leaf[i], self.needs[i]) for i, status in enumerate(self.status) if status == WAITING)
        return (*self.tree.parents, *self.tree.thresholds, waits)

    # -- what it asks for --------------------------------------------------------------------------------------------

    @property
    def next_request(self) -> Request:
        """What its next attempt needs altogether; of a gang that can never be whole, all that waits."""
        if self._ask is None:
            self._ask = sum_requests([self.requests[i] for i in self.next_tasks()])
        return self._ask

    @property
    def has_choice(self) -> bool:
        """Whether its next attempt can take more than one way."""
        if self.tree.optional or (self.is_satisfied and not self.tree.is_single_leaf):
            return True
        return any(
            self.lines.has_unlike_waiting(leaf) and waiting > max(1, self.tree.thresholds[leaf] - self.active[leaf])
            for leaf, waiting in enumerate(self.waiting)
        )

    def min_cost(self, leaf: int, count: int) -> list[Number]:
        """What so many waiting tasks of a leaf ask for at least, resource by resource, GPUs first."""
        width = 1 + max((r for request in self.requests for r, _amount in request), default=-1)
        costs = []
        for i in self.lines.waiting_tasks(leaf):
            asked = dict(self.requests[i])
            costs.append([asked.get(r, 0) for r in range(width)])
        return [sum(parts) for parts in zip(*sorted(costs)[:count], strict=True)] or [0] * width

    def next_tasks(self) -> list[int]:
        """The tasks that its next attempt would start, were there room for everything; before it runs only such as are
        not ruled out for good. Of a gang that can never be whole, all that waits. Not to be changed."""
        if self._next is None:
            search = self.reach is not None and not self.is_running and self.has_choice
            found = self.reach.feasible_tasks(self) if search and self.reach is not None else None
            self._ruled_out = search and found is None
            self._next = self.first_tasks() if found is None else found
        return self._next

    def explaining_tasks(self) -> list[int]:
        """Those that tell why it waits: the tasks of its next attempt; where every way is ruled out for good the least
        that would do, for with less than that it could never start."""
        tasks = self.next_tasks()
        return (self.cheapest_tasks() or tasks) if self._ruled_out else tasks

    def first_tasks(self) -> list[int]:
        """Those that are first in order, whatever they ask for."""
        if self.tree.is_single_leaf:
            return self.lines.first_waiting(ROOT, max(1, self.tree.thresholds[ROOT] - self.active[ROOT]))
        found = self._choose_tasks(Growth.attempt, first=True)
        return [i for i, status in enumerate(self.status) if status == WAITING] if found is None else found

    def cheapest_tasks(self) -> list[int] | None:
        """Those that ask for least, or None where there are too few to begin with."""
        return self._choose_tasks(Growth.attempt_cheapest, first=False)

    def _choose_tasks(self, grow: Callable[[Growth], bool], *, first: bool) -> list[int] | None:
        """The tasks of an attempt in which everything finds a place; of unlike tasks the first, or the least."""
        chosen: list[int] = []

        def place(leaf: int, count: int) -> bool:
            ways = list(task_choices(self, leaf, count))
            chosen.extend(ways[0 if first else -1])
            return True

        def undo(mark: int) -> None:
            del chosen[mark:]

        growth = Growth(
            self.tree, self.active, self.waiting, place, mark=lambda: len(chosen), undo=undo, cost=self.min_cost
        )
        return chosen if grow(growth) else None


def task_choices(gang: GangState, leaf: int, count: int) -> Iterator[list[int]]:
    """The ways to take so many waiting tasks at once: first in line; where tasks are unlike, then the least of them."""
    yield gang.lines.first_waiting(leaf, count)
    if _may_pick(gang, leaf, count):
        yield sorted(_least_first(gang, leaf)[:count])


def place_one_by_one(
    gang: GangState,
    leaf: int,
    count: int,
    place: Callable[[int], bool],
    mark: Callable[[], int],
    undo: Callable[[int], object],
) -> bool:
    """Of unlike tasks take so many for which `place` finds room by themselves: in line, and if those are too few, the
    least first. `mark()` and `undo(mark)` take back what was placed in vain."""
    if not _may_pick(gang, leaf, count):
        return False
    for line in (gang.lines.waiting_tasks(leaf), _least_first(gang, leaf)):
        missing, before = count, mark()
        refused: set[Request] = set()
        for i in line:
            if gang.needs[i] in refused:
                continue
            if not place(i):
                refused.add(gang.needs[i])
                continue
            missing -= 1
            if not missing:
                return True
        undo(before)
    return False


def _may_pick(gang: GangState, leaf: int, count: int) -> bool:
    return count < gang.waiting[leaf] and gang.lines.has_unlike_waiting(leaf)


def _least_first(gang: GangState, leaf: int) -> list[int]:
    """The waiting tasks of a leaf, those with fewest GPUs first, then by the other resources."""
    return sorted(gang.lines.waiting_tasks(leaf), key=lambda i: [(-r, amount) for r, amount in gang.requests[i]])


def sum_requests(requests: Sequence[Request]) -> Request:
    """The sum of several requests."""
    if len(requests) == 1:
        return requests[0]
    if requests and requests.count(requests[0]) == len(requests):
        return tuple((r, amount * len(requests)) for r, amount in requests[0])
    whole: dict[int, Number] = {}
    for request in requests:
        for r, amount in request:
            whole[r] = whole.get(r, 0) + amount
    return tuple(sorted(whole.items()))
