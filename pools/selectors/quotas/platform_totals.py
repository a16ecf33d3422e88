"""The totals over all pools that a reader may see, for the home page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import EmptyResultSet

from pools.database.statements import execute_sql
from pools.domain.people.roles import Actor
from pools.domain.quota.usage_bar import UsageBar
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import NO_LIMIT
from pools.models import Pool
from pools.selectors.quotas.backend_capacity import unzip_flavors


@dataclass(frozen=True, slots=True)
class PlatformTotals:
    """The sums over all pools that a reader may see. Amounts are GPUs; `pools` and `subpools` are numbers of
    pools. Pools without a finite quota are not in `quota`."""

    pools: int
    subpools: int
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


# A pool of which a flavor counts parts of GPUs is in the sums without it.
_PARTS = """
    part_flavor (backend, flavor) AS (SELECT * FROM unnest(%s::bigint[], %s::text[])),
    shared (id, quota, used, total) AS MATERIALIZED (
        SELECT id, sum(quota), sum(used), sum(total) FROM (
            SELECT pool.id, (each ->> 'quota')::bigint AS quota, 0 AS used, 0 AS total
            FROM part_flavor
            JOIN pools_pool root ON root.backend_id = part_flavor.backend
            JOIN pools_pool pool ON root.id IN (pool.id, pool.parent_id)
            JOIN LATERAL jsonb_array_elements(pool.flavors) each ON each ->> 'flavor' = part_flavor.flavor
            UNION ALL
            SELECT pool.id, 0, usage.used, usage.total_usage
            FROM part_flavor
            JOIN pools_flavorusage usage ON usage.flavor = part_flavor.flavor
            JOIN pools_pool pool ON pool.id = usage.pool_id
            JOIN pools_pool root ON root.id = COALESCE(pool.parent_id, pool.id)
                AND root.backend_id = part_flavor.backend
        ) each
        GROUP BY id
    )
"""
_WHOLE_ROOTS = f"""
    SELECT id, backend, CASE WHEN guarantee = {NO_LIMIT} THEN guarantee ELSE guarantee - COALESCE(shared.quota, 0) END,
        own.used - COALESCE(shared.used, 0), own.total - COALESCE(shared.total, 0)
    FROM ({{roots}}) own (id, backend, guarantee, used, total) LEFT JOIN shared USING (id)
"""

# The arithmetic is that of `leaf_bar`, `subpool_bar` and `pool_bar` in :mod:`pools.domain.quota.usage_bar`. The pools
# of an installation have twenty thousand subpools, so nothing but the sums leaves the database.
_TOTALS = f"""
    WITH {{parts}} root (id, backend, guarantee, used, total) AS MATERIALIZED ({{roots}}),
    below AS (
        SELECT part.parent_id, count(*) AS count, sum(last_quota) FILTER (WHERE is_active) AS quota,
            sum(total_usage) AS total,
            sum(GREATEST(total_usage - GREATEST(last_quota, used), 0)) FILTER (WHERE is_active) AS over,
            sum(LEAST(last_quota, used)) FILTER (WHERE is_active) AS guaranteed,
            sum(CASE WHEN is_active THEN GREATEST(used - last_quota, 0) ELSE total_usage END) AS draining
        FROM (
            SELECT parent_id, last_quota {{less_quota}} AS last_quota,
                subpool_state = '{SubpoolState.ACTIVE}' AS is_active, usage.used {{less_used}} AS used,
                usage.total_usage {{less_total}} AS total_usage
            FROM pools_pool part JOIN pools_leafusage usage ON usage.pool_id = part.id {{shared}}
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
    SELECT {{column}}, count(*), sum(count), sum(guarantee) FILTER (WHERE NOT is_unlimited),
        sum(total), sum(guaranteed), sum(total - guaranteed - over - draining), sum(over), sum(draining),
        sum(GREATEST(guarantee - total, 0)) FILTER (WHERE NOT is_unlimited)
    FROM bar GROUP BY GROUPING SETS (({{key}}))
"""


def platform_totals(actor: Actor, parts: Mapping[int, frozenset[str]]) -> PlatformTotals:
    """The totals of the pools that `actor` may see, without `parts`, which are the
    flavors of backends that count parts of GPUs. One query."""
    return _read_totals(actor, "", parts).get(None, _NOTHING)


def bars_of_clusters(actor: Actor, parts: Mapping[int, frozenset[str]]) -> dict[int, UsageBar]:
    """The bars of the pools that `actor` may see, added up by the id of their cluster, without `parts`.
    One query."""
    return {
        backend: totals.bar for backend, totals in _read_totals(actor, "backend", parts).items() if backend is not None
    }


_NOTHING = PlatformTotals(0, 0, 0, 0, UsageBar())


def _read_totals(actor: Actor, key: str, parts: Mapping[int, frozenset[str]]) -> dict[int | None, PlatformTotals]:
    """By the column `key`; without one, all totals are those of None."""
    roots = Pool.objects.visible_to(actor).roots().filter(archived=False)
    columns = roots.order_by().values_list("pk", "backend", "guarantee", "usage__used", "usage__total_usage")
    try:
        text, values = columns.query.sql_with_params()
    except EmptyResultSet:  # Django knows without a query that the actor sees no pool
        return {}
    names = {"roots": text, "key": key, "column": key or "NULL", "parts": "", "shared": ""}
    names |= {"less_quota": "", "less_used": "", "less_total": ""}
    if parts:
        names |= {"parts": f"{_PARTS},", "roots": _WHOLE_ROOTS.format(roots=text)}
        names |= {f"less_{column}": f"- COALESCE(shared.{column}, 0)" for column in ("quota", "used", "total")}
        names["shared"] = "LEFT JOIN shared ON shared.id = part.id"
        values = (*unzip_flavors(parts), *values)
    rows = execute_sql(_TOTALS.format(**names), values)
    return {backend: _totals_of(sums) for backend, *sums in rows}


def _totals_of(sums: Iterable[Any]) -> PlatformTotals:
    pools, subpools, quota, used, guaranteed, low, over, draining, free = (int(number or 0) for number in sums)
    bar = UsageBar(guaranteed=guaranteed, low_inside=low, free=free, over_quota=over, draining=draining)
    return PlatformTotals(pools, subpools, quota, used, bar)
