"""One backend as it is now, as the facts of the engine, with the way back from its names to our rows.

Queues bear their logical names (D2): `osmo-pool-{ns}-team` contains `osmo-pool-{ns}-team--_shared` and one leaf for
each slice. Gangs bear the names people know: `hello-1`, or `hello-1/train` where a workflow has several groups.

* Quotas are the scheduling view (D4); a pool's `maximum` is the limit of its container. Only GPUs have quotas: of
  cores (in millicores), memory and storage (in bytes) a queue may take what the nodes have.
* Pools that share nodes are queues side by side over the same nodes. Which nodes a task may stand on (its platform, and
  what it excludes) is `Task.allowed`.
* Nothing starts on an offline backend; a pool in maintenance takes no new work, and what waits there goes on (D6).
* A gang that waits for other groups of its workflow is not in the facts; nothing of it wants to run yet.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from pools.domain import amounts, names
from pools.domain.amounts import Amount, Gpus
from pools.domain.quota.pool_balance import PoolBalance
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Backend, Node, Pool
from pools.selectors.pool_balance import read_balances
from pools.transactions import one_snapshot
from scheduling.domain.admission import WaitCode
from scheduling.domain.engine import facts as engine
from scheduling.domain.engine.facts import ClusterFacts, DisplayUnit, GangFacts, QueueFacts, StartHold, TaskState
from scheduling.domain.gang import DEFAULT_SUB_GROUP, GangTree, tree_from_json
from scheduling.domain.plan_units import GatePath
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, TaskStatus
from scheduling.domain.tree_gates import TreeGates
from scheduling.garbage_collector import garbage_collector
from scheduling.selectors.cohorts_above import pool_cohort_limits, read_cohorts_above
from scheduling.selectors.dispatched_usage import read_dispatched_usage
from scheduling.selectors.gpu_headroom import read_gpu_holds
from scheduling.selectors.start_gates import build_gate_paths, read_tree_gates

CPU, MEMORY, STORAGE = (amounts.resource_key(name) for name in ("cpu", "memory", "storage"))
MILLICORES = 1000
UNITS = {
    CPU: DisplayUnit(MILLICORES, "core", "cores"),
    MEMORY: DisplayUnit(2**30, "GiB of memory", "GiB of memory"),
    STORAGE: DisplayUnit(2**30, "GiB of storage", "GiB of storage"),
}

_STATES = {
    TaskStatus.SUBMITTING: TaskState.PENDING,
    TaskStatus.PROCESSING: TaskState.PENDING,
    TaskStatus.SCHEDULING: TaskState.PENDING,
    TaskStatus.INITIALIZING: TaskState.RUNNING,
    TaskStatus.RUNNING: TaskState.RUNNING,
}
_STATE_OF = {status.value: state for status, state in _STATES.items()} | {
    TaskStatus.COMPLETED.value: TaskState.FINISHED
}
"""Of the tasks that count, by the text of their rows: to make a status of it costs more than all the rest. What ended
well holds nothing and is told all the same: a gang of which a task has, and which is below its minimum now, is on its
way to its end and keeps its places (kai.md 6.5)."""
_WAITING = [status for status, state in _STATES.items() if state is TaskState.PENDING]
_BEGUN = [status for status, state in _STATES.items() if state is TaskState.RUNNING]
_UNBOUNDED: Mapping[str, Amount] = dict.fromkeys((CPU, MEMORY, STORAGE), amounts.UNLIMITED)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_GROUPS = 10**6  # of one workflow; they were submitted at one moment and are served in the order of the file


@dataclass(frozen=True, slots=True)
class GangRef:
    """Whose gang it is. `leaf` and `root` are ids of pools, `pool` is the leaf's name as people write it; a shared leaf
    goes by its top-level pool's."""

    group: UUID
    workflow: UUID
    workflow_name: str
    group_name: str
    leaf: int
    root: int
    pool: str


