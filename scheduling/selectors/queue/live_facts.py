"""The current state of one backend as facts of the engine, with the rows that the names in the facts refer to.

Queues have their logical names (design, D2): `osmo-pool-{ns}-team` contains `osmo-pool-{ns}-team--_shared` and one leaf
for each subpool. Gangs have the names that users know: `hello-1`, or `hello-1/train` where a workflow has several
groups.

* Quotas are the scheduling view (design, D4); a pool's `maximum` is the limit of its container. Only GPUs have quotas,
  by flavor: a queue may use all cores (in millicores), memory and storage (in bytes) of the nodes.
* A GPU counts in the flavor of its node; what runs counts where it was admitted until it ends, also if the node has
  another flavor by now. Work that may use several flavors has an alternative for each (design kinds, section 2).
* Pools that share nodes are separate queues over the same nodes. `TaskFacts.allowed_nodes` are the nodes that a task
  may use: its platform, its excluded nodes and taints of a cluster keep it from others.
* Nothing starts on an offline backend; a pool in maintenance accepts no new work, but its waiting work may start
  (design, D6).
* A gang that waits for other groups of its workflow is not in the facts, because it may not start yet.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from pools.database.statements import execute_sql
from pools.database.transactions import one_snapshot
from pools.domain import names
from pools.domain.configuration.backend_config import VictimRule
from pools.domain.configuration.flavors import GPU_RESOURCE, parts_among
from pools.domain.configuration.pool_fields import HOLD_AFTER
from pools.domain.quota.pool_balance import PoolBalance, UsageCounts
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values import amounts
from pools.domain.values.amounts import DEFAULT_FLAVOR, Amount, Gpus, flavor_of, gpu_key, is_gpu
from pools.models import Backend, Node, Pool
from pools.selectors.quotas.pool_balance import read_balances
from scheduling.domain.engine import facts as engine
from scheduling.domain.engine.facts import (
    ClusterFacts,
    DisplayUnit,
    GangFacts,
    NodeBar,
    PolicyFacts,
    QueueFacts,
    StartHold,
    StartReservationFacts,
    TaskState,
    WhenCanBorrow,
    WhenCanPreempt,
)
from scheduling.domain.engine.moved_nodes import nodes_with_work
from scheduling.domain.engine.pool_quotas import QuotaReturns
from scheduling.domain.engine.reasons.node_bars import excluded_bar, flavor_bar, platform_bar, taint_bar
from scheduling.domain.flavor_choices import PoolFlavors, TaskGpus, choices_beside
from scheduling.domain.gang import DEFAULT_SUB_GROUP, GangTree, tree_from_json
from scheduling.domain.judgement.plan_units import LeafPaths
from scheduling.domain.judgement.tree_gates import TreeGates
from scheduling.domain.priorities import Priority
from scheduling.domain.reason_codes import ReasonCode
from scheduling.domain.receipts.lost import CHECKPOINT_LABEL, checkpoint_interval
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, TaskStatus
from scheduling.domain.workflow_spec import GroupSpec
from scheduling.garbage_collector import garbage_collector
from scheduling.models import Decision
from scheduling.selectors.queue.cohorts_above import limits_its_borrowing, pool_cohort_limits, read_cohorts_above
from scheduling.selectors.queue.dispatched_usage import read_dispatched_usage
from scheduling.selectors.queue.gpu_headroom import read_gpu_holds
from scheduling.selectors.queue.start_gates import build_gate_paths, read_tree_gates

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
"""The state of the tasks in the facts, by the text of their status: the conversion of each text to an enum member would
cost more than all other work here. Completed tasks hold nothing but are included: a gang with a completed task that is
below its minimum is about to end, and stays on its nodes (design, K5)."""
_WAITING = [status for status, state in _STATES.items() if state is TaskState.PENDING]
_BEGUN = [status for status, state in _STATES.items() if state is TaskState.RUNNING]
_UNBOUNDED: Mapping[str, Amount] = dict.fromkeys((CPU, MEMORY, STORAGE), amounts.UNLIMITED)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_GROUPS = 10**6  # groups of one workflow, which have one submit time, are served in the order of the file


@dataclass(frozen=True, slots=True)
class GangRef:
    """The rows of a gang. `leaf` and `root` are ids of pools, `pool` is the canonical name of the leaf; a shared leaf
    has the name of its top-level pool. `choices`: in a pool with GPU flavors, the flavor of each task by name for each
    choice of the facts, in their order."""

    group: UUID
    workflow: UUID
    workflow_name: str
    group_name: str
    leaf: int
    root: int
    pool: str
    choices: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class LiveFacts:
    """The facts, and the rows that their names refer to.

    `gangs` are by the name of the gang, `leaves` (ids of pools) and `roots` (of containers) by the name of the queue.
    `gate_paths` (by the id of the leaf) and `tree_gates` (of the cohorts above) have the numbers of the same snapshot.
    A task of the facts has the name of its row, and is the latest attempt of that name.
    """

    facts: ClusterFacts
    gangs: Mapping[str, GangRef]
    leaves: Mapping[str, int]
    roots: Mapping[str, int]
    gate_paths: Mapping[int, LeafPaths]
    tree_gates: TreeGates
    waits_for_external: bool
    """Whether work may wait for changes elsewhere: in a GPU namespace, or on other backends of a cohort."""
    hold_after: Mapping[int, int] = field(default_factory=dict)
    """Of the pools that say it, by id: the seconds after which a gang holds back later work of its pool."""
    topology_keys: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Of the pools that have some, by id: the topology keys with their node labels."""
    quota_returns: tuple[QuotaReturns, ...] = ()
    """The pools of the backend of which subpools drain or have a temporary quota."""


