"""Pools with their leaves as the rows of a tree, for the pages. The number of queries does not depend on the number of
pools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import BigIntegerField, F, OuterRef, Subquery, Sum
from django.db.models.functions import Coalesce

from pools.domain.names import REMAINDER_LABEL
from pools.domain.quota.pool_balance import PoolBalance, Subpool
from pools.domain.quota.usage_bar import FlavorUse, UsageBar, leaf_bar, pool_bar, subpool_bar
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import Gpus, gpus_text
from pools.models import LeafUsage, Pool
from pools.models.pool import PoolQuerySet
from pools.representations.pool import pool_status_of as status_of_work
from pools.selectors.pool_filters import big_column, zero
from pools.selectors.quotas.pool_balance import read_balances
from pools.selectors.quotas.pool_totals import PoolTotals, read_pool_totals

POOLS_PER_PAGE = 20


@dataclass(frozen=True, slots=True)
class PoolTreeRow:
    """One row of the tree. Amounts are GPUs, except `live_workflows`; `available` is *guaranteed free* and may be
    negative; `can_start_now` and `low_can_start_now` are numbers of the quota tree. `quota_now` is the quota in
    scheduling, which differs from `quota` while a subpool drains."""

    name: str
    label: str
    kind: str
    state: str
    quota: Gpus
    used: int
    available: Gpus
    can_start_now: Gpus
    low_can_start_now: Gpus
    quota_now: Gpus
    total_usage: int
    live_workflows: int
    bar: UsageBar
    until: datetime | None = None
    quota_after: int | None = None
    after_text: str = ""
    flavors: tuple[FlavorUse, ...] = ()

    @property
    def usage_text(self) -> str:
        """The GPUs in use: `8 GPUs`, and with flavors `8 h100 GPUs`."""
        parts = [each.flavor for each in self.flavors if each.is_of_parts]
        return gpus_text(self.total_usage, {each.flavor: each.used for each in self.flavors}, parts)


@dataclass(frozen=True, slots=True)
class FlavorRow:
    """A pool, its remainder or one of its subpools in one flavor."""

    flavor: str
    label: str
    kind: str
    quota: Gpus
    used: int
    available: Gpus
    total_usage: int
    bar: UsageBar


def _flavor_rows(flavor: str, kind: PoolBalance) -> Iterator[FlavorRow]:
    yield FlavorRow(
        flavor, kind.name, "pool", kind.guarantee, kind.used, kind.guarantee - kind.used, kind.total_usage,
        pool_bar(kind),
    )  # fmt: skip
    usage = kind.shared_usage
    yield FlavorRow(
        flavor, REMAINDER_LABEL, "shared", kind.unallocated, usage.used, kind.shared_available, usage.total_usage,
        leaf_bar(kind.unallocated, usage),
    )  # fmt: skip
    for part in kind.subpools:
        if part.state is not SubpoolState.ARCHIVED and (part.last_quota or part.usage.total_usage):
            yield FlavorRow(
                flavor, part.name, "subpool", part.quota, part.usage.used, part.available, part.usage.total_usage,
                subpool_bar(part),
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PoolTree:
    """A pool with its shared leaf and its subpools, ready for a page."""

    pool: Pool
    status: str
    balance: PoolBalance
    head: PoolTreeRow
    leaves: tuple[PoolTreeRow, ...]

    @property
    def by_flavor(self) -> tuple[FlavorRow, ...]:
        """The pool, its remainder and its subpools in each flavor that they have; none without flavors."""
        return tuple(row for flavor, kind in self.balance.kinds.items() for row in _flavor_rows(flavor, kind))

    def excess_text(self, row: PoolTreeRow) -> str:
        """The GPUs that guaranteed work of a leaf uses beyond its quota: `2 GPUs`, and with flavors `2 h100 GPUs`."""
        own = [each for each in self.by_flavor if (each.kind, each.label) == (row.kind, row.label)]
        excess = {each.flavor: min(each.used, int(each.used - each.quota)) for each in own if each.used > each.quota}
        return gpus_text(min(row.used, row.bar.draining), excess, self.pool.part_flavors)

    @property
    def draining(self) -> tuple[PoolTreeRow, ...]:
        """The subpools that are being deleted."""
        return tuple(row for row in self.leaves if row.state == SubpoolState.DELETING)


@dataclass(frozen=True, slots=True)
class PoolTreePage:
    """One page of trees, with the paginator's page."""

    page: Page[Pool]
    trees: list[PoolTree]


def pool_status_of(root: Pool) -> str:
    """The status of a top-level pool in a list. The backend must be loaded with the row."""
    return str(SubpoolState.ARCHIVED) if root.archived else status_of_work(root)


_BELOW = LeafUsage.objects.filter(pool__parent=OuterRef("pk")).order_by().values("pool__parent")
_USED, _TOTAL = (
    Coalesce(Subquery(_BELOW.annotate(sum=Sum(column)).values("sum"), output_field=BigIntegerField()), zero())
    + F(f"usage__{column}")
    for column in ("used", "total_usage")
)

POOL_ORDERS = {"used": _USED, "free": big_column("guarantee") - _USED, "total": _TOTAL}
"""The sorted columns of the list of pools that are not fields, by their `sort`."""


