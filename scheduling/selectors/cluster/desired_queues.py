"""The desired state of one cluster, read from the ledger in one snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from pools.database.transactions import one_snapshot
from pools.domain import names
from pools.models import Backend, KubernetesSettings, Pool
from pools.selectors.change_tokens import read_generation
from pools.selectors.quotas.pool_balance import read_balances
from pools.selectors.quotas.quota_facts import cohort_roots, read_admission_tree
from scheduling.domain.queues.cohort_levels import CohortLevels, cohort_levels
from scheduling.domain.queues.desired import (
    DesiredQueue,
    DesiredTopology,
    PoolQueueFacts,
    QueueTarget,
    build_desired_queues,
    build_desired_topologies,
)


@dataclass(frozen=True, slots=True)
class DesiredState:
    """Objects by name. `generation` is the generation of the ledger when it was read; `leaf_of` is the shared leaf of
    the container of each pool."""

    target: QueueTarget
    generation: int
    queues: Mapping[str, DesiredQueue]
    topologies: Mapping[str, DesiredTopology]
    leaf_of: Mapping[str, str]


def read_desired_state(backend: Backend, settings: KubernetesSettings, installation_id: UUID) -> DesiredState:
    """All objects that should be in the cluster of this backend. The number of queries does not depend on the number of
    pools."""
    target = QueueTarget(backend.namespace, str(installation_id), settings.node_pool_key, settings.node_pool)
    with one_snapshot():
        generation = read_generation(backend.pk)
        pools = _read_pools(backend)
    facts, found = pools
    return DesiredState(
        target,
        generation,
        build_desired_queues(target, facts, found.cohorts),
        build_desired_topologies(target, facts),
        {
            names.queue_name(target.namespace, pool.balance.name, None): _shared_queue_name(target, pool)
            for pool in facts
        },
    )


def _read_pools(backend: Backend) -> tuple[list[PoolQueueFacts], CohortLevels]:
    roots = {root.pk: root for root in Pool.objects.roots().filter(backend=backend, archived=False).order_by("name")}
    found = read_balances(roots.values())
    tops = cohort_roots({root.cohort_id for root in roots.values() if root.cohort_id is not None})
    above = cohort_levels(
        read_admission_tree(set(tops.values())),
        {root.name: found[pk].scheduling_quota for pk, root in roots.items() if root.cohort_id is not None},
    )
    facts = []
    for pk, root in roots.items():
        standing = above.pools.get(root.name)
        facts.append(
            PoolQueueFacts(
                found[pk],
                limit=root.effective_maximum if standing is None else standing.limit,
                weight=1 if root.weight is None else root.weight,
                topology=tuple(root.topology_labels.values()),
                cohort=None if standing is None else standing.cohort,
            )
        )
    return facts, above


def _shared_queue_name(target: QueueTarget, facts: PoolQueueFacts) -> str:
    return names.k8s_queue_name(names.queue_name(target.namespace, facts.balance.name, names.SHARED_QUEUE))
