"""The queues that the ledger requires on a cluster (design, D2, D4).

    osmo-default-{ns}                    the root, without limits
      osmo-cohort-{ns}-{cohort}          one level for each cohort
        osmo-pool-{ns}-{pool}            the container of a pool; KAI never starts work here
          osmo-pool-{ns}-{pool}---shared the leaf for submissions to the pool itself
          osmo-pool-{ns}-{pool}--{sub}   one leaf for each subpool that is ACTIVE or still draining

All nine numbers are always written: KAI reads a missing limit as 0, and then nothing may run. GPUs are whole devices,
-1 is unlimited. We do not divide cores and memory, so they are unlimited on every level."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pools.domain import names
from pools.domain.quota.pool_balance import PoolBalance
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import NO_LIMIT, UNLIMITED, Gpus, encode_gpus
from scheduling.domain.cluster.naming import FIELD_MANAGER, INSTALLATION_LABEL, MANAGED_BY_LABEL, root_queue_name
from scheduling.domain.kubernetes_json import Object

NAMESPACE_LABEL = "osmo.namespace"
POOL_LABEL = "osmo.pool"
QUEUE_PRIORITY = 100
RESOURCE_KEYS = ("gpu", "cpu", "memory")
NUMBER_KEYS = ("quota", "limit", "overQuotaWeight")
_UNBOUNDED = {"quota": NO_LIMIT, "limit": NO_LIMIT, "overQuotaWeight": 1}


@dataclass(frozen=True, slots=True)
class QueueTarget:
    """The target of queues on one backend. `installation` marks our objects. `shard` is the label by which a KAI
    scheduler shard selects its queues (a labelled shard ignores unlabelled queues, and the other way round)."""

    namespace: str
    installation: str
    shard_key: str
    shard: str = ""


@dataclass(frozen=True, slots=True)
class CohortLevel:
    """A cohort as a level of queues; `parent` is the cohort above it."""

    name: str
    quota: Gpus
    limit: Gpus = UNLIMITED
    weight: float = 1
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class PoolQueueFacts:
    """The facts of a pool for its queues. `limit` is the most that it may ever hold; `topology` are node labels, coarse
    to fine; `cohort` is the level above it."""

    balance: PoolBalance
    limit: Gpus = UNLIMITED
    weight: int = 1
    topology: tuple[str, ...] = ()
    cohort: str | None = None


@dataclass(frozen=True, slots=True)
class DesiredQueue:
    """One queue in its desired state. `pool` is the pool whose tree it belongs to, empty above the pools;
    `display_name` its logical name."""

    name: str
    parent: str | None
    display_name: str
    quota: int
    limit: int = NO_LIMIT
    weight: float = 1
    pool: str = ""


@dataclass(frozen=True, slots=True)
class DesiredTopology:
    """The topology levels of a pool's nodes for KAI. The object is immutable: other levels need a new object."""

    name: str
    pool: str
    levels: tuple[str, ...]


def cohort_queue_name(namespace: str, cohort: str) -> str:
    """The name of the queue of a cohort."""
    return f"osmo-cohort-{namespace}-{cohort}"


def topology_name(namespace: str, pool: str) -> str:
    """The name of the Topology of a pool."""
    return f"{names.queue_name(namespace, pool, None)}-topology"


def build_desired_queues(
    target: QueueTarget, pools: Iterable[PoolQueueFacts], cohorts: Iterable[CohortLevel] = ()
) -> dict[str, DesiredQueue]:
    """Every desired queue by its object name, parents before their children."""
    root = root_queue_name(target.namespace)
    desired = [DesiredQueue(root, None, root, NO_LIMIT)]
    for level in _parents_first(cohorts):
        above = root if level.parent is None else cohort_queue_name(target.namespace, level.parent)
        name = cohort_queue_name(target.namespace, level.name)
        desired.append(
            DesiredQueue(name, above, name, encode_gpus(level.quota), encode_gpus(level.limit), level.weight)
        )
    for facts in pools:
        desired += _pool(target.namespace, facts)
    return {queue.name: queue for queue in desired}


