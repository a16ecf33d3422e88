"""From facts to records: queues with their paths and fair shares, nodes with their free amounts, gangs with their
tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pools.domain.amounts import UNLIMITED, Amount, Number, is_gpu, sum_amounts
from pools.domain.quota.tree import NodeQuota, QuotaNode, QuotaTree, children_first_order
from scheduling.domain.engine.facts import ClusterFacts, TaskFacts, TaskState
from scheduling.domain.engine.fair_share import FairShareInput, divide_fair_shares
from scheduling.domain.engine.feasibility import Feasibility
from scheduling.domain.engine.nodes import NodeIndex, Request
from scheduling.domain.engine.share_ratios import ShareRatios
from scheduling.domain.engine.state import FINISHED, RELEASING, RUNNING, GangState, QueueState
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
        self._fair_shares()

    def _queues(self) -> list[QueueState]:
        width = len(self.keys)
        ratios = ShareRatios()
        facts = sorted(self.facts.queues, key=lambda queue: queue.name)
        queues = [QueueState(fact, i, width, ratios) for i, fact in enumerate(facts)]
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
        for i in order:
            queue, fact = queues[i], queues[i].fact
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
        table: dict[object, int] = {}
        default_trees: dict[int, GangTree] = {}
        gangs = []
        shapes = _RequestTable(self.keys, self._allowed)
        reach = Feasibility(self.keys, self.tree, None if self.nodes is None else self.nodes.empty_copy())
        for index, fact in enumerate(sorted(self.facts.gangs, key=lambda gang: gang.name)):
            size = sum(task.state is not TaskState.FINISHED for task in fact.tasks)
            tree = fact.tree or default_trees.get(size)
            if tree is None:
                tree = default_trees[size] = GangTree(max(1, size))
            requests = [shapes.request(task) for task in fact.tasks]
            needs = [shapes.need(task, request) for task, request in zip(fact.tasks, requests, strict=True)]
            queue = self.queue_of.get(fact.queue)
            gang = GangState(fact, index, queue=queue, requests=requests, needs=needs, tree=tree, table=table)
            gang.feasibility = reach
            gangs.append(gang)
        self._place_running(gangs)
        return gangs

    def _place_running(self, gangs: Sequence[GangState]) -> None:
        """Place running and releasing tasks on their nodes."""
        if self.nodes is None:
            return
        index_of = {name: i for i, name in enumerate(self.nodes.names)}
        for gang in gangs:
            for i, task in enumerate(gang.fact.tasks):
                if task.node is not None and gang.status[i] in {RUNNING, RELEASING}:
                    gang.node[i] = index_of[task.node]
                    self.nodes.reserve(index_of[task.node], gang.needs[i])

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
            for status, request in zip(gang.status, gang.requests, strict=True):
                if status == FINISHED:
                    continue
                for r, amount in request:
                    held = status in {RUNNING, RELEASING}
                    for above in gang.queue.path:
                        above.request[r] += amount
                        if held:
                            above.alloc[r] += amount
                            if not gang.preemptible:
                                above.non_preemptible[r] += amount
                    if held:
                        column = gang.queue.column
                        own[r][column] = own[r].get(column, 0) + amount
        for r, key in enumerate(self.keys):
            if key in self.tree.columns:
                self.tree.columns[key].set_usage(own[r])

    def _fair_shares(self) -> None:
        on_nodes = None if self.facts.nodes is None else sum_amounts(node.resources for node in self.facts.nodes)
        for r, key in enumerate(self.keys):
            whole: Amount | None = None if on_nodes is None else on_nodes.get(key, 0)
            if self.facts.capacity is not None:
                whole = self.facts.capacity.get(key, whole or 0)
            self._divide_level(r, whole, [queue for queue in self.tops if not queue.fact.is_external])
            self._divide_level(r, None, [queue for queue in self.tops if queue.fact.is_external])
        for queue in self.queues:
            queue.allocatable = [
                limit if quota == UNLIMITED else min(limit, max(quota, fair))
                for limit, quota, fair in zip(queue.limit, queue.quota, queue.fair, strict=True)
            ]

    def _divide_level(self, r: int, whole: Amount | None, level: Sequence[QueueState]) -> None:
        levels = [(whole, level)]
        for above, queues in levels:
            inputs = [
                FairShareInput(
                    queue.fact.name, queue.quota[r], queue.limit[r], queue.request[r],
                    queue.fact.weight, queue.fact.priority, queue.fact.created,
                )
                for queue in queues
            ]  # fmt: skip
            for queue, share in zip(queues, divide_fair_shares(above, inputs), strict=True):
                queue.fair[r] = share
                if queue.children:
                    levels.append((None if above is None else share, queue.children))


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

    def need(self, task: TaskFacts, request: Request) -> Request:
        """The request together with the set of nodes that the task may use."""
        if task.allowed_nodes is None or not self._allowed:
            return request
        pairs = (*request, (len(self._index_of) + self._allowed[task.allowed_nodes], 1))
        return self._interned.setdefault(pairs, pairs)


def _allowed_sets(facts: ClusterFacts) -> dict[frozenset[str], int]:
    """Every set of allowed nodes of any task, numbered in an order that does not depend on the input's."""
    if facts.nodes is None:
        return {}
    found = {task.allowed_nodes for gang in facts.gangs for task in gang.tasks if task.allowed_nodes is not None}
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
        for task in gang.tasks:
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