@dataclass(frozen=True, slots=True)
class LiveFacts:
    """The facts, and what their names stand for: `gangs` by the gang's name, `leaves` (pool ids) and `roots` (of
    containers) by the queue's; and the numbers of every leaf's path at the same moment, `gates` by the leaf's id and
    `tree_gates` of the cohorts above. A task of the facts bears the name of its row, and is that name's latest try."""

    facts: ClusterFacts
    gangs: Mapping[str, GangRef]
    leaves: Mapping[str, int]
    roots: Mapping[str, int]
    gate_paths: Mapping[int, GatePath]
    tree_gates: TreeGates
    waits_for_external: bool
    """Whether something may wait for what moves elsewhere: a GPU quota of a namespace, a cohort's other backends."""


def read_live_facts(
    backend: Backend, *, new_workflows: Collection[str] | None = None, totals_only: bool = False
) -> LiveFacts:
    """All queues, nodes and work of one backend at one moment. A handful of queries, however much there is.

    `new_workflows` names workflows: then of what waits only theirs is listed, the rest counts as demand of its leaf;
    and if `totals_only`, nothing else is listed at all. Queues then hold in sum, and nodes bear in sum, what runs, and
    what waits is left out. That is enough to see what of the new work starts in free room, and too little to say who
    waits, or whose places could be taken. A Kubernetes backend whose nodes we do not know has none in the facts: only
    quotas decide there.
    """
    with one_snapshot(), garbage_collector.paused():
        trees = _BackendQueues(backend, counted=totals_only)
        nodes = list(Node.objects.filter(backend=backend))
        gangs = _BackendGangs(backend, trees, nodes, new_workflows, counted=totals_only)
        return LiveFacts(
            ClusterFacts(
                queues=tuple(trees.queues),
                cohorts=tuple(trees.above.cohorts),
                gangs=tuple(gangs.facts),
                nodes=None if backend.kind == Backend.Kind.KUBERNETES and not nodes else tuple(map(_node, nodes)),
                usage=trees.usage,
                demand={}
                if new_workflows is None or totals_only
                else _demand(backend, trees.queue_of_leaf, new_workflows),
                units=UNITS,
            ),
            gangs.rows,
            {queue: leaf for leaf, queue in trees.queue_of_leaf.items() if leaf not in trees.outside},
            trees.roots,
            trees.gates,
            read_tree_gates(trees.rows, trees.above.tops),
            waits_for_external=bool(trees.above.outside or trees.held),
        )