def read_live_facts(
    backend: Backend, *, new_workflows: Collection[str] | None = None, totals_only: bool = False
) -> LiveFacts:
    """All queues, nodes and work of one backend in one snapshot. The number of queries does not depend on the amount of
    work.

    With `new_workflows` (names), only their waiting gangs and those with a start reservation are listed; the other
    waiting work is the demand of its leaf. With `totals_only`, nothing else is listed: running work is a total of each
    queue and of each node, other waiting work is left out. That is enough to start new work in free capacity, but not
    to explain why a gang waits or to find victims.
    A Kubernetes backend whose nodes are unknown has no nodes in the facts; there only quotas decide.
    """
    with one_snapshot(), garbage_collector.paused():
        trees = _BackendQueues(backend, totals_only=totals_only)
        nodes = list(Node.objects.filter(backend=backend))
        gangs = _BackendGangs(backend, trees, nodes, new_workflows, totals_only=totals_only)
        return LiveFacts(
            ClusterFacts(
                queues=tuple(trees.queues),
                cohorts=tuple(trees.above.cohorts),
                gangs=tuple(gangs.facts),
                nodes=None
                if backend.kind == Backend.Kind.KUBERNETES and not nodes
                else nodes_with_work(map(node_facts, nodes), (task for gang in gangs.facts for task in gang.tasks)),
                usage=trees.usage,
                demand={}
                if new_workflows is None or totals_only
                else _demand(backend, trees, gangs.shapes, new_workflows),
                units=UNITS,
                policy=gangs.policy(backend),
                parts=parts_among(backend.flavors),
            ),
            gangs.rows,
            {queue: leaf for leaf, queue in trees.queue_of_leaf.items() if leaf not in trees.outside},
            trees.roots,
            trees.gates,
            read_tree_gates(trees.rows, trees.above.tops),
            waits_for_external=bool(trees.above.outside or trees.held),
            topology_keys={root.pk: keys for root in trees.rows if (keys := root.topology_labels)},
            hold_after={
                root.pk: int(after)
                for root in trees.rows
                if root.backend_id == backend.pk and (after := root.config.get(HOLD_AFTER)) is not None
            },
            quota_returns=tuple(trees.quota_returns),
        )


