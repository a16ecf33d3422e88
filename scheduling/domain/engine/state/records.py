"""The mutable records of the facts: one for each queue and each gang, with cached values of frequent questions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pools.domain.values.amounts import Amount, Number
from scheduling.domain.engine.facts import NORMAL, GangFacts, PolicyFacts, QueueFacts, TaskState
from scheduling.domain.engine.state.nodes import NOWHERE, Request
from scheduling.domain.engine.state.task_index import TaskIndex
from scheduling.domain.gang import ROOT, GangTree, Growth

WAITING, RUNNING, RELEASING, FINISHED = range(4)
_CODES = {
    TaskState.PENDING: WAITING,
    TaskState.RUNNING: RUNNING,
    TaskState.RELEASING: RELEASING,
    TaskState.FINISHED: FINISHED,
}
BELOW_MINIMUM, AT_MINIMUM, ABOVE_MINIMUM = range(3)
"""The running tasks of a gang compared with its minimum; gangs are served in this order."""


class QueueState:
    """One queue. Lists have one number for each resource; `path` leads from the queue itself up to its top queue."""

    __slots__ = (
        "alloc",
        "allocatable",
        "children",
        "column",
        "fact",
        "fair",
        "has_cohort_above",
        "index",
        "is_cyclic",
        "is_open",
        "kinds",
        "limit",
        "non_preemptible",
        "parent",
        "path",
        "quota",
        "rank",
        "request",
        "running",
        "waiting",
    )  # fmt: skip

    def __init__(self, fact: QueueFacts, index: int, resources: int) -> None:
        self.fact, self.index = fact, index
        self.parent: QueueState | None = None
        self.children: list[QueueState] = []
        self.path: tuple[QueueState, ...] = ()
        self.quota: list[Amount] = [0] * resources
        self.limit: list[Amount] = [0] * resources
        self.alloc: list[Number] = [0] * resources
        """Held by all work below, usage of unlisted work included."""
        self.non_preemptible: list[Number] = [0] * resources
        """The non-preemptible part of `alloc`, which counts against the quota."""
        self.request: list[Number] = [0] * resources
        self.fair: list[Amount] = [0] * resources
        self.allocatable: list[Amount] = [0] * resources
        """limit if the quota is unlimited, else min(limit, max(quota, fair share)); fixed like the fair share."""
        self.rank: Any = None
        """Its rank among its siblings in the choice of victims, or several by kinds of GPU; reset with every change of
        `alloc`."""
        self.kinds = 0
        """The number of kinds of GPU of the facts, which are its first resources."""
        self.column = NOWHERE
        """Its index in the tree of cohorts and queues."""
        self.has_cohort_above = False
        """Whether a cohort is above it, so that the `available` amount of the tree bounds it."""
        self.is_cyclic = False
        self.is_open = False
        """Whether work may start there: a leaf on no cycle, without a hold on it or above it."""
        self.waiting: dict[Signature, SortedGangs] = {}
        self.running: SortedGangs | None = None

    def __repr__(self) -> str:
        return f"<queue {self.fact.name}>"

    def leaves(self) -> Iterator[QueueState]:
        """The leaves below it, or the queue itself."""
        stack = [self]
        for queue in stack:
            if queue.children:
                stack += queue.children
            else:
                yield queue

    def unlink(self) -> None:
        """Drop the references to other records, so that reference counts free them."""
        self.parent, self.children, self.path = None, [], ()
        self.waiting, self.running = {}, None


Rank = tuple[object, ...]
OrderKey = tuple[Number, int, Number, str, int]
Signature = int
"""Gangs of one leaf with equal signatures are interchangeable except for their age: a blocker of one blocks all."""

ELSEWHERE: Signature = -1
"""The signature of a choice whose gang has taken another one."""

Demand = tuple[object, object]
"""Gangs of one leaf with equal demands have equal requests; their priorities may differ."""


class GangState:
    """One gang. `status`, `node`, `requests` and `needs` have one entry for each task, `active` and `waiting` one for
    each node of its tree. The request of a task counts against quotas; its need adds the nodes that it may use.

    A gang that may use several flavors has one record for each, in `choices`, and at most one of them holds anything.
    They wait side by side until one of them starts."""

    __slots__ = (
        "_ageing",
        "_alike",
        "_fresh",
        "_give_up",
        "_next",
        "_next_request",
        "_order",
        "_ruled_out",
        "_running",
        "_signature",
        "_table",
        "_task_index",
        "_variant",
        "active",
        "choice",
        "choices",
        "fact",
        "feasible_tasks",
        "index",
        "leaf",
        "listed_signature",
        "needs",
        "node",
        "preemptible",
        "queue",
        "ran",
        "released",
        "requests",
        "status",
        "total_request",
        "tree",
        "waiting",
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
        policy: PolicyFacts | None = None,
    ) -> None:
        self.fact, self.index, self.queue, self.tree, self.requests = fact, index, queue, tree, requests
        self.needs = needs
        self.total_request = sum_requests(requests)
        """The request of all its tasks."""
        self._table = table
        self._variant = None if policy is None else fact.time_limit
        """A part of the signature: under a policy, work with a shorter time limit may start where other work may
        not."""
        self._ageing: Number | None = None
        if policy is not None and policy.ageing is not None and not fact.preemptible and fact.priority >= NORMAL:
            self._ageing = policy.ageing * policy.submitted_per_second
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
        counts = {WAITING: self.waiting, RUNNING: self.active, RELEASING: self.released}
        for leaf, status in zip(self.leaf, self.status, strict=True):
            if status != FINISHED:
                counts[status][leaf] += 1
        self._task_index: TaskIndex | None = None
        self.ran = any(self.active) or any(self.released)
        self.feasible_tasks: Callable[[GangState], list[int] | None] | None = None
        """Finds the tasks that the gang could ever start with; without it nothing is ruled out."""
        self.listed_signature: Signature | None = None
        """The signature under which the gang is in the lists of its queue."""
        self._signature: Signature | None = None
        self._fresh: object = None
        self._next_request: Request | None = None
        self._running: Request | None = None
        self._give_up: tuple[int, ...] | None = None
        self._next: list[int] | None = None
        self._ruled_out = False
        self._order: OrderKey | None = None
        self.choice = fact.choice
        """Its place among the choices of the gang."""
        self.choices: tuple[GangState, ...] = ()
        """All choices of the gang in order, this one too; empty for a gang without alternatives."""

    def __repr__(self) -> str:
        return f"<gang {self.fact.name}>"

    # -- one task ----------------------------------------------------------------------------------------------------

    def start(self, i: int, node: int) -> None:
        """Count a waiting task as running; the world accounts for quotas and nodes."""
        leaf = self.leaf[i]
        self.status[i], self.node[i] = RUNNING, node
        self.active[leaf] += 1
        self.waiting[leaf] -= 1
        if self._task_index is not None:
            self._task_index.remove_waiting(i, leaf, self.needs[i])
            self._task_index.add_running(i, leaf)
        self._forget()
        if self.choices:
            self.tell_other_choices()

    def stop(self, i: int) -> int:
        """Count a running task as waiting. Returns its node."""
        leaf, node = self.leaf[i], self.node[i]
        self.status[i], self.node[i] = WAITING, NOWHERE
        self.active[leaf] -= 1
        self.waiting[leaf] += 1
        if self._task_index is not None:
            self._task_index.remove_running(i, leaf)
            self._task_index.add_waiting(i, leaf, self.needs[i])
        self._forget()
        if self.choices:
            self.tell_other_choices()
        return node

    def tell_other_choices(self) -> None:
        """Rule out the other choices while this one holds something."""
        signature = ELSEWHERE if self.holds_something else None
        for other in self.choices:
            if other is not self:
                other._signature = signature

    def _forget(self) -> None:
        self._signature = self._next_request = self._next = self._order = self._running = self._give_up = None

    @property
    def task_index(self) -> TaskIndex:
        """Its waiting and its running tasks, made when they are first needed: most gangs wait or run as a whole."""
        if self._task_index is None:
            index = self._task_index = TaskIndex(len(self.tree.names))
            for i in reversed(range(len(self.status))):
                if self.status[i] == WAITING:
                    index.add_waiting(i, self.leaf[i], self.needs[i])
                elif self.status[i] == RUNNING:
                    index.add_running(i, self.leaf[i])
        return self._task_index

    # -- its state -----------------------------------------------------------------------------------------------

    @property
    def holds_something(self) -> bool:
        """Whether a task of it runs or is ending."""
        return any(self.active) or any(self.released)

    @property
    def is_elsewhere(self) -> bool:
        """Whether its gang has taken another choice."""
        return self._signature == ELSEWHERE

    @property
    def is_satisfied(self) -> bool:
        """Whether it has its minimum."""
        return self.tree.is_satisfied(self.active)

    @property
    def is_complete(self) -> bool:
        """Whether it has enough tasks for its minimum."""
        if self.tree.is_single_leaf:
            return self.active[ROOT] + self.waiting[ROOT] >= self.tree.thresholds[ROOT]
        return self.tree.is_satisfied([a + w for a, w in zip(self.active, self.waiting, strict=True)])

    @property
    def is_running(self) -> bool:
        """Whether it runs: it has its minimum and at least one active task."""
        return self.is_satisfied and any(self.active)

    @property
    def is_evictable(self) -> bool:
        """Whether other gangs may ever evict it."""
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
    def order_key(self) -> OrderKey:
        """Its sort key inside its leaf: priority, then below before above its minimum, then oldest, then name, then
        the order of the choices. With ageing, work that is never preempted has one priority, and HIGH work counts as
        that much older."""
        if self._order is None:
            priority, age = self.fact.priority, self.fact.submitted
            if self._ageing is not None:
                priority, age = NORMAL, age - (self._ageing if priority > NORMAL else 0)
            self._order = -priority, self.minimum_state, age, self.fact.name, self.choice
        return self._order

    @property
    def signature(self) -> Signature:
        """Equal for gangs with equal requests in the same state. Different tasks are tried in the order of the spec, so
        the order is part of the request; once some of them run, the gang is interchangeable with no other."""
        if self._signature is None:
            key = (self.fact.priority, self.preemptible, *self.demand)
            self._signature = self._table.setdefault(key, len(self._table))
        return self._signature

    @property
    def demand(self) -> Demand:
        """The part of the signature that says what the gang would start. It decides alone what other leaves may lose to
        the gang, once limits and the quota for non-preemptible work allow its start."""
        key: object
        if self._alike and self.waiting[ROOT]:
            key = (self.tree.thresholds[ROOT], self.active[ROOT], self.waiting[ROOT], self.needs[0])
        elif any(self.active):
            key = (self.index, self.task_index.waiting_digest)
        else:
            key = self._fresh = self._fresh or self._waiting_signature()
        return key, self._variant

    def _waiting_signature(self) -> object:
        waits = tuple((self.leaf[i], self.needs[i]) for i, status in enumerate(self.status) if status == WAITING)
        return (*self.tree.parents, *self.tree.thresholds, waits)

    # -- its running tasks -------------------------------------------------------------------------------------------

    @property
    def running_request(self) -> Request:
        """The total request of its running tasks."""
        if self._running is None:
            running = [self.requests[i] for i, status in enumerate(self.status) if status == RUNNING]
            self._running = sum_requests(running)
        return self._running

    def running_tasks(self) -> tuple[int, ...]:
        """Its running tasks."""
        return tuple([i for i, status in enumerate(self.status) if status == RUNNING])

    def next_to_give_up(self) -> tuple[int, ...]:
        """The running tasks that it gives up first, together; the last tasks of the spec first."""
        if self._give_up is None:
            tasks: list[int] = []
            for leaf, count in self.tree.give_up_step(self.active):
                tasks.extend(self.task_index.last_running(leaf, count))
            self._give_up = tuple(tasks)
        return self._give_up

    # -- its next request --------------------------------------------------------------------------------------------

    @property
    def next_request(self) -> Request:
        """The total request of its next attempt; for a gang that can never be complete, of all its waiting tasks."""
        if self._next_request is None:
            self._next_request = sum_requests([self.requests[i] for i in self.next_tasks()])
        return self._next_request

    @property
    def has_choice(self) -> bool:
        """Whether its next attempt can choose between tasks."""
        if self.tree.is_single_leaf:
            enough = max(1, self.tree.thresholds[ROOT] - self.active[ROOT])
            return self.waiting[ROOT] > enough and self.task_index.has_unlike_waiting(ROOT)
        if self.tree.has_optional_children or self.is_satisfied:
            return True
        return any(
            self.task_index.has_unlike_waiting(leaf)
            and waiting > max(1, self.tree.thresholds[leaf] - self.active[leaf])
            for leaf, waiting in enumerate(self.waiting)
        )

    def min_cost(self, leaf: int, count: int) -> list[Number]:
        """The least total request of `count` waiting tasks of a leaf, resource by resource, GPUs first."""
        width = 1 + max((r for request in self.requests for r, _amount in request), default=-1)
        costs = []
        for i in self.task_index.waiting_tasks(leaf):
            requested = dict(self.requests[i])
            costs.append([requested.get(r, 0) for r in range(width)])
        return [sum(parts) for parts in zip(*sorted(costs)[:count], strict=True)] or [0] * width

    def next_tasks(self) -> list[int]:
        """The tasks that its next attempt would start with enough free capacity; before the gang runs, only tasks that
        are not ruled out permanently. For a gang that can never be complete, all waiting tasks. Callers do not change
        the list."""
        if self._next is None:
            search = self.feasible_tasks if not self.is_running and self.has_choice else None
            found = None if search is None else search(self)
            self._ruled_out = search is not None and found is None
            self._next = self.first_tasks() if found is None else found
        return self._next

    def explaining_tasks(self) -> list[int]:
        """The tasks that explain why it waits: those of its next attempt; if every choice is ruled out permanently, the
        cheapest sufficient ones, because with less it could never start."""
        tasks = self.next_tasks()
        return (self.cheapest_tasks() or tasks) if self._ruled_out else tasks

    def first_tasks(self) -> list[int]:
        """The first tasks in order, whatever their requests."""
        if self.tree.is_single_leaf:
            count = max(1, self.tree.thresholds[ROOT] - self.active[ROOT])
            if self.waiting[ROOT] == len(self.status):
                return list(range(min(count, len(self.status))))
            return self.task_index.first_waiting(ROOT, count)
        found = self._choose_tasks(Growth.attempt, first=True)
        return [i for i, status in enumerate(self.status) if status == WAITING] if found is None else found

    def cheapest_tasks(self) -> list[int] | None:
        """The tasks with the least requests, or None if there are too few tasks."""
        return self._choose_tasks(Growth.attempt_cheapest, first=False)

    def _choose_tasks(self, grow: Callable[[Growth], bool], *, first: bool) -> list[int] | None:
        """The tasks of an attempt in which every task fits; of different tasks the first, or the cheapest."""
        chosen: list[int] = []

        def place(leaf: int, count: int) -> bool:
            choices = list(task_choices(self, leaf, count))
            chosen.extend(choices[0 if first else -1])
            return True

        def undo(mark: int) -> None:
            del chosen[mark:]

        growth = Growth(
            self.tree, self.active, self.waiting, place, mark=lambda: len(chosen), undo=undo, cost=self.min_cost
        )
        return chosen if grow(growth) else None


class SortedGangs:
    """Gangs by the `order_key` that they had when they were added; the victim order is the reverse."""

    __slots__ = ("_gangs", "_keys", "order_keys")

    def __init__(self) -> None:
        self.order_keys: list[OrderKey] = []
        self._gangs: list[GangState] = []
        self._keys: dict[int, OrderKey] = {}

    def __len__(self) -> int:
        return len(self._gangs)

    def __iter__(self) -> Iterator[GangState]:
        return iter(self._gangs)

    def __reversed__(self) -> Iterator[GangState]:
        return reversed(self._gangs)

    def __contains__(self, gang: GangState) -> bool:
        return gang.index in self._keys

    def add(self, gang: GangState) -> None:
        """Insert a gang by its key."""
        order_key = gang.order_key
        at = bisect_left(self.order_keys, order_key)
        self.order_keys.insert(at, order_key)
        self._gangs.insert(at, gang)
        self._keys[gang.index] = order_key

    def remove(self, gang: GangState) -> None:
        """Remove a gang."""
        at = bisect_left(self.order_keys, self._keys.pop(gang.index))
        del self.order_keys[at]
        del self._gangs[at]

    @property
    def first(self) -> GangState:
        """The gang that is served first."""
        return self._gangs[0]


def task_choices(gang: GangState, leaf: int, count: int) -> Iterator[list[int]]:
    """The choices of `count` waiting tasks at once: the first ones; if tasks differ, then the cheapest ones."""
    yield gang.task_index.first_waiting(leaf, count)
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
    """Place `count` different tasks one by one with `place`: in order, and if too few fit, the cheapest first. `mark()`
    and `undo(mark)` undo placements that did not suffice."""
    if not _may_pick(gang, leaf, count):
        return False
    for order in (gang.task_index.waiting_tasks(leaf), _least_first(gang, leaf)):
        missing, before = count, mark()
        refused: set[Request] = set()
        for i in order:
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
    return count < gang.waiting[leaf] and gang.task_index.has_unlike_waiting(leaf)


def _least_first(gang: GangState, leaf: int) -> list[int]:
    """The waiting tasks of a leaf, tasks with fewest GPUs first, then by the other resources."""
    return sorted(gang.task_index.waiting_tasks(leaf), key=lambda i: [(-r, amount) for r, amount in gang.requests[i]])


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
