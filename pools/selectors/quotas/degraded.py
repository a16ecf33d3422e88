"""The clusters that have fewer usable GPUs than the quotas of their pools, and what each pool can have now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from pools.domain.errors import NotFound
from pools.domain.people.roles import Actor, Permission
from pools.domain.quota.capacity import BackendCapacity
from pools.domain.shortage.degraded import (
    DegradedCluster,
    DegradedRule,
    FlavorGpus,
    HeldPromise,
    Promise,
    by_missing,
    degraded_message,
    excess_message,
    hold_by_flavor,
    shares_message,
)
from pools.models import Backend, Pool
from pools.selectors.quotas.backend_capacity import oversubscription_warning, read_capacities
from pools.signals import usable_gpus_requested

NodeGpus = Mapping[int, tuple[FlavorGpus, int]]
"""By the id of a backend: the GPUs that it can use, and those that work holds on nodes beyond their sizes."""


@dataclass(frozen=True, slots=True)
class ClusterPromises:
    """What one reader may know of the promises of a cluster; the sums are None without the right to see all pools."""

    backend: str
    rule: DegradedRule
    is_degraded: bool
    usable: int | None
    gpus: int | None
    missing: int | None
    pools: Sequence[HeldPromise]


@dataclass(frozen=True, slots=True)
class UsableCluster:
    """What a cluster can use now, and its promises; no promises while it is offline."""

    usable: FlavorGpus
    rule: DegradedRule
    promises: Sequence[Promise]


def read_node_gpus() -> NodeGpus:
    """What the nodes of all clusters give now. One query."""
    found: dict[int, tuple[FlavorGpus, int]] = {}
    for _, answer in usable_gpus_requested.send(sender=None):
        found.update(answer)  # type: ignore[arg-type]  # a signal says nothing about its answers
    return found


def degraded_clusters(capacities: Mapping[int, BackendCapacity], gpus: NodeGpus) -> dict[int, DegradedCluster]:
    """The degraded clusters among these, by id. No query. A cluster whose nodes are not known is left out."""
    return {pk: each for pk, each in _clusters(capacities, gpus).items() if each.short_of()}


def read_degraded(backend_ids: Collection[Any] | QuerySet[Any] | None = None) -> dict[int, DegradedCluster]:
    """The degraded clusters among these, or among all, by id. Two queries."""
    return degraded_clusters(read_capacities(backend_ids), read_node_gpus())


def _clusters(capacities: Mapping[int, BackendCapacity], gpus: NodeGpus) -> dict[int, DegradedCluster]:
    return {
        pk: DegradedCluster(
            each.backend,
            each.rule,
            sum(sum(of.values()) for flavor, of in gpus[pk][0].items() if flavor not in each.part_flavors),
            (each.gpus or 0) + each.tainted,
            hold_by_flavor(each.promises, gpus[pk][0], each.rule),
            each.drained,
            each.part_flavors,
        )
        for pk, each in capacities.items()
        if pk in gpus and each.promises
    }


def read_cluster_promises(backend_id: int) -> UsableCluster:
    """The promises of one cluster and its usable GPUs, for a question about fewer of them. Two queries."""
    found, usable = read_capacities([backend_id])[backend_id], read_node_gpus().get(backend_id, ({}, 0))[0]
    return UsableCluster(usable, found.rule, found.promises)


def read_promises(actor: Actor, backend: str) -> ClusterPromises:
    """The promises of one cluster, the pools with most missing GPUs first. Raises NotFound for a cluster without a pool
    that the actor may see."""
    row = Backend.objects.filter(name=backend).first()
    seen = None if row is None else Pool.objects.visible_to(actor).roots().filter(backend=row, archived=False)
    if row is None or seen is None or not (actor.can_read_all or seen.exists()):
        raise NotFound(f"There is no cluster {backend} that you can see.")
    rule, found = DegradedRule(row.degraded), _clusters(read_capacities([row.pk]), read_node_gpus()).get(row.pk)
    if found is None:
        return ClusterPromises(row.name, rule, False, None, None, None, ())
    names = visible_promises(actor, found)
    shown = by_missing(each for each in found.pools if names is None or each.pool in names)
    if names is not None:
        return ClusterPromises(row.name, rule, any(each.missing for each in shown), None, None, None, shown)
    return ClusterPromises(row.name, rule, bool(found.short_of()), found.usable, found.gpus, found.missing, shown)


def visible_promises(actor: Actor, found: DegradedCluster) -> set[str] | None:
    """The pools of the cluster whose part the actor may see; None for all. No query."""
    if actor.can_read_all:
        return None
    return {each.pool for each in found.pools} & actor.pools_with(Permission.POOL_READ)


def capacity_warnings(actor: Actor, backend_ids: Collection[Any] | QuerySet[Any]) -> list[str]:
    """The warnings about clusters that have lost GPUs, then about those whose nodes are too few or too small for the
    quotas. A folded line shows the first, so what pools can have now comes before what may happen to them; a reader of
    a part of the pools learns what these can have. Two queries."""
    capacities, gpus = read_capacities(backend_ids), read_node_gpus()
    degraded = degraded_clusters(capacities, gpus)
    lost, others = [], []
    for pk, capacity in capacities.items():
        found = degraded.get(pk)
        seen = None if found is None else visible_promises(actor, found)
        if found is not None and (short := found.short_of(seen)):
            lost.append(shares_message(short) if capacity.is_oversubscribed else degraded_message(found, seen))
        if capacity.is_oversubscribed:
            others.append(oversubscription_warning(actor, capacity))
        if excess := gpus.get(pk, ({}, 0))[1]:
            others.append(excess_message(capacity.backend, excess, capacity.part_flavors))
    return lost + others


def clusters_of(pools: Iterable[Pool]) -> list[int]:
    """The ids of the clusters of these pools."""
    return sorted({pool.backend_id for pool in pools if pool.backend_id is not None})
