"""The totals over all pools that a reader may see, for the home page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import EmptyResultSet

from pools.database.statements import execute_sql
from pools.domain.people.roles import Actor
from pools.domain.quota.usage_bar import UsageBar
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import NO_LIMIT
from pools.models import Pool


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

    @property
    def beyond(self) -> int:
        """The use that no quota of its pool covers: `quota` is the rest of the use plus the unused quota."""
        return self.used + self.bar.free - self.quota

    @property
    def covered(self) -> int:
        """The use that the quota of its pool covers."""
        return self.used - self.beyond


# The arithmetic is that of `leaf_bar`, `subpool_bar` and `pool_bar` in :mod:`pools.domain.quota.usage_bar`. The pools
# of an installation have twenty thousand subpools, so nothing but the sums leaves the database.
_TOTALS = f"""
    WITH root (id, backend, guarantee, used, total) AS MATERIALIZED ({{roots}}),
    below AS (
        SELECT part.parent_id, count(*) AS count, sum(last_quota) FILTER (WHERE is_active) AS quota,
            sum(total_usage) AS total,
            sum(GREATEST(total_usage - GREATEST(last_quota, used), 0)) FILTER (WHERE is_active) AS over,
            sum(LEAST(last_quota, used)) FILTER (WHERE is_active) AS guaranteed,
            sum(CASE WHEN is_active THEN GREATEST(used - last_quota, 0) ELSE total_usage END) AS draining
        FROM (
            SELECT parent_id, last_quota, subpool_state = '{SubpoolState.ACTIVE}' AS is_active, usage.used,
                usage.total_usage
            FROM pools_pool part JOIN pools_leafusage usage ON usage.pool_id = part.id
            WHERE parent_id IN (SELECT id FROM root) AND subpool_state <> '{SubpoolState.ARCHIVED}'
        ) part
        GROUP BY part.parent_id
    ),
    pool AS (
        SELECT backend, guarantee, guarantee IS NULL OR guarantee = {NO_LIMIT} AS is_unlimited, root.used AS own,
            root.total, guarantee - COALESCE(below.quota, 0) AS quota_of_own, COALESCE(below.count, 0) AS count,
            COALESCE(below.total, 0) AS below, COALESCE(below.over, 0) AS over,
            COALESCE(below.guaranteed, 0) AS guaranteed, COALESCE(below.draining, 0) AS draining
        FROM root LEFT JOIN below ON below.parent_id = root.id
    ),
    bar AS (
        SELECT backend, count, is_unlimited, guarantee, total + below AS total,
            guaranteed + CASE WHEN is_unlimited THEN own ELSE LEAST(own, quota_of_own) END AS guaranteed,
            over + CASE WHEN is_unlimited THEN 0 ELSE GREATEST(total - GREATEST(quota_of_own, own), 0) END AS over,
            draining + CASE WHEN is_unlimited THEN 0 ELSE GREATEST(own - quota_of_own, 0) END AS draining
        FROM pool
    )
    SELECT {{column}}, count(*), sum(count), count(*) FILTER (WHERE is_unlimited),
        sum(guarantee) FILTER (WHERE NOT is_unlimited),
        sum(total), sum(guaranteed), sum(total - guaranteed - over - draining), sum(over), sum(draining),
        sum(GREATEST(guarantee - total, 0)) FILTER (WHERE NOT is_unlimited)
    FROM bar GROUP BY GROUPING SETS (({{key}}))
"""


def platform_totals(actor: Actor) -> PlatformTotals:
    """The totals of the pools that `actor` may see. One query."""
    return _read_totals(actor, "").get(None, _NOTHING)


def bars_of_clusters(actor: Actor) -> dict[int, UsageBar]:
    """The bars of the pools that `actor` may see, added up by the id of their cluster. One query."""
    return {backend: totals.bar for backend, totals in _read_totals(actor, "backend").items() if backend is not None}


_NOTHING = PlatformTotals(0, 0, 0, 0, 0, UsageBar())


def _read_totals(actor: Actor, key: str) -> dict[int | None, PlatformTotals]:
    """By the column `key`; without one, all totals are those of None."""
    roots = Pool.objects.visible_to(actor).roots().filter(archived=False)
    columns = roots.order_by().values_list("pk", "backend", "guarantee", "usage__used", "usage__total_usage")
    try:
        text, values = columns.query.sql_with_params()
    except EmptyResultSet:  # Django knows without a query that the actor sees no pool
        return {}
    rows = execute_sql(_TOTALS.format(roots=text, key=key, column=key or "NULL"), values)
    return {backend: _totals_of(sums) for backend, *sums in rows}


def _totals_of(sums: Iterable[Any]) -> PlatformTotals:
    pools, subpools, unlimited, quota, used, guaranteed, low, over, draining, free = (
        int(number or 0) for number in sums
    )
    bar = UsageBar(guaranteed=guaranteed, low_inside=low, free=free, over_quota=over, draining=draining)
    return PlatformTotals(pools, subpools, unlimited, quota, used, bar)
