"""What the browser's pages on pools show: the tree with its bars, the sums of the house, who holds a slice.

Reads only, always through `visible_to`; the number of queries does not depend on the number of pools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import BigIntegerField, Count, F, OuterRef, Q, Subquery, Sum, Value, Window
from django.db.models.functions import Cast, Coalesce, Greatest, RowNumber

from pools.domain.amounts import UNLIMITED, Gpus, decode_gpus
from pools.domain.names import REMAINDER_LABEL
from pools.domain.quota.pool_balance import PoolBalance, Subpool, UsageCounts
from pools.domain.quota.usage_bar import UsageBar, leaf_bar, pool_bar, subpool_bar, sum_bars
from pools.domain.roles import Actor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Pool, Reservation
from pools.models.pool import PoolQuerySet
from pools.models.usage import PREEMPTIBLE_PRIORITY
from pools.representations.pool import pool_status
from pools.selectors.pool_balance import read_balances

POOLS_PER_PAGE = 20
MAX_HOLDERS = 20


class PoolFilter(StrEnum):
    """Which pools a tree is made of."""

    ALL = ""
    DRAINING = "draining"
    OVER = "over"
    MAINTENANCE = "maintenance"
    OFFLINE = "offline"
    ARCHIVED = "archived"


@dataclass(frozen=True, slots=True)
class PoolTreeRow:
    """One line of the tree. GPUs, but `live`; `available` may be negative; -1 in `quota` is unlimited."""

    name: str
    label: str
    kind: str
    state: str
    quota: Gpus
    used: int
    available: Gpus
    total_usage: int
    live_workflows: int
    bar: UsageBar


@dataclass(frozen=True, slots=True)
class PoolTree:
    """A pool with its unallocated part and its slices, ready to be drawn."""

    pool: Pool
    status: str
    balance: PoolBalance
    head: PoolTreeRow
    leaves: tuple[PoolTreeRow, ...]

    @property
    def draining(self) -> tuple[PoolTreeRow, ...]:
        """Slices on their way out."""
        return tuple(row for row in self.leaves if row.state == SubpoolState.DELETING)


@dataclass(frozen=True, slots=True)
class PoolTreePage:
    """One page of trees; `page` counts."""

    page: Page[Pool]
    trees: list[PoolTree]


@dataclass(frozen=True, slots=True)
class PlatformTotals:
    """Everything that the reader may see, added up. GPUs, but `pools`, `slices` and `unlimited`, the number of pools
    without a finite guarantee, which `promised` does not count."""

    pools: int
    subpools: int
    unlimited_pools: int
    quota: int
    used: int
    bar: UsageBar


@dataclass(frozen=True, slots=True)
class LeafHolder:
    """A live workflow on a leaf: what it holds now, what it still needs at once."""

    workflow: str
    owner: str
    priority: str
    held_gpus: int
    needed_gpus: int
    held_since: object
    submitted_at: object


def pool_status_of(root: Pool) -> str:
    """What a top-level pool is called in a list; its backend is loaded."""
    if root.archived:
        return str(SubpoolState.ARCHIVED)
    return pool_status(is_maintenance=root.enable_maintenance, is_offline=root.backend is None or root.backend.offline)


def pool_trees(roots: PoolQuerySet, *, page: str = "1") -> PoolTreePage:
    """One page of these top-level pools as trees, by name; five queries, however many there are."""
    found = Paginator(roots.select_related("backend").order_by("name"), POOLS_PER_PAGE).get_page(page)
    return PoolTreePage(found, pool_trees_of(list(found.object_list)))


def pool_trees_of(roots: Sequence[Pool]) -> list[PoolTree]:
    """These pools as trees, in this order."""
    facts = read_balances(roots)
    return [pool_tree_of(root, facts[root.pk]) for root in roots]


def pool_tree_of(root: Pool, facts: PoolBalance) -> PoolTree:
    """One pool as a tree: itself, what no slice owns, its slices by name. ARCHIVED slices are not in it."""
    shared = facts.shared_usage
    head = PoolTreeRow(
        name=root.name,
        label=root.name,
        kind="pool",
        state="",
        quota=facts.guarantee,
        used=facts.used,
        available=facts.guarantee - facts.used,
        total_usage=facts.total_usage,
        live_workflows=shared.live_workflows + sum(part.usage.live_workflows for part in facts.subpools),
        bar=pool_bar(facts),
    )
    unallocated = PoolTreeRow(
        name=root.name,
        label=REMAINDER_LABEL,
        kind="shared",
        state="",
        quota=facts.unallocated,
        used=shared.used,
        available=facts.shared_available,
        total_usage=shared.total_usage,
        live_workflows=shared.live_workflows,
        bar=leaf_bar(facts.unallocated, shared),
    )
    standing = [part for part in facts.subpools if part.state is not SubpoolState.ARCHIVED]
    leaves = (unallocated, *(_slice_row(root, part) for part in standing))
    return PoolTree(root, pool_status_of(root), facts, head, leaves)


def _slice_row(root: Pool, part: Subpool) -> PoolTreeRow:
    return PoolTreeRow(
        name=f"{root.name}--{part.name}",
        label=part.name,
        kind="subpool",
        state=str(part.state),
        quota=part.quota,
        used=part.usage.used,
        available=part.available,
        total_usage=part.usage.total_usage,
        live_workflows=part.usage.live_workflows,
        bar=subpool_bar(part),
    )


def rows_with_name(roots: PoolQuerySet, text: str) -> PoolQuerySet:
    """Top-level pools whose own name, or a subpool's name, contains the text."""
    return roots.filter(Q(name__contains=text) | Q(pk__in=Pool.objects.filter(name__contains=text).values("parent")))


