"""The pools in which gangs wait for GPUs, and the pools that leave quota idle on the same clusters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from heapq import nsmallest

from django.db.models import Count, JSONField, Min, Sum
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce

from pools.domain.people.roles import Actor
from pools.domain.quota.stored_quotas import gpus_by_flavor
from pools.domain.quota.usage_bar import FlavorUse
from pools.models import FlavorUsage, LeafUsage, Pool
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Group, Workflow


@dataclass(frozen=True, slots=True)
class WaitingPool:
    """A top-level pool with gangs that wait for GPUs: their number, their whole GPUs, the time since the first waits,
    and the parts of shared GPUs of those that may use nothing else, by the flavor that they prefer."""

    pool_id: int
    pool: str
    backend: str
    gangs: int
    gpus: int
    since: datetime
    parts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class IdlePool:
    """A top-level pool that uses less than its quota, in whole GPUs; parts of shared GPUs are in `flavors` alone."""

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

    @property
    def idle_parts(self) -> dict[str, int]:
        """The same of the flavors that count parts of GPUs."""
        return {each.flavor: int(each.quota) - each.used for each in self.idle_flavors if each.is_of_parts}


# The flavors that the tasks of a gang name, in the order in which they first stand; those of the pool where one names
# none.
_FLAVORS = RawSQL(
    """(
        SELECT jsonb_agg(flavor ORDER BY place, flavor) FROM (
            SELECT named.flavor, min(named.place) AS place
            FROM scheduling_workflow work JOIN pools_pool root ON root.id = work.root_pool_id
            JOIN scheduling_task task ON task.group_id = scheduling_group.uuid AND task.gpu_count > 0
            CROSS JOIN LATERAL jsonb_array_elements_text(
                CASE WHEN jsonb_array_length(task.gpu_flavors) > 0 THEN task.gpu_flavors
                ELSE jsonb_path_query_array(root.flavors, '$[*].flavor') END
            ) WITH ORDINALITY AS named (flavor, place)
            WHERE work.uuid = scheduling_group.workflow_id
            GROUP BY named.flavor
        ) permitted
    )""",
    (),
    JSONField(),
)


def read_waiting_pools(actor: Actor, part_flavors: Mapping[int, Collection[str]]) -> list[WaitingPool]:
    """The pools with gangs that wait for GPUs and that `actor` may see, most GPUs first. `part_flavors` are the flavors
    of backends that count parts of GPUs. One query, and one more where there are some."""
    rows = Group.objects.filter(status=TaskStatus.SCHEDULING)
    if not actor.can_read_all:
        rows = rows.filter(workflow__in=Workflow.objects.visible_to(actor).active())
    parts: dict[int, dict[str, int]] = defaultdict(dict)
    if part_flavors:
        of_parts = rows.filter(workflow__root_pool__backend__in=part_flavors).exclude(workflow__root_pool__flavors=[])
        for pool, backend, flavors, gpus in (
            of_parts.annotate(flavors=_FLAVORS)
            .order_by("flavors")
            .values_list("workflow__root_pool_id", "workflow__root_pool__backend_id", "flavors")
            .annotate(Sum("gpus"))
        ):
            if flavors and all(flavor in part_flavors[backend] for flavor in flavors):
                parts[pool][flavors[0]] = parts[pool].get(flavors[0], 0) + gpus
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
    found = [
        WaitingPool(
            row["workflow__root_pool_id"],
            row["workflow__root_pool__name"],
            row["workflow__root_pool__backend__name"],
            row["count"],
            row["total"] - sum(parts[row["workflow__root_pool_id"]].values()),
            row["first"],
            parts[row["workflow__root_pool_id"]],
        )
        for row in sums
    ]
    return sorted(found, key=lambda each: -each.gpus) if part_flavors else found


def sum_parts(pools: Iterable[WaitingPool]) -> dict[str, int]:
    """The parts of shared GPUs for which the gangs of these pools wait, by flavor."""
    found: Counter[str] = Counter()
    for each in pools:
        found.update(each.parts)
    return dict(found)


def read_idle_pools(
    actor: Actor, backends: Collection[str], part_flavors: Mapping[int, Collection[str]], *, limit: int
) -> list[IdlePool]:
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
        .values_list("pk", "name", "backend__name", "guarantee", "flavors", "backend_id")
    )
    pools = list(rows)
    parts = {pk: part_flavors.get(backend, ()) for pk, *_, backend in pools}
    by_flavor = _uses({pk: gpus_by_flavor(flavors) for pk, *_, flavors, _ in pools if flavors}, parts)
    quotas = {pk: quota or 0 for pk, _, _, quota, *_ in pools}
    for pk, uses in by_flavor.items():
        whole = [each for each in uses if not each.is_of_parts]
        held[pk] = sum(min(each.used, int(each.quota)) for each in whole)
        quotas[pk] = sum(int(each.quota) for each in whole)
    every = (
        IdlePool(name, backend, quotas[pk], held.get(pk, 0), by_flavor.get(pk, ())) for pk, name, backend, *_ in pools
    )
    found = (each for each in every if each.idle > 0 or each.idle_parts)
    return nsmallest(limit, found, key=lambda each: (-each.idle, each.pool))


def _uses(
    quotas: Mapping[int, Mapping[str, int]], parts: Mapping[int, Collection[str]]
) -> dict[int, tuple[FlavorUse, ...]]:
    """What these pools use of each of their flavors; `parts` are those of each that count parts of GPUs."""
    if not quotas:
        return {}
    rows = FlavorUsage.objects.annotate(root=Coalesce("pool__parent", "pool")).filter(root__in=quotas)
    used = {
        (root, flavor): gpus
        for root, flavor, gpus in rows.order_by().values_list("root", "flavor").annotate(Sum("total_usage"))
    }
    return {
        root: tuple(
            FlavorUse(flavor, used.get((root, flavor), 0), quota, flavor in parts[root])
            for flavor, quota in of_pool.items()
        )
        for root, of_pool in quotas.items()
    }