class _BackendQueues:
    """The queues of every active pool of a backend, and of the pools on other backends that share a tree of cohorts
    with one of them.

    `outside` are the leaves of pools on other backends, `takeable` the top-level pools among them whose LOW work may be
    reclaimed from here; the other work that they hold, or that was dispatched to a cluster, is `usage`. With
    `totals_only`, `usage` is everything that work holds, except what HIGH and NORMAL work holds in this backend's
    queues: that is `firm`.
    """

    def __init__(self, backend: Backend, *, totals_only: bool = False) -> None:
        self.queues: list[QueueFacts] = []
        self.queue_of_leaf: dict[int, str] = {}
        self.roots: dict[str, int] = {}
        self.gates: dict[int, LeafPaths] = {}
        self.flavors: dict[int, tuple[str, ...]] = {}
        self.pools: dict[int, str] = {}
        self.outside: set[int] = set()
        self.takeable: set[int] = set()
        self.usage: dict[str, dict[str, int]] = {}
        self.firm: dict[str, dict[str, int]] = {}
        self.quota_returns: list[QuotaReturns] = []
        self._backend, self._totals_only = backend, totals_only
        rows = Pool.objects.roots().filter(backend=backend, archived=False).select_related("backend", "cohort")
        own = list(rows)
        self.above = read_cohorts_above(backend, own)
        self.rows = [*own, *self.above.outside]
        self._promised: Counter[tuple[int, str]] = Counter()
        for each in read_dispatched_usage(self.above.tops) if self.above.outside else ():
            self._promised[each.leaf, each.flavor] += each.gpus
        pools = {root.pk: root for root in self.rows}
        subpools: dict[int, dict[str, Pool]] = defaultdict(dict)
        parts = Pool.objects.filter(parent__in=pools).exclude(subpool_state=SubpoolState.ARCHIVED)
        for row in parts.only("id", "parent_id", "subpool_name", "created_at"):
            assert row.parent_id is not None
            subpools[row.parent_id][row.subpool_name or ""] = row
        for root_id, balance in read_balances(pools.values()).items():
            self._add(pools[root_id], balance, subpools[root_id])
        self.held = read_gpu_holds(own, whole=self._backend.kind == Backend.Kind.KUBERNETES)

    def _add(self, root: Pool, balance: PoolBalance, subpools: Mapping[str, Pool]) -> None:
        container = names.queue_name(root.namespace, root.name, None)
        is_outside = root.backend_id != self._backend.pk
        if not is_outside:
            self.roots[container] = root.pk
        elif root.backend is not None and {root.backend.kind, self._backend.kind} == {Backend.Kind.SIMULATED}:
            self.takeable.add(root.pk)
        self.queues.append(container_queue(root, balance, hold=_offline_hold(self._backend), is_external=is_outside))
        ids = {names.SHARED_QUEUE: root.pk} | {short: row.pk for short, row in subpools.items()}
        self.gates |= build_gate_paths(balance, ids)
        if not is_outside and (returns := _quota_returns(root, balance)):
            self.quota_returns.append(returns)
        quotas = leaf_quotas(balance)
        leaves = [(root, names.SHARED_QUEUE)]
        leaves += [(subpools[part.name], part.name) for part in balance.subpools if part.name in subpools]
        for row, leaf in leaves:
            queue = names.queue_name(root.namespace, root.name, leaf)
            self.queue_of_leaf[row.pk] = queue
            self.pools[row.pk] = root.name if leaf == names.SHARED_QUEUE else names.canonical_name(root.name, leaf)
            of_leaf = leaf_queue(queue, container, quotas[leaf], row.created_at)
            if leaf == names.SHARED_QUEUE and (later := _later_quota(balance)):
                of_leaf = replace(of_leaf, later_quota=later)
            self.queues.append(of_leaf)
            self.flavors[row.pk] = root.gpu_flavors
            usage = leaf_usage(balance, leaf)
            if is_outside:
                self.outside.add(row.pk)
                are_listed = root.pk in self.takeable and not self._totals_only
                self.usage[queue] = {
                    gpu_key(flavor): (used.used if are_listed else used.total_usage) + self._promised[row.pk, flavor]
                    for flavor, used in usage.items()
                }
            elif self._totals_only:
                self.usage[queue] = {gpu_key(flavor): used.total_usage - used.used for flavor, used in usage.items()}
                self.firm[queue] = {gpu_key(flavor): used.used for flavor, used in usage.items()}


def container_queue(
    root: Pool, balance: PoolBalance, *, hold: StartHold | None = None, is_external: bool = False
) -> QueueFacts:
    """The queue of a top-level pool, which contains its leaves."""
    return QueueFacts(
        names.queue_name(root.namespace, root.name, None),
        root.cohort.name if root.cohort else None,
        _quota({flavor: each.scheduling_quota for flavor, each in balance.by_flavor.items()}),
        _limit({flavor: each.maximum for flavor, each in balance.by_flavor.items()}),
        *pool_cohort_limits(root, balance),
        weight=1 if root.weight is None else root.weight,
        created=microseconds(root.created_at),
        hold=hold,
        is_external=is_external,
        borrows_by_limit=limits_its_borrowing(root, balance),
        when_can_borrow=root.config.get("when_can_borrow", WhenCanBorrow.BORROW),
        when_can_preempt=root.config.get("when_can_preempt", WhenCanPreempt.NEXT),
    )