class _BackendQueues:
    """The queues of every pool of a backend that is not archived, and of those that share a tree of cohorts with one.

    `outside` are the leaves of the latter, `takeable` the top-level pools among them whose LOW work may be taken back
    from here; what else they hold, or were given in a cluster, is `usage`. Where work is `counted`, `usage` is all that
    it holds but for what HIGH and NORMAL work holds of this backend's queues: that is `firm`.
    """

    def __init__(self, backend: Backend, *, counted: bool = False) -> None:
        self.queues: list[QueueFacts] = []
        self.queue_of_leaf: dict[int, str] = {}
        self.roots: dict[str, int] = {}
        self.gates: dict[int, GatePath] = {}
        self.pools: dict[int, str] = {}
        self.outside: set[int] = set()
        self.takeable: set[int] = set()
        self.usage: dict[str, dict[str, int]] = {}
        self.firm: dict[str, int] = {}
        self._backend, self._counted = backend, counted
        rows = Pool.objects.roots().filter(backend=backend, archived=False).select_related("backend", "cohort")
        own = list(rows)
        self.above = read_cohorts_above(backend, own)
        self.rows = [*own, *self.above.outside]
        self._promised: Counter[int] = Counter()
        for each in read_dispatched_usage(self.above.tops) if self.above.outside else ():
            self._promised[each.leaf] += each.gpus
        pools = {root.pk: root for root in self.rows}
        slices: dict[int, dict[str, Pool]] = defaultdict(dict)
        parts = Pool.objects.filter(parent__in=pools).exclude(subpool_state=SubpoolState.ARCHIVED)
        for row in parts.only("id", "parent_id", "subpool_name", "created_at"):
            assert row.parent_id is not None
            slices[row.parent_id][row.subpool_name or ""] = row
        for root_id, balance in read_balances(pools.values()).items():
            self._add(pools[root_id], balance, slices[root_id])
        self.held = read_gpu_holds(own, whole=self._backend.kind == Backend.Kind.KUBERNETES)

    def _add(self, root: Pool, balance: PoolBalance, slices: Mapping[str, Pool]) -> None:
        container = names.queue_name(root.namespace, root.name, None)
        is_outside = root.backend_id != self._backend.pk
        if not is_outside:
            self.roots[container] = root.pk
        elif root.backend is not None and {root.backend.kind, self._backend.kind} == {Backend.Kind.SIMULATED}:
            self.takeable.add(root.pk)
        borrowing, lending = pool_cohort_limits(root, balance)
        self.queues.append(
            QueueFacts(
                container,
                root.cohort.name if root.cohort else None,
                quota=_quota(balance.scheduling_quota),
                limit=_limit(balance.maximum),
                borrowing_limit=borrowing,
                lending_limit=lending,
                weight=1 if root.weight is None else root.weight,
                created=_microseconds(root.created_at),
                hold=_hold(self._backend),
                is_external=is_outside,
            )
        )
        ids = {names.SHARED_QUEUE: root.pk} | {short: row.pk for short, row in slices.items()}
        self.gates |= build_gate_paths(balance, ids)
        leaves = [(root, names.SHARED_QUEUE, balance.shared_scheduling_quota, balance.shared_usage)]
        leaves += [
            (slices[part.name], part.name, part.scheduling_quota, part.usage)
            for part in balance.subpools
            if part.name in slices
        ]
        for row, leaf, quota, usage in leaves:
            queue = names.queue_name(root.namespace, root.name, leaf)
            self.queue_of_leaf[row.pk] = queue
            self.pools[row.pk] = root.name if leaf == names.SHARED_QUEUE else names.canonical_name(root.name, leaf)
            self.queues.append(QueueFacts(queue, container, _quota(quota), created=_microseconds(row.created_at)))
            if is_outside:
                self.outside.add(row.pk)
                listed = usage.total_usage - usage.used if root.pk in self.takeable and not self._counted else 0
                self.usage[queue] = {amounts.GPU: usage.total_usage - listed + self._promised[row.pk]}
            elif self._counted:
                self.usage[queue] = {amounts.GPU: usage.total_usage - usage.used}
                self.firm[queue] = usage.used


def _hold(backend: Backend) -> StartHold | None:
    if not backend.offline:
        return None
    message = f"Backend {backend.name} is offline; everything waits until it is back."
    return StartHold(WaitCode.BACKEND_OFFLINE, message, f"Backend {backend.name} is set online again")


def _quota(gpus: Gpus) -> dict[str, Amount]:
    return {amounts.GPU: gpus, **_UNBOUNDED}


def _limit(gpus: Gpus) -> dict[str, Amount]:
    return {} if gpus == amounts.UNLIMITED else {amounts.GPU: gpus}


