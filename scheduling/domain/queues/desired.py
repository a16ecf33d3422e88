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
from typing import Any

from pools.domain import names
from pools.domain.lifecycle import SubpoolState
from pools.domain.quota import pool_balance
from pools.domain.quota.pool_balance import UNLIMITED, PoolBalance
from scheduling.domain.cluster.naming import HOUSE

Object = dict[str, Any]

NAMESPACE = "osmo.namespace"
MANAGER = "app.kubernetes.io/managed-by"
US = "osmo-admin"
POOL = "osmo.pool"
PRIORITY = 100
RESOURCES = ("gpu", "cpu", "memory")
NUMBERS = ("quota", "limit", "overQuotaWeight")
_UNBOUNDED = {"quota": UNLIMITED, "limit": UNLIMITED, "overQuotaWeight": 1}


@dataclass(frozen=True, slots=True)
class Place:
    """Where queues go on one backend. `house` marks what is ours; `shard` is the label by which a KAI scheduler shard
    selects its queues (an unlabelled queue does not exist for a labelled shard, and the other way round)."""

    namespace: str
    house: str
    shard_key: str
    shard: str = ""


@dataclass(frozen=True, slots=True)
class CohortLevel:
    """A cohort as a level of queues; `above` is another cohort."""

    name: str
    quota: int
    limit: int = UNLIMITED
    weight: float = 1
    above: str | None = None


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """A pool as its queues need it. `limit` is the most it may ever hold; `topology` are node labels, coarse to fine;
    `cohort` is the level it stands below."""

    balance: PoolBalance
    limit: int = UNLIMITED
    weight: int = 1
    topology: tuple[str, ...] = ()
    cohort: str | None = None


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue as it should be. `pool` is the pool whose tree it belongs to, empty above the pools; `shown` its
    logical name."""

    name: str
    parent: str | None
    shown: str
    quota: int
    limit: int = UNLIMITED
    weight: float = 1
    pool: str = ""


@dataclass(frozen=True, slots=True)
class Topology:
    """The levels of nearness of a pool's nodes, as KAI reads them; they never change, only go and come anew."""

    name: str
    pool: str
    levels: tuple[str, ...]


def root_name(namespace: str) -> str:
    """The queue above all of ours."""
    return f"osmo-default-{namespace}"


def cohort_name(namespace: str, cohort: str) -> str:
    """The queue of a cohort."""
    return f"osmo-cohort-{namespace}-{cohort}"


def topology_name(namespace: str, pool: str) -> str:
    """The Topology of a pool."""
    return f"{names.queue_name(namespace, pool, None)}-topology"


def desired_queues(place: Place, pools: Iterable[PoolFacts], cohorts: Iterable[CohortLevel] = ()) -> dict[str, Queue]:
    """Every queue by its object's name, parents before their children."""
    root = root_name(place.namespace)
    wanted = [Queue(root, None, root, UNLIMITED)]
    for level in _from_the_top(cohorts):
        above = root if level.above is None else cohort_name(place.namespace, level.above)
        name = cohort_name(place.namespace, level.name)
        wanted.append(Queue(name, above, name, level.quota, level.limit, level.weight))
    for facts in pools:
        wanted += _pool(place.namespace, facts)
    return {queue.name: queue for queue in wanted}


def desired_topologies(place: Place, pools: Iterable[PoolFacts]) -> dict[str, Topology]:
    """The Topology of each pool that names levels, by name."""
    found = [
        Topology(topology_name(place.namespace, facts.balance.name), facts.balance.name, facts.topology)
        for facts in pools
        if facts.topology
    ]
    return {topology.name: topology for topology in found}


def queue_body(place: Place, queue: Queue) -> Object:
    """The manifest, with all nine numbers."""
    spec: Object = {
        "displayName": queue.shown,
        "priority": PRIORITY,
        "resources": {
            "gpu": {"quota": queue.quota, "limit": queue.limit, "overQuotaWeight": queue.weight},
            "cpu": dict(_UNBOUNDED),
            "memory": dict(_UNBOUNDED),
        },
    }
    if queue.parent is not None:
        spec["parentQueue"] = queue.parent
    return {"metadata": {"name": queue.name, "labels": labels(place, queue)}, "spec": spec}


def labels(place: Place, queue: Queue) -> dict[str, str]:
    """What a queue of ours carries."""
    found = {NAMESPACE: place.namespace, MANAGER: US, HOUSE: place.house}
    if queue.pool:
        found[POOL] = queue.pool
    if place.shard:
        found[place.shard_key] = place.shard
    return found


def topology_body(place: Place, topology: Topology) -> Object:
    """The manifest."""
    carried = {NAMESPACE: place.namespace, MANAGER: US, HOUSE: place.house, POOL: topology.pool}
    return {
        "metadata": {"name": topology.name, "labels": carried},
        "spec": {"levels": [{"nodeLabel": label} for label in topology.levels]},
    }


def _pool(namespace: str, facts: PoolFacts) -> Iterator[Queue]:
    balance = facts.balance
    pool = balance.name
    container = names.queue_name(namespace, pool, None)
    above = root_name(namespace) if facts.cohort is None else cohort_name(namespace, facts.cohort)
    yield Queue(container, above, container, balance.scheduling_quota, facts.limit, facts.weight, pool)
    yield _leaf(namespace, pool, names.SHARED, balance.shared_scheduling_quota)
    for part in balance.slices:
        if part.state is not SubpoolState.ARCHIVED:
            yield _leaf(namespace, pool, part.name, part.scheduling_quota)


def _leaf(namespace: str, pool: str, leaf: str, quota: int) -> Queue:
    logical = names.queue_name(namespace, pool, leaf)
    container = names.queue_name(namespace, pool, None)
    return Queue(names.k8s_name(logical), container, logical, quota, pool=pool)


def _from_the_top(cohorts: Iterable[CohortLevel]) -> list[CohortLevel]:
    """Each level behind the one above it; a level above which nothing is given stands at the top of what there is."""
    waiting: Mapping[str, CohortLevel] = {level.name: level for level in cohorts}
    found: dict[str, CohortLevel] = {}
    left = list(waiting.values())
    while left:
        ready = [level for level in left if level.above is None or level.above in found]
        if not ready:
            raise ValueError(f"the levels {sorted(level.name for level in left)} stand above one another")
        found |= {level.name: level for level in ready}
        left = [level for level in left if level.name not in found]
    return list(found.values())


def is_unlimited(number: float) -> bool:
    """-1 is the spelling of "no number", to KAI as to us."""
    return number == pool_balance.UNLIMITED
