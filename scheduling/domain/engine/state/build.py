"""From facts to records: queues with their paths and fair shares, nodes with their free amounts, gangs with their
tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pools.domain.quota.tree import NodeQuota, QuotaNode, QuotaTree, children_first_order
from pools.domain.values.amounts import UNLIMITED, Amount, Number, is_gpu
from scheduling.domain.engine.facts import ClusterFacts, GangFacts, TaskFacts, TaskState
from scheduling.domain.engine.state.feasibility import Feasibility
from scheduling.domain.engine.state.nodes import NodeIndex, Request
from scheduling.domain.engine.state.records import RELEASING, RUNNING, WAITING, GangState, QueueState, sum_requests
from scheduling.domain.gang import GangTree


class WorldRecords:
    """The records of some facts. Later only the records themselves change."""

    def __init__(self, facts: ClusterFacts) -> None:
        self.facts = facts
        self.keys = resource_keys(facts)
        self.queues = self._queues()
        self.queue_of = {queue.fact.name: queue for queue in self.queues}
        self.tops = [queue for queue in self.queues if queue.parent is None]
        self.tree = self._tree()
        self._allowed = _allowed_sets(facts)
        self.nodes = self._nodes()
        self.gangs = self._gangs()
        self._usage()

    def _queues(self) -> list[QueueState]:
        width = len(self.keys)
        facts = sorted(self.facts.queues, key=lambda queue: queue.name)
        queues = [QueueState(fact, i, width) for i, fact in enumerate(facts)]
        index = {queue.fact.name: i for i, queue in enumerate(queues)}
        parents = [index.get(queue.fact.parent, -1) if queue.fact.parent else -1 for queue in queues]
        order, cyclic = children_first_order(parents)
        for i in reversed(order):
            queue = queues[i]
            if i in cyclic:
                queue.is_cyclic, queue.path = True, (queue,)
            elif parents[i] >= 0:
                queue.parent = queues[parents[i]]
                queue.parent.children.append(queue)
                queue.path = (queue, *queue.parent.path)
            else:
                queue.path = (queue,)
        kinds = sum(map(is_gpu, self.keys))
        for i in order:
            queue, fact = queues[i], queues[i].fact
            queue.kinds = kinds
            queue.limit = [fact.limit.get(key, UNLIMITED) for key in self.keys]
            if fact.quota is None and queue.children:
                queue.quota = [sum(child.quota[r] for child in queue.children) for r in range(width)]
            else:
                queue.quota = [(fact.quota or {}).get(key, 0) for key in self.keys]
        return queues

    def _tree(self) -> QuotaTree:
        nodes = [
            QuotaNode(c.name, c.parent, _node_quotas(self.keys, c.quota, c.borrowing_limit, c.lending_limit), c.weight)
            for c in sorted(self.facts.cohorts, key=lambda cohort: cohort.name)
        ]
        for queue in self.queues:
            fact = queue.fact
            own = {} if queue.children else fact.quota or {}
            quotas = _node_quotas(self.keys, own, fact.borrowing_limit, fact.lending_limit)
            nodes.append(QuotaNode(fact.name, fact.parent, quotas, fact.weight))
        tree = QuotaTree(nodes)
        for queue in self.queues:
            queue.column = tree.index[queue.fact.name]
            root = queue.path[-1].fact
            queue.has_cohort_above = root.parent is not None
            queue.is_cyclic = queue.is_cyclic or queue.column in tree.cyclic_indexes
            held = any(above.fact.hold is not None for above in queue.path)
            queue.is_open = not (queue.children or queue.is_cyclic or held or queue.path[-1].fact.is_external)
        return tree

    def _nodes(self) -> NodeIndex | None:
        if self.facts.nodes is None:
            return None
        nodes = sorted(self.facts.nodes, key=lambda node: node.name)
        capacity = [
            (
                *(node.resources.get(key, 0) for key in self.keys),
                *(1 if node.name in allowed else 0 for allowed in self._allowed),
            )
            for node in nodes
        ]
        return NodeIndex([node.name for node in nodes], capacity, len(self.keys))

    def _gangs(self) -> list[GangState]:
        self._table: dict[object, int] = {}
        self._default_trees: dict[int, GangTree] = {}
        self._shapes = _RequestTable(self.keys, self._allowed)
        self.feasibility = Feasibility(self.keys, self.tree, None if self.nodes is None else self.nodes.empty_copy())
        self._node_numbers = {} if self.nodes is None else {name: i for i, name in enumerate(self.nodes.names)}
        self._next_index = 0
        facts = sorted(self.facts.gangs, key=lambda gang: gang.name)
        gangs = [self._with_choices(fact) if fact.alternatives else self._gang(fact) for fact in facts]
        self._shapes.forget_maps()
        return gangs

    def new_gang(self, fact: GangFacts) -> GangState:
        """The record of a gang that comes later, placed on the nodes of its tasks. Its resources and its sets of
        allowed nodes must be among those of the facts."""
        gang = self._with_choices(fact) if fact.alternatives else self._gang(fact)
        self._shapes.forget_maps()
        return gang

    @property
    def signatures(self) -> int:
        """The number of different signatures so far."""
        return len(self._table)

    def _with_choices(self, fact: GangFacts) -> GangState:
        """The record of a gang with several choices, with those of the others."""
        gang = self._gang(fact)
        every = [gang if k == fact.choice else self._gang(chosen(fact, k)) for k in range(len(fact.choices))]
        for each in every:
            each.choices = tuple(every)
        gang.tell_other_choices()
        return gang

    def _gang(self, fact: GangFacts) -> GangState:
        size = sum(task.state is not TaskState.FINISHED for task in fact.tasks)
        tree = fact.tree or self._default_trees.get(size)
        if tree is None:
            tree = self._default_trees[size] = GangTree(max(1, size))
        requests = [self._shapes.request(task) for task in fact.tasks]
        needs = requests
        if self._allowed:
            needs = [self._shapes.need(task, request) for task, request in zip(fact.tasks, requests, strict=True)]
        queue, index = self.queue_of.get(fact.queue), self._next_index
        self._next_index += 1
        gang = GangState(
            fact, index, queue=queue, requests=requests, needs=needs, tree=tree, table=self._table,
            policy=self.facts.policy,
        )  # fmt: skip
        gang.feasible_tasks = self.feasibility.feasible_tasks
        if self.nodes is not None:
            for i, task in enumerate(fact.tasks):
                if task.node is not None and gang.status[i] in {RUNNING, RELEASING}:
                    gang.node[i] = self._node_numbers[task.node]
                    self.nodes.reserve(gang.node[i], needs[i])
        return gang

    def _usage(self) -> None:
        """The allocated and requested amounts of every queue with all below it, and the usage in the cohort tree."""
        own: list[dict[int, Number]] = [{} for _ in self.keys]
        for name, amounts in self.facts.usage.items():
            queue = self.queue_of[name]
            for r, key in enumerate(self.keys):
                amount = amounts.get(key, 0)
                own[r][queue.column] = own[r].get(queue.column, 0) + amount
                for above in queue.path:
                    above.alloc[r] += amount
                    above.request[r] += amount
        for name, amounts in self.facts.demand.items():
            for r, key in enumerate(self.keys):
                for above in self.queue_of[name].path:
                    above.request[r] += amounts.get(key, 0)
        for gang in self.gangs:
            if gang.queue is None:
                continue
            for r, amount in wanted_amounts(gang) if gang.choices else _sum_of(gang, _WANTED):
                for above in gang.queue.path:
                    above.request[r] += amount
            for r, amount in _sum_of(gang, {RUNNING, RELEASING}):
                for above in gang.queue.path:
                    above.alloc[r] += amount
                    if not gang.preemptible:
                        above.non_preemptible[r] += amount
                column = gang.queue.column
                own[r][column] = own[r].get(column, 0) + amount
        for r, key in enumerate(self.keys):
            if key in self.tree.columns:
                self.tree.columns[key].set_usage(own[r])


def chosen(fact: GangFacts, choice: int) -> GangFacts:
    """The facts of a gang as if it had this choice, of which nothing runs yet."""
    every = [_waiting(tasks, fact.tasks) for tasks in fact.choices]
    others = (*every[:choice], *every[choice + 1 :])
    return replace(fact, tasks=every[choice], alternatives=others, choice=choice, started=None)


def _waiting(tasks: tuple[TaskFacts, ...], now: tuple[TaskFacts, ...]) -> tuple[TaskFacts, ...]:
    """These tasks, as they wait in another choice than the one of which these are now."""
    states = [TaskState.FINISHED if task.state is TaskState.FINISHED else TaskState.PENDING for task in now]
    return tuple(
        task if (task.state, task.node) == (state, None) else replace(task, state=state, node=None)
        for task, state in zip(tasks, states, strict=True)
    )


def wanted_amounts(gang: GangState) -> Request:
    """The amounts that a gang holds and wants. Until it has one of several choices, it wants each of them: of a
    resource that several have, the most."""
    if not gang.choices or gang.holds_something:
        return _sum_of(gang, _WANTED)
    most: dict[int, Number] = {}
    for each in gang.choices:
        for r, amount in _sum_of(each, _WANTED):
            most[r] = max(most.get(r, 0), amount)
    return tuple(sorted(most.items()))


_WANTED = frozenset({WAITING, RUNNING, RELEASING})


def _sum_of(gang: GangState, states: frozenset[int] | set[int]) -> Request:
    """The total request of the tasks of a gang in these states."""
    if states.issuperset(gang.status):
        return gang.total_request
    return sum_requests(
        [request for status, request in zip(gang.status, gang.requests, strict=True) if status in states]
    )


class _RequestTable:
    """Requests as sparse pairs. Equal requests are one object, so that they are quick to compare."""

    def __init__(self, keys: Sequence[str], allowed: Mapping[frozenset[str], int]) -> None:
        self._index_of, self._allowed = {key: r for r, key in enumerate(keys)}, allowed
        self._by_map: dict[int, Request] = {}
        self._interned: dict[Request, Request] = {}

    def request(self, task: TaskFacts) -> Request:
        """The request of the task without resources of amount 0."""
        known = self._by_map.get(id(task.request))
        if known is None:
            pairs = tuple(sorted((self._index_of[key], amount) for key, amount in task.request.items() if amount))
            known = self._by_map[id(task.request)] = self._interned.setdefault(pairs, pairs)
        return known

    def forget_maps(self) -> None:
        """Forget which maps are known: another map may get the identity of one that is gone."""
        self._by_map.clear()

    def need(self, task: TaskFacts, request: Request) -> Request:
        """The request together with the set of nodes that the task may use."""
        if task.allowed_nodes is None:
            return request
        pairs = (*request, (len(self._index_of) + self._allowed[task.allowed_nodes], 1))
        return self._interned.setdefault(pairs, pairs)


def _allowed_sets(facts: ClusterFacts) -> dict[frozenset[str], int]:
    """Every set of allowed nodes of any task, numbered in an order that does not depend on the input's."""
    if facts.nodes is None:
        return {}
    found = {task.allowed_nodes for gang in facts.gangs for task in gang.tasks if task.allowed_nodes is not None}
    for gang in facts.gangs:
        for tasks in gang.alternatives:
            found.update(task.allowed_nodes for task in tasks if task.allowed_nodes is not None)
    return {allowed: n for n, allowed in enumerate(sorted(found, key=sorted))}


