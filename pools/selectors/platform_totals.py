"""The totals over all pools that a reader may see, for the home page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Count, F, Q, Sum

from pools.domain.amounts import UNLIMITED, decode_gpus
from pools.domain.quota.pool_balance import UsageCounts
from pools.domain.quota.usage_bar import UsageBar, leaf_bar, sum_bars
from pools.domain.roles import Actor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Pool
from pools.models.pool import PoolQuerySet
from pools.selectors.pool_filters import big_column, largest_of, smallest_of, zero


@dataclass(frozen=True, slots=True)
class PlatformTotals:
    """The sums over all pools that a reader may see. Amounts are GPUs; `pools`, `subpools` and `unlimited_pools` are
    numbers of pools. Pools without a finite quota are not in `quota`."""

    pools: int
    subpools: int
    unlimited_pools: int
    quota: int
    used: int
    bar: UsageBar


def platform_totals(actor: Actor) -> PlatformTotals:
    """The totals of the pools that `actor` may see. Two queries: the database adds up the subpools of each pool."""
    roots = Pool.objects.visible_to(actor).roots().filter(archived=False)
    sums = _subpool_sums(roots)
    bars: list[UsageBar] = []
    quota_sum = used = unlimited = count = 0
    for pk, guarantee, own_used, own_total in roots.values_list("pk", "guarantee", "usage__used", "usage__total_usage"):
        below = sums.get(pk, SubpoolSums())
        total = own_total + below.total
        used += total
        count += below.count
        quota = decode_gpus(guarantee)
        shared, free = leaf_bar(quota - below.quota_sum, UsageCounts(own_used, own_total)), 0
        if quota == UNLIMITED:
            unlimited += 1
        else:
            quota_sum, free = quota_sum + int(quota), max(0, int(quota) - total)
        bars.append(replace(sum_bars([shared, below.bar]), free=free))
    return PlatformTotals(len(bars), count, unlimited, quota_sum, used, sum_bars(bars))


@dataclass(frozen=True, slots=True)
class SubpoolSums:
    """The subpools of one pool, added up. `bar` has no free part, which depends on the whole pool."""

    count: int = 0
    quota_sum: int = 0
    total: int = 0
    bar: UsageBar = UsageBar()  # noqa: RUF009  # frozen


def _subpool_sums(roots: PoolQuerySet) -> dict[int, SubpoolSums]:
    """The subpools of each pool, without ARCHIVED ones. The arithmetic is that of
    :func:`pools.domain.quota.usage_bar.subpool_bar`."""
    active, deleting = Q(subpool_state=SubpoolState.ACTIVE), Q(subpool_state=SubpoolState.DELETING)
    used, total, quota = F("usage__used"), F("usage__total_usage"), big_column("last_quota")
    rows = (
        Pool.objects.filter(parent__in=roots)
        .exclude(subpool_state=SubpoolState.ARCHIVED)
        .order_by()
        .values("parent")
        .annotate(
            count=Count("pk"),
            quota_sum=Sum("last_quota", filter=active),
            held=Sum(total),
            over=Sum(largest_of(zero(), total - largest_of(quota, used)), filter=active),
            guaranteed=Sum(smallest_of(quota, used), filter=active),
            cut=Sum(largest_of(zero(), used - quota), filter=active),
            leaving=Sum(total, filter=deleting),
        )
    )
    return {parent: _as_sums(row) for row in rows if (parent := row["parent"]) is not None}


def _as_sums(amounts: Mapping[str, Any]) -> SubpoolSums:
    row = {key: int(value or 0) for key, value in amounts.items()}
    draining, guaranteed = row["cut"] + row["leaving"], row["guaranteed"]
    bar = UsageBar(
        guaranteed=guaranteed,
        low_inside=row["held"] - row["over"] - draining - guaranteed,
        over_quota=row["over"],
        draining=draining,
    )
    return SubpoolSums(row["count"], row["quota_sum"], row["held"], bar)