def pool_trees(roots: PoolQuerySet, *, page: str = "1", order: Sequence[Any] = ("name",)) -> PoolTreePage:
    """One page of these top-level pools as trees; at most nine queries, however many there are."""
    found = Paginator(roots.select_related("backend", "cohort").order_by(*order), POOLS_PER_PAGE).get_page(page)
    return PoolTreePage(found, pool_trees_of(list(found.object_list)))


def all_pool_trees(roots: PoolQuerySet, *, order: Sequence[Any]) -> list[PoolTree]:
    """All of these top-level pools as trees; as many queries as for a page."""
    return pool_trees_of(list(roots.select_related("backend", "cohort").order_by(*order)))


def pool_trees_of(roots: Sequence[Pool]) -> list[PoolTree]:
    """These pools as trees, in this order."""
    facts = read_balances(roots)
    totals = read_pool_totals(roots, facts)
    return [pool_tree_of(root, facts[root.pk], totals) for root in roots]


def pool_tree_of(root: Pool, facts: PoolBalance, totals: PoolTotals) -> PoolTree:
    """One pool as a tree: the pool, its shared leaf, and its subpools by name, without the ARCHIVED ones."""
    shared, of_pool, of_rest = facts.shared_usage, totals.of_pool(root.name), totals.of_leaf(root.name, None)
    head = PoolTreeRow(
        name=root.name,
        label=root.name,
        kind="pool",
        state="",
        quota=facts.guarantee,
        used=facts.used,
        available=facts.guarantee - facts.used,
        can_start_now=of_pool.can_start_now,
        low_can_start_now=of_pool.low_can_start_now,
        quota_now=facts.guarantee,
        total_usage=facts.total_usage,
        live_workflows=shared.live_workflows + sum(part.usage.live_workflows for part in facts.subpools),
        bar=of_pool.bar,
        flavors=_uses(root, ((flavor, kind.total_usage, kind.guarantee) for flavor, kind in facts.kinds.items())),
    )
    unallocated = PoolTreeRow(
        name=root.name,
        label=REMAINDER_LABEL,
        kind="shared",
        state="",
        quota=facts.unallocated,
        used=shared.used,
        available=facts.shared_available,
        can_start_now=of_rest.can_start_now,
        low_can_start_now=of_rest.low_can_start_now,
        quota_now=facts.shared_scheduling_quota,
        total_usage=shared.total_usage,
        live_workflows=shared.live_workflows,
        bar=of_rest.bar,
        flavors=_uses(
            root, ((flavor, kind.shared_usage.total_usage, kind.unallocated) for flavor, kind in facts.kinds.items())
        ),
    )
    present = [part for part in facts.subpools if part.state is not SubpoolState.ARCHIVED]
    leaves = (
        unallocated,
        *(_subpool_row(root, part, totals, _subpool_uses(root, facts, part.name)) for part in present),
    )
    return PoolTree(root, pool_status_of(root), facts, head, leaves)


def _uses(root: Pool, found: Iterable[tuple[str, int, Gpus]]) -> tuple[FlavorUse, ...]:
    parts = root.part_flavors
    return tuple(FlavorUse(flavor, used, quota, flavor in parts) for flavor, used, quota in found if used or quota)


def _subpool_uses(root: Pool, facts: PoolBalance, name: str) -> tuple[FlavorUse, ...]:
    return _uses(
        root,
        (
            (flavor, part.usage.total_usage, part.quota)
            for flavor, kind in facts.kinds.items()
            for part in kind.subpools
            if part.name == name
        ),
    )


def _subpool_row(root: Pool, part: Subpool, totals: PoolTotals, flavors: tuple[FlavorUse, ...]) -> PoolTreeRow:
    held = totals.of_leaf(root.name, part.name)
    return PoolTreeRow(
        name=f"{root.name}--{part.name}",
        label=part.name,
        kind="subpool",
        state=str(part.state),
        quota=part.quota,
        used=part.usage.used,
        available=part.available,
        can_start_now=held.can_start_now,
        low_can_start_now=held.low_can_start_now,
        quota_now=part.quota,
        total_usage=part.usage.total_usage,
        live_workflows=part.usage.live_workflows,
        bar=held.bar,
        until=part.until,
        quota_after=part.quota_after,
        after_text=gpus_text(part.quota_after or 0, part.quotas_after, root.part_flavors) if part.quotas_after else "",
        flavors=flavors,
    )


def bars_of(pools: Iterable[str]) -> dict[str, dict[str, UsageBar]]:
    """The bars of these pools and their leaves, by pool and label."""
    roots = Pool.objects.roots().filter(name__in=pools, archived=False).select_related("backend", "cohort")
    trees = pool_trees_of(list(roots))
    return {tree.pool.name: {row.label: row.bar for row in (tree.head, *tree.leaves)} for tree in trees}


def archived_subpools(root: Pool) -> list[Pool]:
    """The ARCHIVED subpools of a pool, newest first."""
    return list(
        Pool.objects.filter(parent=root, subpool_state=SubpoolState.ARCHIVED).order_by("-updated_at", "subpool_name")
    )
