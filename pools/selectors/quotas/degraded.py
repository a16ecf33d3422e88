"""The clusters that have fewer usable GPUs than the quotas of their pools, and what each pool can have now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet, Sum

from pools.domain.errors import NotFound
from pools.domain.people.roles import Actor
from pools.domain.quota.degraded import (
    DegradedCluster,
    DegradedRule,
    HeldPromise,
    Promise,
    degraded_message,
    excess_message,
    hold_promises,
    shares_message,
)
from pools.models import Backend, Node, Pool
from pools.selectors.quotas.backend_capacity import oversubscription_warning, read_capacities
from pools.signals import usable_gpus_requested


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


def read_degraded(backend_ids: Collection[Any] | QuerySet[Any] | None = None) -> dict[int, DegradedCluster]:
    """The degraded clusters among these, or among all, by id. A cluster that is offline has a problem of its own."""
    return {pk: each for pk, each in _read_clusters(backend_ids).items() if each.missing}


def read_promises(actor: Actor, backend: str) -> ClusterPromises:
    """The promises of one cluster, the pools with most missing GPUs first. Raises NotFound for a cluster without a pool
    that the actor may see."""
    row = Backend.objects.filter(name=backend).first()
    seen = None if row is None else Pool.objects.visible_to(actor).roots().filter(backend=row, archived=False)
    if row is None or seen is None or not (actor.can_read_all or seen.exists()):
        raise NotFound(f"There is no cluster {backend} that you can see.")
    rule, found = DegradedRule(row.degraded), _read_clusters([row.pk]).get(row.pk)
    if found is None:
        return ClusterPromises(row.name, rule, False, None, None, None, ())
    names = visible_promises(actor, found)
    shown = sorted(
        (each for each in found.pools if names is None or each.pool in names),
        key=lambda each: (-each.missing, each.pool),
    )
    if names is not None:
        return ClusterPromises(row.name, rule, any(each.missing for each in shown), None, None, None, shown)
    return ClusterPromises(row.name, rule, bool(found.missing), found.usable, found.gpus, found.missing, shown)


@dataclass(frozen=True, slots=True)
class _Quotas:
    """The quotas of a cluster that is online, by which it shares what it has."""

    backend: str
    rule: DegradedRule
    promises: list[Promise]


@dataclass(frozen=True, slots=True)
class UsableCluster:
    """What a cluster can use now, and its promises; no promises while it is offline."""

    usable: int
    rule: DegradedRule
    promises: Sequence[Promise]


def read_cluster_promises(backend_id: int) -> UsableCluster:
    """The promises of one cluster and its usable GPUs, for a question about fewer of them."""
    found = _read_quotas([backend_id]).get(backend_id)
    usable = _usable_gpus().get(backend_id, 0)
    if found is None:
        return UsableCluster(usable, DegradedRule.PROPORTIONAL, ())
    return UsableCluster(usable, found.rule, found.promises)


def _read_clusters(backend_ids: Collection[Any] | QuerySet[Any] | None) -> dict[int, DegradedCluster]:
    """The clusters that are online and have nodes and pools with a quota, by id; three queries at most."""
    quotas = _read_quotas(backend_ids)
    if not quotas:
        return {}
    usable = _usable_gpus()
    sizes = dict(Node.objects.filter(backend__in=quotas).order_by().values_list("backend").annotate(Sum("gpus")))
    return {
        pk: DegradedCluster(
            found.backend,
            found.rule,
            usable[pk],
            sizes.get(pk, 0),
            hold_promises(found.promises, usable[pk], found.rule),
        )
        for pk, found in quotas.items()
        if pk in usable
    }


def _read_quotas(backend_ids: Collection[Any] | QuerySet[Any] | None) -> dict[int, _Quotas]:
    """Archived pools and unlimited quotas do not count. One query."""
    rows = Pool.objects.roots().filter(archived=False, guarantee__gt=0, backend__offline=False)
    if backend_ids is not None:
        rows = rows.filter(backend__in=backend_ids)
    found: dict[int, _Quotas] = {}
    columns = ("backend_id", "backend__name", "backend__degraded", "name", "guarantee", "weight")
    for backend, cluster, rule, name, quota, weight in rows.order_by("name").values_list(*columns):
        each = found.setdefault(backend, _Quotas(cluster, DegradedRule(rule), []))
        each.promises.append(Promise(name, quota, 1 if weight is None else float(weight)))
    return found


def _usable_gpus() -> dict[int, int]:
    return {backend: usable for backend, (usable, _) in _read_gpus().items()}


def _read_gpus() -> dict[int, tuple[int, int]]:
    """By backend: the usable GPUs, and those that work holds beyond the sizes of nodes."""
    found: dict[int, tuple[int, int]] = {}
    for _, answer in usable_gpus_requested.send(sender=None):
        found.update(answer)  # type: ignore[arg-type]  # a signal says nothing about its answers
    return found


def visible_promises(actor: Actor, found: DegradedCluster) -> set[str] | None:
    """The pools of the cluster whose part the actor may see; None for all."""
    if actor.can_read_all:
        return None
    names = [each.pool for each in found.pools]
    return set(Pool.objects.visible_to(actor).roots().filter(name__in=names).values_list("name", flat=True))


def capacity_warnings(actor: Actor, backend_ids: Collection[Any] | QuerySet[Any]) -> list[str]:
    """The warnings about clusters whose nodes are too few or too small for the quotas, and about those that have lost
    GPUs; a reader of a part of the pools learns what these can have."""
    degraded, gpus = read_degraded(backend_ids), _read_gpus()
    warnings = []
    for pk, capacity in read_capacities(backend_ids).items():
        found = degraded.get(pk)
        seen = None if found is None else visible_promises(actor, found)
        if capacity.is_oversubscribed:
            warnings.append(oversubscription_warning(actor, capacity))
            if found is not None and (shares := shares_message(found.short_of(seen))):
                warnings.append(shares)
        elif found is not None and found.short_of(seen):
            warnings.append(degraded_message(found, seen))
        if excess := gpus.get(pk, (0, 0))[1]:
            warnings.append(excess_message(capacity.backend, excess))
    return warnings


def clusters_of(pools: Iterable[Pool]) -> list[int]:
    """The ids of the clusters of these pools."""
    return sorted({pool.backend_id for pool in pools if pool.backend_id is not None})