def leaf_queue(name: str, container: str, quotas: Mapping[str, Gpus], created: datetime) -> QueueFacts:
    """The queue of a leaf; its quotas are by flavor."""
    return QueueFacts(name, container, _quota(quotas), created=microseconds(created))


def leaf_quotas(balance: PoolBalance) -> dict[str, dict[str, Gpus]]:
    """The quotas for the scheduler of each leaf by flavor; the shared leaf has the name of its queue."""
    found: dict[str, dict[str, Gpus]] = defaultdict(dict)
    for flavor, each in balance.by_flavor.items():
        found[names.SHARED_QUEUE][flavor] = each.shared_scheduling_quota
        for part in each.subpools:
            found[part.name][flavor] = part.scheduling_quota
    return found


def _later_quota(balance: PoolBalance) -> dict[str, Amount]:
    """The quotas of the shared leaf that are smaller for a time: a draining subpool keeps what its work needs, and a
    temporary quota of a subpool comes from the rest."""
    found: dict[str, Amount] = {}
    for flavor, each in balance.by_flavor.items():
        lent = sum(part.quota - part.quota_after for part in each.subpools if part.quota_after is not None)
        if each.unallocated + lent > each.shared_scheduling_quota:
            found[gpu_key(flavor)] = each.unallocated + lent
    return found


def _quota_returns(root: Pool, balance: PoolBalance) -> QuotaReturns | None:
    """What its subpools return by themselves; None if nothing."""

    def queue(leaf: str | None) -> str:
        return names.queue_name(root.namespace, root.name, leaf)

    draining = tuple(queue(part.name) for part in balance.subpools if part.state is SubpoolState.DELETING)
    temporary: dict[str, tuple[float, Mapping[str, Amount]]] = {
        queue(part.name): (
            part.until.timestamp(),
            {
                gpu_key(flavor): each.quota_after or 0
                for flavor, of_flavor in balance.by_flavor.items()
                for each in of_flavor.subpools
                if each.name == part.name
            },
        )
        for part in balance.subpools
        if part.until is not None and part.state is SubpoolState.ACTIVE
    }
    if not draining and not temporary:
        return None
    guarantee = {gpu_key(flavor): each.guarantee for flavor, each in balance.by_flavor.items()}
    return QuotaReturns(queue(None), queue(names.SHARED_QUEUE), guarantee, draining, temporary)


def leaf_usage(balance: PoolBalance, leaf: str) -> dict[str, UsageCounts]:
    """The usage of one leaf by flavor. Work that began before its pool had flavors counts in `default`."""
    found = {flavor: each.usage_of(leaf) for flavor, each in balance.by_flavor.items()}
    if balance.kinds:
        whole, parts = balance.usage_of(leaf), list(found.values())
        used = whole.used - sum(part.used for part in parts)
        total = whole.total_usage - sum(part.total_usage for part in parts)
        if total > 0:
            found[DEFAULT_FLAVOR] = UsageCounts(used, total)
    return found


def _offline_hold(backend: Backend) -> StartHold | None:
    if not backend.offline:
        return None
    message = f"Cluster {backend.name} is offline; all work waits until it is online again."
    return StartHold(ReasonCode.BACKEND_OFFLINE, message, f"Cluster {backend.name} is set online again")


def _quota(gpus: Mapping[str, Gpus]) -> dict[str, Amount]:
    return {**{gpu_key(flavor): quota for flavor, quota in gpus.items()}, **_UNBOUNDED}


def _limit(gpus: Mapping[str, Gpus]) -> dict[str, Amount]:
    return {gpu_key(flavor): limit for flavor, limit in gpus.items() if limit != amounts.UNLIMITED}