def _microseconds(at: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def _node(row: Node) -> engine.NodeFacts:
    have = _request(row.gpus, row.cpu, row.memory_bytes, row.storage_bytes)
    return engine.NodeFacts(row.name, have)


def _request(gpus: int, cpu: int, memory: int, storage: int) -> dict[str, int]:
    return {amounts.GPU: gpus, CPU: cpu * MILLICORES, MEMORY: memory, STORAGE: storage}


def _demand(backend: Backend, queue_of_leaf: Mapping[int, str], new: Collection[str]) -> dict[str, dict[str, int]]:
    """What waits in each queue, but for the work of these workflows."""
    with connection.cursor() as cursor:
        cursor.execute(_DEMAND, [backend.pk, sorted(ACTIVE_WORKFLOW_STATUSES), _WAITING, _WAITING, list(new)])
        return {queue_of_leaf[leaf]: _request(*map(int, asked)) for leaf, *asked in cursor if leaf in queue_of_leaf}


def _usage_of_nodes(backend: Backend, names: Collection[str]) -> dict[str, dict[str, int]]:
    """What work has taken of these nodes."""
    with connection.cursor() as cursor:
        cursor.execute(_ON_NODES, [backend.pk, sorted(ACTIVE_WORKFLOW_STATUSES), _BEGUN])
        return {name: _request(*map(int, taken)) for name, *taken in cursor if name in names}


_GANG = """
    SELECT gang.uuid, gang.name, gang.position, gang.gang, work.uuid, work.name, work.pool_id, work.root_pool_id,
        work.priority, (extract(epoch FROM work.submit_time) * 1000000)::bigint, EXISTS (
            SELECT FROM scheduling_group other WHERE other.workflow_id = work.uuid AND other.uuid <> gang.uuid
        )
    FROM scheduling_workflow work
    JOIN scheduling_group gang ON gang.workflow_id = work.uuid
"""

_GANGS = f"""
    {_GANG} WHERE work.root_pool_id IN (SELECT id FROM pools_pool WHERE backend_id = %s)
        AND work.status = ANY(%s) AND (gang.status = ANY(%s) OR gang.status = ANY(%s) AND work.name = ANY(%s))
"""

_OUTSIDE = f"""
    {_GANG} WHERE work.root_pool_id = ANY(%s) AND work.status = ANY(%s) AND gang.status = ANY(%s)
        AND work.priority = '{Priority.LOW}'
"""

_SUMS = """
    sum(task.gpu_count), sum(task.cpu_count), sum(task.memory_bytes), sum(task.storage_bytes)
    FROM scheduling_workflow work
    JOIN scheduling_group gang ON gang.workflow_id = work.uuid
    JOIN scheduling_task task ON task.group_id = gang.uuid
    WHERE work.root_pool_id IN (SELECT id FROM pools_pool WHERE backend_id = %s)
        AND work.status = ANY(%s) AND task.status = ANY(%s)
"""

_DEMAND = f"SELECT work.pool_id, {_SUMS} AND gang.status = ANY(%s) AND work.name <> ALL(%s) GROUP BY work.pool_id"

_ON_NODES = f"SELECT task.node_name, {_SUMS} GROUP BY task.node_name"

# One row for each gang: to read its tasks as JSON takes a third of the time of as many rows.
_TASKS = """
    SELECT task.group_id, json_agg(json_build_array(
        task.name, task.sub_group, task.status, task.gpu_count, task.cpu_count, task.memory_bytes, task.storage_bytes,
        task.platform, task.nodes_excluded::text, task.node_name
    ) ORDER BY task.position)::text
    FROM scheduling_task task
    WHERE task.group_id = ANY(%s) AND task.status = ANY(%s)
    GROUP BY task.group_id
"""


class _BackendGangs:
    """The gangs that run or wait for their turn, with their tasks that are open or ended well."""

    def __init__(
        self,
        backend: Backend,
        trees: _BackendQueues,
        nodes: Sequence[Node],
        new: Collection[str] | None,
        *,
        counted: bool,
    ) -> None:
        self.facts: list[GangFacts] = []
        self.rows: dict[str, GangRef] = {}
        self._queue_of_leaf, self._pools, self._held = trees.queue_of_leaf, trees.pools, trees.held
        self._shapes = _SharedObjects(nodes)
        with connection.cursor() as cursor:
            begun = [] if counted else _BEGUN
            always = list(_STATES) if new is None else begun
            cursor.execute(_GANGS, [backend.pk, sorted(ACTIVE_WORKFLOW_STATUSES), always, _WAITING, list(new or ())])
            gangs = cursor.fetchall()
            if trees.takeable and not counted:
                cursor.execute(_OUTSIDE, [list(trees.takeable), sorted(ACTIVE_WORKFLOW_STATUSES), _BEGUN])
                gangs += cursor.fetchall()
            cursor.execute(_TASKS, [[gang[0] for gang in gangs], list(_STATE_OF)])
            tasks: dict[UUID, list[engine.TaskFacts]] = defaultdict(list)
            for group, written in cursor:
                tasks[group] = [self._shapes.task(*columns) for columns in json.loads(written)]
        for gang in gangs:
            if gang[6] in trees.outside:
                self._add(gang, _outside_tasks(tasks[gang[0]]))
            elif gang[6] in trees.queue_of_leaf:
                self._add(gang, tasks[gang[0]])
        if counted:
            self.facts += [
                _total_gang(queue, {queue: {amounts.GPU: gpus}}) for queue, gpus in trees.firm.items() if gpus
            ]
            self.facts.append(_total_gang("", _usage_of_nodes(backend, {node.name for node in nodes}), stands=True))

    def _add(self, columns: Sequence[Any], tasks: Iterable[engine.TaskFacts]) -> None:
        group, name, position, tree, workflow, workflow_name, leaf, root, priority, submitted, is_one_of_many = columns
        known = f"{workflow_name}/{name}" if is_one_of_many else workflow_name
        self.rows[known] = GangRef(group, workflow, workflow_name, name, leaf, root, self._pools[leaf])
        self.facts.append(
            GangFacts(
                known,
                self._queue_of_leaf[leaf],
                tuple(tasks),
                priority=Priority(priority).priority_class_value,
                preemptible=Priority(priority).is_preemptible,
                submitted=submitted * _MOST_GROUPS + position,
                tree=self._shapes.tree(tree),
                hold=self._held.get(group),
            )
        )


def _outside_tasks(tasks: Iterable[engine.TaskFacts]) -> Iterator[engine.TaskFacts]:
    """What runs of a gang on another backend, or has ended well: it holds quota, and no node here will do for it."""
    for task in tasks:
        if task.state is not TaskState.PENDING:
            yield replace(task, node=None, allowed_nodes=frozenset())


def _total_gang(queue: str, held: Mapping[str, Mapping[str, int]], *, stands: bool = False) -> GangFacts:
    """Work that is only counted, as one gang that nobody can take anything from: a task for each node that bears some,
    or one that stands nowhere. The name is none that work can have; what has no queue counts on its nodes alone."""
    tasks = (
        engine.TaskFacts(name, amount, state=TaskState.RUNNING, node=name if stands else None)
        for name, amount in held.items()
    )
    return GangFacts(f"sum of {queue}", queue, tuple(tasks))


class _SharedObjects:
    """Requests, trees and sets of nodes; what is alike is one object, for that is what makes the engine quick."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._by_platform: dict[str, set[str]] = defaultdict(set)
        for node in nodes:
            self._by_platform[node.platform].add(node.name)
        self._names = frozenset(node.name for node in nodes)
        self._requests: dict[tuple[int, ...], dict[str, int]] = {}
        self._allowed: dict[tuple[str, str], frozenset[str] | None] = {}
        self._trees: dict[str, GangTree] = {}

    def task(
        self, name: str, sub_group: str, status: str, gpus: int, cpu: int, memory: int, storage: int,
        platform: str, excluded: str, node: str,
    ) -> engine.TaskFacts:  # fmt: skip
        """One try, open or ended well, as a task of the facts."""
        asked = (gpus, cpu, memory, storage)
        if asked not in self._requests:
            self._requests[asked] = _request(*asked)
        place = (platform, excluded)
        if place not in self._allowed:
            allowed = frozenset(self._by_platform[platform].difference(json.loads(excluded)))
            self._allowed[place] = None if allowed == self._names else allowed
        state = _STATE_OF[status]
        stands = state is TaskState.RUNNING and node in self._names
        return engine.TaskFacts(
            name, self._requests[asked], sub_group or DEFAULT_SUB_GROUP, state, node if stands else None,
            self._allowed[place],
        )  # fmt: skip

    def tree(self, written: str | None) -> GangTree | None:
        """The tree of a gang from its row; None for one whose tasks start all together."""
        if written is None:
            return None
        if written not in self._trees:
            plain = json.loads(written)
            self._trees[written] = tree_from_json(plain, 0)
        return self._trees[written] if written != "null" else None
