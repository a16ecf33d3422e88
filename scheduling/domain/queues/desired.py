"""The queues that the ledger asks of a cluster (decisions D2 and D4).

    osmo-default-{ns}                    the root: everything, without limits
      osmo-cohort-{ns}-{cohort}          one level for each cohort, where there are cohorts
        osmo-pool-{ns}-{pool}            a pool's container; KAI never starts work here
          osmo-pool-{ns}-{pool}---shared the leaf of submissions to the pool itself
          osmo-pool-{ns}-{pool}--{sub}   one leaf for each slice that is ACTIVE or still draining

All nine numbers are always written: to KAI a limit that is left out is 0, and nothing may run. GPUs are whole devices,
-1 is unlimited. Cores and memory are not ours to divide, so theirs are unlimited on every level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pools.domain import names
from pools.domain.quota import pool_balance
from pools.domain.quota.pool_balance import UNLIMITED_GPUS, PoolBalance
from pools.domain.subpool_lifecycle import SubpoolState
from scheduling.domain.cluster.naming import INSTALLATION_LABEL
from scheduling.domain.kubernetes_json import Object

NAMESPACE_LABEL = "osmo.namespace"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
FIELD_MANAGER = "osmo-admin"
POOL_LABEL = "osmo.pool"
QUEUE_PRIORITY = 100
RESOURCE_KEYS = ("gpu", "cpu", "memory")
NUMBER_KEYS = ("quota", "limit", "overQuotaWeight")
_UNBOUNDED = {"quota": UNLIMITED_GPUS, "limit": UNLIMITED_GPUS, "overQuotaWeight": 1}


@dataclass(frozen=True, slots=True)
class QueueTarget:
    """Where queues go on one backend. `house` marks what is ours; `shard` is the label by which a KAI scheduler shard
    selects its queues (an unlabelled queue does not exist for a labelled shard, and the other way round)."""

    namespace: str
    installation: str
    shard_key: str
    shard: str = ""


@dataclass(frozen=True, slots=True)
class CohortLevel:
    """A cohort as a level of queues; `above` is another cohort."""

    name: str
    quota: int
    limit: int = UNLIMITED_GPUS
    weight: float = 1
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class PoolQueueFacts:
    """A pool as its queues need it. `limit` is the most it may ever hold; `topology` are node labels, coarse to fine;
    `cohort` is the level it stands below."""

    balance: PoolBalance
    limit: int = UNLIMITED_GPUS
    weight: int = 1
    topology: tuple[str, ...] = ()
    cohort: str | None = None


@dataclass(frozen=True, slots=True)
class DesiredQueue:
    """One queue as it should be. `pool` is the pool whose tree it belongs to, empty above the pools; `shown` its
    logical name."""

    name: str
    parent: str | None
    display_name: str
    quota: int
    limit: int = UNLIMITED_GPUS
    weight: float = 1
    pool: str = ""


@dataclass(frozen=True, slots=True)
class DesiredTopology:
    """The levels of nearness of a pool's nodes, as KAI reads them; they never change, only go and come anew."""

    name: str
    pool: str
    levels: tuple[str, ...]


def root_queue_name(namespace: str) -> str:
    """The queue above all of ours."""
    return f"osmo-default-{namespace}"


def cohort_queue_name(namespace: str, cohort: str) -> str:
    """The queue of a cohort."""
    return f"osmo-cohort-{namespace}-{cohort}"


def topology_name(namespace: str, pool: str) -> str:
    """The Topology of a pool."""
    return f"{names.queue_name(namespace, pool, None)}-topology"


def build_desired_queues(
    target: QueueTarget, pools: Iterable[PoolQueueFacts], cohorts: Iterable[CohortLevel] = ()
) -> dict[str, DesiredQueue]:
    """Every queue by its object's name, parents before their children."""
    root = root_queue_name(target.namespace)
    wanted = [DesiredQueue(root, None, root, UNLIMITED_GPUS)]
    for level in _from_the_top(cohorts):
        above = root if level.parent is None else cohort_queue_name(target.namespace, level.parent)
        name = cohort_queue_name(target.namespace, level.name)
        wanted.append(DesiredQueue(name, above, name, level.quota, level.limit, level.weight))
    for facts in pools:
        wanted += _pool(target.namespace, facts)
    return {queue.name: queue for queue in wanted}


def build_desired_topologies(target: QueueTarget, pools: Iterable[PoolQueueFacts]) -> dict[str, DesiredTopology]:
    """The Topology of each pool that names levels, by name."""
    found = [
        DesiredTopology(topology_name(target.namespace, facts.balance.name), facts.balance.name, facts.topology)
        for facts in pools
        if facts.topology
    ]
    return {topology.name: topology for topology in found}


def queue_manifest(target: QueueTarget, queue: DesiredQueue) -> Object:
    """The manifest, with all nine numbers."""
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
    """What a queue of ours carries."""
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
    """The manifest."""
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
    yield DesiredQueue(container, above, container, balance.scheduling_quota, facts.limit, facts.weight, pool)
    yield _leaf(namespace, pool, names.SHARED_QUEUE, balance.shared_scheduling_quota)
    for part in balance.subpools:
        if part.state is not SubpoolState.ARCHIVED:
            yield _leaf(namespace, pool, part.name, part.scheduling_quota)


def _leaf(namespace: str, pool: str, leaf: str, quota: int) -> DesiredQueue:
    logical = names.queue_name(namespace, pool, leaf)
    container = names.queue_name(namespace, pool, None)
    return DesiredQueue(names.k8s_queue_name(logical), container, logical, quota, pool=pool)


def _from_the_top(cohorts: Iterable[CohortLevel]) -> list[CohortLevel]:
    """Each level behind the one above it; a level above which nothing is given stands at the top of what there is."""
    waiting: Mapping[str, CohortLevel] = {level.name: level for level in cohorts}
    found: dict[str, CohortLevel] = {}
    left = list(waiting.values())
    while left:
        ready = [level for level in left if level.parent is None or level.parent in found]
        if not ready:
            raise ValueError(f"the levels {sorted(level.name for level in left)} stand above one another")
        found |= {level.name: level for level in ready}
        left = [level for level in left if level.name not in found]
    return list(found.values())


def is_unlimited(number: float) -> bool:
    """-1 is the spelling of "no number", to KAI as to us."""
    return number == pool_balance.UNLIMITED_GPUS
