"""What the ledger wants of one cluster, read at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from pools.domain import names
from pools.locking import cohort_tops
from pools.models import Backend, KubernetesSettings, LedgerGeneration, Pool
from pools.selectors.pool_balance import balances
from pools.selectors.quota_facts import verdict_tree
from pools.transactions import one_snapshot
from scheduling.domain.queues.cohorts import Levels, levels
from scheduling.domain.queues.desired import (
    Place,
    PoolFacts,
    Queue,
    Topology,
    desired_queues,
    desired_topologies,
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Objects by name. `generation` is how often the ledger had changed when it was read; `leaf_of` is the shared leaf
    of each pool's container."""

    place: Place
    generation: int
    queues: Mapping[str, Queue]
    topologies: Mapping[str, Topology]
    leaf_of: Mapping[str, str]


def wanted_of(backend: Backend, settings: KubernetesSettings, house: UUID) -> Wanted:
    """Everything that should be on the cluster of this backend. A handful of queries, however many pools there are."""
    place = Place(backend.namespace, str(house), settings.node_pool_key, settings.node_pool)
    with one_snapshot():
        generation = generation_of(backend.pk)
        pools = _pools(backend)
    facts, found = pools
    return Wanted(
        place,
        generation,
        desired_queues(place, facts, found.cohorts),
        desired_topologies(place, facts),
        {names.queue_name(place.namespace, pool.balance.name, None): _shared(place, pool) for pool in facts},
    )


def generation_of(backend_id: int) -> int:
    """How often what is promised on a backend has changed so far."""
    number = LedgerGeneration.objects.filter(pk=backend_id).values_list("number", flat=True).first()
    return number or 0


def _pools(backend: Backend) -> tuple[list[PoolFacts], Levels]:
    roots = {root.pk: root for root in Pool.objects.roots().filter(backend=backend, archived=False).order_by("name")}
    found = balances(roots.values())
    tops = cohort_tops({root.cohort_id for root in roots.values() if root.cohort_id is not None})
    above = levels(
        verdict_tree(set(tops.values())),
        {root.name: found[pk].scheduling_quota for pk, root in roots.items() if root.cohort_id is not None},
    )
    facts = []
    for pk, root in roots.items():
        standing = above.pools.get(root.name)
        facts.append(
            PoolFacts(
                found[pk],
                limit=root.limit if standing is None else standing.limit,
                weight=1 if root.weight is None else root.weight,
                topology=tuple(row["label"] for row in root.config.get("topology_keys") or []),
                cohort=None if standing is None else standing.cohort,
            )
        )
    return facts, above


def _shared(place: Place, facts: PoolFacts) -> str:
    return names.k8s_name(names.queue_name(place.namespace, facts.balance.name, names.SHARED))