def rows_in_state(roots: PoolQuerySet, show: PoolFilter) -> PoolQuerySet:
    """Top-level pools in a state. The arithmetic is that of :mod:`pools.domain.quota.usage_bar`."""
    if show is PoolFilter.MAINTENANCE:
        return roots.filter(enable_maintenance=True)
    if show is PoolFilter.OFFLINE:
        return roots.filter(backend__offline=True)
    if show is PoolFilter.DRAINING:
        draining = Pool.objects.filter(subpool_state=SubpoolState.DELETING)
        cut = _active_slices().filter(usage__used__gt=F("last_quota"))
        return _with_quota(roots).filter(
            Q(pk__in=draining.values("parent"))
            | Q(pk__in=cut.values("parent"))
            | Q(usage__used__gt=F("shared_quota"), guarantee__gte=0)
        )
    if show is PoolFilter.OVER:
        over = _active_slices().filter(usage__total_usage__gt=_most(_big("last_quota"), F("usage__used")))
        return _with_quota(roots).filter(
            Q(pk__in=over.values("parent"))
            | Q(guarantee__gte=0, usage__total_usage__gt=_most(F("shared_quota"), F("usage__used")))
        )
    return roots


def _active_slices() -> PoolQuerySet:
    return Pool.objects.filter(subpool_state=SubpoolState.ACTIVE)


def _with_quota(roots: PoolQuerySet) -> PoolQuerySet:
    """Each root with `shared_quota`, what of its guarantee no slice owns."""
    return roots.annotate(shared_quota=_big("guarantee") - _below(_active_slices(), "last_quota"))


def _big(column: str) -> Cast:
    """A column of GPUs wide enough for sums."""
    return Cast(F(column), BigIntegerField())


def _most(*amounts: Any) -> Greatest:
    """The largest of several amounts."""
    return Greatest(*amounts, output_field=BigIntegerField())


def _zero() -> Value:
    return Value(0, output_field=BigIntegerField())


def _below(slices: PoolQuerySet, column: str) -> Coalesce:
    """The sum of a column over the slices of each root."""
    sums = slices.filter(parent=OuterRef("pk")).order_by().values("parent").annotate(total=Sum(column)).values("total")
    return Coalesce(Subquery(sums, output_field=BigIntegerField()), _zero())