def resource_keys(facts: ClusterFacts) -> list[str]:
    """Every resource key of the facts, GPUs first: GPUs decide which node is fullest."""
    found: set[str] = set(facts.capacity or ())
    for queue in facts.queues:
        found.update(queue.quota or (), queue.limit, queue.borrowing_limit, queue.lending_limit)
    for cohort in facts.cohorts:
        found.update(cohort.quota, cohort.borrowing_limit, cohort.lending_limit)
    for holder in (*facts.usage.values(), *facts.demand.values()):
        found.update(holder)
    for node in facts.nodes or ():
        found.update(node.resources)
    seen: set[int] = set()
    for gang in facts.gangs:
        for tasks in gang.choices if gang.alternatives else (gang.tasks,):
            for task in tasks:
                if id(task.request) not in seen:
                    seen.add(id(task.request))
                    found.update(task.request)
    return sorted(found, key=lambda key: (not is_gpu(key), key != "default/gpu", key))


def _node_quotas(
    keys: Sequence[str], nominal: Mapping[str, Amount], borrowing: Mapping[str, Amount], lending: Mapping[str, Amount]
) -> dict[str, NodeQuota]:
    return {
        key: NodeQuota(nominal.get(key, 0), borrowing.get(key, UNLIMITED), lending.get(key, UNLIMITED)) for key in keys
    }
