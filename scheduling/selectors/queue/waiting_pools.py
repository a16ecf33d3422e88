"""The pools in which gangs wait for GPUs, and the pools that leave quota idle on the same clusters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from heapq import nsmallest

from django.db.models import Count, Min, Sum
from django.db.models.functions import Coalesce

from pools.domain.people.roles import Actor
from pools.domain.quota.stored_quotas import gpus_by_flavor
from pools.domain.quota.usage_bar import FlavorUse
from pools.models import FlavorUsage, LeafUsage, Pool
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Group, Workflow


@dataclass(frozen=True, slots=True)
class WaitingPool:
    """A top-level pool with gangs that wait for GPUs: their number, their GPUs, and the time since the first waits."""

    pool_id: int
    pool: str
    backend: str
    gangs: int
    gpus: int
    since: datetime


@dataclass(frozen=True, slots=True)
class IdlePool:
    """A top-level pool that uses less than its quota, in GPUs."""

    pool: str
    backend: str
    quota: int
    used: int
    flavors: tuple[FlavorUse, ...] = ()

    @property
    def idle_flavors(self) -> tuple[FlavorUse, ...]:
        """Those that it leaves idle, of a pool with flavors."""
        return tuple(each for each in self.flavors if not each.is_full)

    @property
    def idle(self) -> int:
        """The quota that nobody of the pool uses."""
        return self.quota - self.used


def read_waiting_pools(actor: Actor) -> list[WaitingPool]:
    """The pools with gangs that wait for GPUs and that `actor` may see, most GPUs first. One query."""
    rows = Group.objects.filter(status=TaskStatus.SCHEDULING)
    if not actor.can_read_all:
        rows = rows.filter(workflow__in=Workflow.objects.visible_to(actor).active())
    sums = (
        rows.order_by()
        .values(
            "workflow__root_pool_id",
            "workflow__root_pool__name",
            "workflow__root_pool__backend__name",
        )
        .annotate(count=Count("pk"), total=Sum("gpus"), first=Min(Coalesce("ready_at", "workflow__submit_time")))
        .order_by("-total", "workflow__root_pool__name")
    )
    return [
        WaitingPool(
            row["workflow__root_pool_id"],
            row["workflow__root_pool__name"],
            row["workflow__root_pool__backend__name"],
            row["count"],
            row["total"],
            row["first"],
        )
        for row in sums
    ]


def read_idle_pools(actor: Actor, backends: Collection[str], *, limit: int) -> list[IdlePool]:
    """The pools on these backends that leave most quota idle and that `actor` may see. Two queries, none without a
    backend, and one more with quotas by flavor: what is used of one flavor beyond its quota does not fill another."""
    if not backends:
        return []
    of_leaves = LeafUsage.objects.filter(total_usage__gt=0).order_by().values(root=Coalesce("pool__parent", "pool"))
    held = dict(of_leaves.annotate(gpus=Sum("total_usage")).values_list("root", "gpus"))
    rows = (
        Pool.objects.visible_to(actor)
        .roots()
        .filter(archived=False, guarantee__gt=0, backend__name__in=set(backends))
        .order_by()
        .values_list("pk", "name", "backend__name", "guarantee", "flavors")
    )
    pools = list(rows)
    by_flavor = _uses({pk: gpus_by_flavor(flavors) for pk, *_, flavors in pools if flavors})
    held |= {pk: sum(min(each.used, int(each.quota)) for each in uses) for pk, uses in by_flavor.items()}
    found = (
        IdlePool(name, backend, quota or 0, held.get(pk, 0), by_flavor.get(pk, ()))
        for pk, name, backend, quota, _ in pools
    )
    return nsmallest(limit, (each for each in found if each.idle > 0), key=lambda each: (-each.idle, each.pool))


def _uses(quotas: Mapping[int, Mapping[str, int]]) -> dict[int, tuple[FlavorUse, ...]]:
    """What these pools use of each of their flavors."""
    if not quotas:
        return {}
    rows = FlavorUsage.objects.annotate(root=Coalesce("pool__parent", "pool")).filter(root__in=quotas)
    used = {
        (root, flavor): gpus
        for root, flavor, gpus in rows.order_by().values_list("root", "flavor").annotate(Sum("total_usage"))
    }
    return {
        root: tuple(FlavorUse(flavor, used.get((root, flavor), 0), quota) for flavor, quota in of_pool.items())
        for root, of_pool in quotas.items()
    }