def platform_totals(actor: Actor) -> PlatformTotals:
    """The sums over all that `actor` sees: two queries, the slices added up by pool in the database."""
    roots = Pool.objects.visible_to(actor).roots().filter(archived=False)
    slices = _slice_sums(roots)
    parts: list[UsageBar] = []
    promised = used = unlimited = count = 0
    for pk, guarantee, own_used, own_total in roots.values_list("pk", "guarantee", "usage__used", "usage__total_usage"):
        below = slices.get(pk, SubpoolSums())
        total = own_total + below.total
        used += total
        count += below.count
        quota = decode_gpus(guarantee)
        shared, free = leaf_bar(quota - below.promised, UsageCounts(own_used, own_total)), 0
        if quota == UNLIMITED:
            unlimited += 1
        else:
            promised, free = promised + int(quota), max(0, int(quota) - total)
        parts.append(replace(sum_bars([shared, below.parts]), free=free))
    return PlatformTotals(len(parts), count, unlimited, promised, used, sum_bars(parts))


@dataclass(frozen=True, slots=True)
class SubpoolSums:
    """The slices of one pool, added up; `parts` without what is free, which only the whole pool knows."""

    count: int = 0
    promised: int = 0
    total: int = 0
    parts: UsageBar = UsageBar()  # noqa: RUF009  # frozen


def _slice_sums(roots: PoolQuerySet) -> dict[int, SubpoolSums]:
    """By pool, its standing slices; the arithmetic is that of :func:`pools.domain.quota.usage_bar.subpool_bar`."""
    active, deleting = Q(subpool_state=SubpoolState.ACTIVE), Q(subpool_state=SubpoolState.DELETING)
    used, total, quota = F("usage__used"), F("usage__total_usage"), _big("last_quota")
    rows = (
        Pool.objects.filter(parent__in=roots)
        .exclude(subpool_state=SubpoolState.ARCHIVED)
        .order_by()
        .values("parent")
        .annotate(
            count=Count("pk"),
            promised=Sum("last_quota", filter=active),
            held=Sum(total),
            over=Sum(_most(_zero(), total - _most(quota, used)), filter=active),
            cut=Sum(_most(_zero(), used - quota), filter=active),
            leaving=Sum(total, filter=deleting),
        )
    )
    return {parent: _as_sums(row) for row in rows if (parent := row["parent"]) is not None}


def _as_sums(amounts: Mapping[str, Any]) -> SubpoolSums:
    row = {key: int(value or 0) for key, value in amounts.items()}
    draining = row["cut"] + row["leaving"]
    parts = UsageBar(within_quota=row["held"] - row["over"] - draining, over_quota=row["over"], draining=draining)
    return SubpoolSums(row["count"], row["promised"], row["held"], parts)


def find_holders(leaves: Sequence[str]) -> dict[str, list[LeafHolder]]:
    """By leaf, the live workflows that it drains of, those that hold longest first; at most `MAX_HOLDERS` each, one
    query: all of a slice that is deleted, elsewhere what LOW work cannot be blamed for.
    The caller has made sure that the leaves may be seen."""
    drains = Q(pool__subpool_state=SubpoolState.DELETING) | (Q(held_gpus__gt=0) & ~Q(priority=PREEMPTIBLE_PRIORITY))
    ranked = (
        Reservation.objects.filter(drains, pool__name__in=leaves)
        .annotate(
            rank=Window(
                RowNumber(),
                partition_by=F("pool"),
                order_by=[F("held_since").asc(nulls_last=True), F("created_at").asc(), F("workflow_name").asc()],
            )
        )
        .filter(rank__lte=MAX_HOLDERS)
        .select_related("pool")
        .order_by("rank")
    )
    found: dict[str, list[LeafHolder]] = {name: [] for name in leaves}
    for row in ranked:
        found[row.pool.name].append(
            LeafHolder(
                workflow=row.workflow_name,
                owner=row.owner,
                priority=row.priority,
                held_gpus=row.held_gpus,
                needed_gpus=row.needed_gpus,
                held_since=row.held_since,
                submitted_at=row.created_at,
            )
        )
    return found


def archived_subpools(root: Pool) -> list[Pool]:
    """The ARCHIVED slices of a pool, newest first."""
    return list(
        Pool.objects.filter(parent=root, subpool_state=SubpoolState.ARCHIVED).order_by("-updated_at", "subpool_name")
    )