def microseconds(at: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def node_facts(row: Node) -> engine.NodeFacts:
    """A node with its capacity."""
    have = _request(gpu_key(row.flavor), row.gpus, row.cpu, row.memory_bytes, row.storage_bytes)
    return engine.NodeFacts(row.name, have, parts=0 if row.gpus else row.advertised_gpus or 0)


def _request(key: str, gpus: int, cpu: int, memory: int, storage: int) -> dict[str, int]:
    return {key: gpus, CPU: cpu * MILLICORES, MEMORY: memory, STORAGE: storage}


def _demand(backend: Backend, trees: _BackendQueues, shapes: SharedObjects, new: Collection[str]) -> dict[str, Any]:
    """The demand of the waiting work in each queue, without these workflows. Work that may use several flavors is
    demand of each."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    values = [backend.pk, sorted(ACTIVE_WORKFLOW_STATUSES), _WAITING, _WAITING, list(new)]
    for leaf, platform, named, *requested in execute_sql(_DEMAND, values):
        if leaf not in trees.queue_of_leaf:
            continue
        gpus, *others = map(int, requested)
        task = TaskGpus(gpus, tuple(json.loads(named)), platform)
        keys = [gpu_key(flavor) for flavor in shapes.flavors(trees.flavors[leaf]).permitted(task)]
        demand = found[trees.queue_of_leaf[leaf]]
        demand.update(_request(keys[0] if keys else amounts.GPU, gpus if keys else 0, *others))
        demand.update(dict.fromkeys(keys[1:], gpus))
    return {queue: dict(demand) for queue, demand in found.items()}


def _usage_of_nodes(backend: Backend, names: Collection[str]) -> dict[str, list[dict[str, int]]]:
    """The usage of these nodes, for each flavor that its GPUs count in."""
    found: dict[str, list[dict[str, int]]] = defaultdict(list)
    for name, flavor, *used in execute_sql(_ON_NODES, [backend.pk, sorted(ACTIVE_WORKFLOW_STATUSES), _BEGUN]):
        if name in names:
            found[name].append(_request(gpu_key(flavor or DEFAULT_FLAVOR), *map(int, used)))
    return found


_GANG = f"""
    SELECT gang.uuid, gang.name, gang.position, gang.gang, work.uuid, work.name, work.pool_id, work.root_pool_id,
        work.priority, (extract(epoch FROM work.submit_time) * 1000000)::bigint, EXISTS (
            SELECT FROM scheduling_group other WHERE other.workflow_id = work.uuid AND other.uuid <> gang.uuid
        ), extract(epoch FROM statement_timestamp())::bigint, extract(epoch FROM gang.ready_at)::bigint,
        CASE WHEN gang.status = ANY(%s) THEN extract(epoch FROM gang.start_time)::bigint END,
        extract(epoch FROM work.start_time + work.exec_timeout)::bigint,
        extract(epoch FROM work.exec_timeout)::bigint,
        extract(epoch FROM COALESCE(gang.ends_at - gang.start_time, work.simulated_runtime))::bigint,
        extract(epoch FROM reserved.since)::bigint, reserved.nodes::text,
        extract(epoch FROM reserved.placed_at)::bigint, work.labels ->> '{CHECKPOINT_LABEL}'
    FROM scheduling_workflow work
    JOIN scheduling_group gang ON gang.workflow_id = work.uuid
    LEFT JOIN scheduling_startreservation reserved ON reserved.group_id = gang.uuid
"""

_GANGS = f"""
    {_GANG} WHERE work.root_pool_id IN (SELECT id FROM pools_pool WHERE backend_id = %s)
        AND work.status = ANY(%s) AND (gang.status = ANY(%s) OR gang.status = ANY(%s)
            AND (work.name = ANY(%s) OR reserved.since IS NOT NULL))
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

_DEMAND = f"""
    SELECT work.pool_id, task.platform, task.gpu_flavors::text,
    {_SUMS} AND gang.status = ANY(%s) AND work.name <> ALL(%s) AND NOT EXISTS (
        SELECT FROM scheduling_startreservation reserved WHERE reserved.group_id = gang.uuid
    ) GROUP BY work.pool_id, task.platform, task.gpu_flavors
"""

_ON_NODES = f"SELECT task.node_name, task.flavor, {_SUMS} GROUP BY task.node_name, task.flavor"

# One row for each gang: its tasks as JSON are read in a third of the time of separate rows.
_TASKS = """
    SELECT task.group_id, json_agg(json_build_array(
        task.name, task.sub_group, task.status, task.gpu_count, task.cpu_count, task.memory_bytes, task.storage_bytes,
        task.platform, task.nodes_excluded::text, task.node_name, task.gpu_flavors::text, task.flavor
    ) ORDER BY task.position)::text
    FROM scheduling_task task
    WHERE task.group_id = ANY(%s) AND task.status = ANY(%s)
    GROUP BY task.group_id
"""


class _BackendGangs:
    """The gangs that run or wait for GPUs, with their open and completed tasks."""

    def __init__(
        self,
        backend: Backend,
        trees: _BackendQueues,
        nodes: Sequence[Node],
        new: Collection[str] | None,
        *,
        totals_only: bool,
    ) -> None:
        self.facts: list[GangFacts] = []
        self.rows: dict[str, GangRef] = {}
        self._now = 0
        self._are_totals = totals_only
        self._reservations: list[StartReservationFacts] = []
        self._trees = trees
        self._moves: Mapping[UUID, datetime] = {}
        self.shapes = SharedObjects(nodes)
        begun = [] if totals_only else _BEGUN
        always = list(_STATES) if new is None else begun
        active = sorted(ACTIVE_WORKFLOW_STATUSES)
        inside = [_BEGUN, backend.pk, active, always, _WAITING, list(new or ())]
        gangs = execute_sql(_GANGS, inside).fetchall()
        if trees.takeable and not totals_only:
            gangs += execute_sql(_OUTSIDE, [_BEGUN, list(trees.takeable), active, _BEGUN]).fetchall()
        tasks = {
            group: [LiveTask(*columns) for columns in json.loads(written)]
            for group, written in execute_sql(_TASKS, [[gang[0] for gang in gangs], list(_STATE_OF)])
        }
        self.shapes.bar_moved_nodes(task for of_gang in tasks.values() for task in of_gang)
        if backend.victims == VictimRule.LEAST_LOST and not totals_only:
            self._moves = Decision.objects.last_moves({gang[4] for gang in gangs if gang[13] is not None})
        for gang in gangs:
            if gang[6] in trees.queue_of_leaf:
                self._add(gang, tasks.get(gang[0], ()))
        if totals_only:
            self.facts += [
                _total_gang(queue, {queue: [held]}) for queue, held in trees.firm.items() if any(held.values())
            ]
            self.facts.append(_total_gang("", _usage_of_nodes(backend, {node.name for node in nodes}), has_node=True))

    def _add(self, columns: Sequence[Any], tasks: Sequence[LiveTask]) -> None:
        (
            group, name, position, tree, workflow, workflow_name, leaf, root, priority, submitted, is_one_of_many,
            now, ready, started, deadline, timeout, expected, reserved, nodes, placed, checkpoints,
        ) = columns  # fmt: skip
        self._now = now
        known = f"{workflow_name}/{name}" if is_one_of_many else workflow_name
        # The timeout counts from the first start of the workflow.
        limit = timeout if deadline is None else max(0, deadline - (now if started is None else started))
        variants = self.shapes.variants(tasks, self._trees.flavors[leaf])
        if leaf in self._trees.outside:
            variants = GangVariants(_outside_tasks(variants.tasks))
        if reserved is not None:
            places = None if nodes is None else json.loads(nodes)
            choice = _reserved_choice(variants, places or {})
            self._reservations.append(StartReservationFacts(known, reserved, places, placed, choice))
        self.rows[known] = GangRef(
            group, workflow, workflow_name, name, leaf, root, self._trees.pools[leaf], variants.flavors
        )
        self.facts.append(
            GangFacts(
                known,
                self._trees.queue_of_leaf[leaf],
                variants.tasks,
                alternatives=variants.alternatives,
                choice=variants.choice,
                priority=Priority(priority).priority_class_value,
                preemptible=Priority(priority).is_preemptible,
                submitted=submitted * MAX_GROUPS + position,
                tree=self.shapes.tree(tree),
                hold=self._trees.held.get(group),
                waiting_since=ready,
                started=started,
                time_limit=limit,
                expected_time=expected,
                checkpoint_every=_checkpoint_seconds(checkpoints),
                moved=_moved_at(self._moves.get(group), started),
            )
        )

    def policy(self, backend: Backend) -> PolicyFacts | None:
        """The backend's policy with its reservations; None for a backend without one."""
        policy = policy_of(backend)
        if policy is None:
            return None
        return replace(policy, now=self._now, reservations=tuple(self._reservations), are_totals=self._are_totals)


def _reserved_choice(variants: GangVariants, places: Mapping[str, Mapping[str, Any]]) -> int:
    """The choice of a start reservation, by the flavors of the GPUs that it holds on its nodes."""
    held = {flavor_of(key) for amounts_there in places.values() for key in amounts_there if is_gpu(key)}
    return next((i for i, flavors in enumerate(variants.flavors) if held <= {*flavors.values()}), 0) if held else 0


def _checkpoint_seconds(written: str | None) -> int | None:
    every = None if written is None else checkpoint_interval({CHECKPOINT_LABEL: written})
    return None if every is None else max(1, round(every.total_seconds()))


def _moved_at(moved: datetime | None, started: int | None) -> int | None:
    """The second in which a running gang moved since it started."""
    if moved is None or started is None:
        return None
    at = (microseconds(moved) + 500_000) // 1_000_000
    return at if at >= started else None


def policy_of(backend: Backend) -> PolicyFacts | None:
    """The settings of the backend's policy, at the time 0; None where nothing differs from an engine without one, and
    on a cluster, where KAI decides."""
    rule = VictimRule(backend.victims)
    has_waits = backend.reserve_after is not None or backend.ageing is not None
    if backend.kind != Backend.Kind.SIMULATED or not (has_waits or rule is VictimRule.LEAST_LOST):
        return None
    return PolicyFacts(0, backend.reserve_after, backend.ageing, 10**6 * MAX_GROUPS, victims=rule)


def _outside_tasks(tasks: Iterable[engine.TaskFacts]) -> tuple[engine.TaskFacts, ...]:
    """The running and completed tasks of a gang on another backend: they hold quota, but no node of this backend."""
    return tuple(
        replace(task, node=None, allowed_nodes=frozenset()) for task in tasks if task.state is not TaskState.PENDING
    )


def _total_gang(queue: str, held: Mapping[str, Sequence[Mapping[str, int]]], *, has_node: bool = False) -> GangFacts:
    """A total of work as one gang that cannot be preempted: a task for each node and flavor with usage, or one task
    without a node. Its name cannot be the name of work; a total without a queue counts on its nodes alone."""
    tasks = (
        engine.TaskFacts(
            name if not place else f"{name} {place}", amount, state=TaskState.RUNNING, node=name if has_node else None
        )
        for name, parts in held.items()
        for place, amount in enumerate(parts)
    )
    return GangFacts(f"sum of {queue}", queue, tuple(tasks))


@dataclass(frozen=True, slots=True)
class LiveTask:
    """One open or completed attempt as it is read: `excluded` and `named` (GPU flavors) are JSON lists, `flavor` is
    the one that it counts in while it has a node."""

    name: str
    sub_group: str
    status: str
    gpus: int
    cpu: int
    memory: int
    storage: int
    platform: str
    excluded: str
    node: str
    named: str = "[]"
    flavor: str = ""


@dataclass(frozen=True, slots=True)
class GangVariants:
    """The tasks of a gang, those of its other choices, and the place of the first among them, as
    :class:`scheduling.domain.engine.facts.GangFacts` has them. `flavors`: in a pool with GPU flavors, the flavor of
    each task by name for each choice."""

    tasks: tuple[engine.TaskFacts, ...]
    alternatives: tuple[tuple[engine.TaskFacts, ...], ...] = ()
    choice: int = 0
    flavors: tuple[Mapping[str, str], ...] = ()


class SharedObjects:
    """Requests, trees and sets of nodes. Equal ones are one object, which makes the engine fast."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._by_platform: dict[str, set[str]] = defaultdict(set)
        self._tainted: dict[str, set[str]] = defaultdict(set)
        self._flavors_there: dict[str, set[str]] = defaultdict(set)
        self._own_flavors = {node.name: node.flavor for node in nodes}
        self._moved: dict[str, set[str]] = defaultdict(set)
        for node in nodes:
            self._by_platform[node.platform].add(node.name)
            if node.gpus:
                self._flavors_there[node.platform].add(node.flavor)
            if node.taint:
                self._tainted[node.taint].add(node.name)
        self._gpu_pods_only = frozenset(node.name for node in nodes if node.gpu_pods_only)
        self._names = frozenset(node.name for node in nodes)
        self._requests: dict[tuple[object, ...], dict[str, int]] = {}
        self._allowed: dict[tuple[str, str, bool, str], tuple[frozenset[str] | None, tuple[NodeBar, ...]]] = {}
        self._trees: dict[str, GangTree] = {}
        self._choices: dict[tuple[object, ...], tuple[tuple[str, ...], ...]] = {}

    def bar_moved_nodes(self, tasks: Iterable[LiveTask]) -> None:
        """Keep other work from the GPUs that these tasks hold in another flavor than that of their node: these become
        GPUs of the node's flavor when the tasks end."""
        for task in tasks:
            flavor = task.flavor or DEFAULT_FLAVOR
            is_there = task.gpus and _STATE_OF[task.status] is TaskState.RUNNING
            if is_there and self._own_flavors.get(task.node, flavor) != flavor:
                self._moved[flavor].add(task.node)

    def flavors(self, names: tuple[str, ...]) -> PoolFlavors:
        """The flavors of a pool, and where its platforms have nodes of them."""
        return PoolFlavors(names, self._flavors_there)

    def variants(self, tasks: Sequence[LiveTask], names: tuple[str, ...]) -> GangVariants:
        """The gang in each choice of flavors of its pool."""
        if not names:
            facts = tuple(self.task(task, task.flavor or DEFAULT_FLAVOR) for task in tasks)
            return GangVariants(facts)
        requested = tuple(TaskGpus(task.gpus, tuple(json.loads(task.named)), task.platform) for task in tasks)
        held = [task.flavor if _STATE_OF[task.status] is TaskState.RUNNING else "" for task in tasks]
        key = names, requested
        if key not in self._choices:
            self._choices[key] = self.flavors(names).choices_or_named(requested)
        choices, choice = choices_beside(self._choices[key], held)
        facts, *others = (
            tuple(self.task(task, flavor) for task, flavor in zip(tasks, flavors, strict=True))
            for flavors in (choices[choice], *choices[:choice], *choices[choice + 1 :])
        )
        of_tasks = tuple(
            {task.name: flavor for task, flavor in zip(tasks, flavors, strict=True) if task.gpus} for flavors in choices
        )
        return GangVariants(facts, tuple(others), choice, of_tasks)

    def task(self, task: LiveTask, flavor: str) -> engine.TaskFacts:
        """One open or completed attempt as a task of the facts, whose GPUs count in this flavor."""
        requested = (gpu_key(flavor), task.gpus, task.cpu, task.memory, task.storage)
        if requested not in self._requests:
            self._requests[requested] = _request(*requested)
        moved = flavor if task.gpus and flavor in self._moved else ""
        node_key = task.platform, task.excluded, task.gpus > 0, moved
        if node_key not in self._allowed:
            bars = self.bars([task.platform], json.loads(task.excluded), has_gpus=task.gpus > 0)
            if moved:
                bars += (flavor_bar(flavor, frozenset(self._moved[flavor])),)
            barred = frozenset[str]().union(*(bar.nodes for bar in bars))
            self._allowed[node_key] = self._names - barred if barred else None, bars
        state = _STATE_OF[task.status]
        has_node = state is TaskState.RUNNING and task.node in self._names
        return engine.TaskFacts(
            task.name, self._requests[requested], task.sub_group or DEFAULT_SUB_GROUP, state,
            task.node if has_node else None, *self._allowed[node_key],
        )  # fmt: skip

    def bars(
        self, platforms: Collection[str], excluded: Collection[str] = (), *, has_gpus: bool = True
    ) -> tuple[NodeBar, ...]:
        """What keeps a task that asks for one of these platforms from some of the nodes."""
        others = self._names.difference(*(self._by_platform[each] for each in platforms))
        found = [
            platform_bar(" or ".join(platforms), others),
            excluded_bar(self._names.intersection(excluded)),
            *(taint_bar(taint, frozenset(nodes)) for taint, nodes in self._tainted.items()),
        ]
        if not has_gpus:
            found.append(taint_bar(GPU_RESOURCE, self._gpu_pods_only))
        return tuple(bar for bar in found if bar.nodes)

    def tree(self, written: str | None) -> GangTree | None:
        """The tree of a gang from its row; None for a gang whose tasks all start together."""
        if written is None:
            return None
        if written not in self._trees:
            plain = json.loads(written)
            self._trees[written] = tree_from_json(plain, 0)
        return self._trees[written] if written != "null" else None


def proposed_variants(
    shapes: SharedObjects, group: GroupSpec, flavors: tuple[str, ...]
) -> tuple[GangVariants, GangTree | None]:
    """The waiting tasks of a group that is not submitted yet, in each choice of the flavors of its pool, and its
    tree."""
    tasks = [
        LiveTask(
            task.name, task.sub_group, TaskStatus.SCHEDULING.value, task.gpu, task.cpu, task.memory_bytes,
            task.storage_bytes, task.platform or "default", json.dumps(list(task.nodes_excluded)), "",
            json.dumps(list(task.gpu_flavors)),
        )
        for task in group.tasks
    ]  # fmt: skip
    return shapes.variants(tasks, flavors), shapes.tree(None if group.gang is None else json.dumps(group.gang))