def build_desired_topologies(target: QueueTarget, pools: Iterable[PoolQueueFacts]) -> dict[str, DesiredTopology]:
    """The Topology of each pool with levels, by name."""
    found = [
        DesiredTopology(topology_name(target.namespace, facts.balance.name), facts.balance.name, facts.topology)
        for facts in pools
        if facts.topology
    ]
    return {topology.name: topology for topology in found}


def queue_manifest(target: QueueTarget, queue: DesiredQueue) -> Object:
    """The manifest of a queue, with all nine numbers."""
    spec: Object = {
        "displayName": queue.display_name,
        "priority": QUEUE_PRIORITY,
        "resources": {
            "gpu": {"quota": queue.quota, "limit": queue.limit, "overQuotaWeight": queue.weight},
            "cpu": dict(_UNBOUNDED),
            "memory": dict(_UNBOUNDED),
        },
    }
    if queue.parent is not None:
        spec["parentQueue"] = queue.parent
    return {"metadata": {"name": queue.name, "labels": managed_labels(target, queue)}, "spec": spec}


def managed_labels(target: QueueTarget, queue: DesiredQueue) -> dict[str, str]:
    """The labels of a queue of ours."""
    found = {
        NAMESPACE_LABEL: target.namespace,
        MANAGED_BY_LABEL: FIELD_MANAGER,
        INSTALLATION_LABEL: target.installation,
    }
    if queue.pool:
        found[POOL_LABEL] = queue.pool
    if target.shard:
        found[target.shard_key] = target.shard
    return found


def topology_manifest(target: QueueTarget, topology: DesiredTopology) -> Object:
    """The manifest of a Topology."""
    carried = {
        NAMESPACE_LABEL: target.namespace,
        MANAGED_BY_LABEL: FIELD_MANAGER,
        INSTALLATION_LABEL: target.installation,
        POOL_LABEL: topology.pool,
    }
    return {
        "metadata": {"name": topology.name, "labels": carried},
        "spec": {"levels": [{"nodeLabel": label} for label in topology.levels]},
    }


def _pool(namespace: str, facts: PoolQueueFacts) -> Iterator[DesiredQueue]:
    balance = facts.balance
    pool = balance.name
    container = names.queue_name(namespace, pool, None)
    above = root_queue_name(namespace) if facts.cohort is None else cohort_queue_name(namespace, facts.cohort)
    yield DesiredQueue(
        container, above, container, encode_gpus(balance.scheduling_quota), encode_gpus(facts.limit), facts.weight, pool
    )
    yield _leaf(namespace, pool, names.SHARED_QUEUE, balance.shared_scheduling_quota)
    for part in balance.subpools:
        if part.state is not SubpoolState.ARCHIVED:
            yield _leaf(namespace, pool, part.name, part.scheduling_quota)


def _leaf(namespace: str, pool: str, leaf: str, quota: Gpus) -> DesiredQueue:
    logical = names.queue_name(namespace, pool, leaf)
    container = names.queue_name(namespace, pool, None)
    return DesiredQueue(names.k8s_queue_name(logical), container, logical, encode_gpus(quota), pool=pool)


def _parents_first(cohorts: Iterable[CohortLevel]) -> list[CohortLevel]:
    """The levels, each after its parent; a level without a given parent is at the top."""
    waiting: Mapping[str, CohortLevel] = {level.name: level for level in cohorts}
    found: dict[str, CohortLevel] = {}
    left = list(waiting.values())
    while left:
        ready = [level for level in left if level.parent is None or level.parent in found]
        if not ready:
            raise ValueError(f"the levels {sorted(level.name for level in left)} form a cycle")
        found |= {level.name: level for level in ready}
        left = [level for level in left if level.name not in found]
    return list(found.values())


def is_unlimited(number: float) -> bool:
    """Whether a number of KAI means "unlimited"."""
    return number == NO_LIMIT
