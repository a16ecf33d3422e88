"""Quota and usage of all pools that an actor may see (design, O5.2), as JSON text.

The four quota sums belong to the pool and add up over pools and subpools: the limit of a divided pool is the pool
remainder. Capacity and free GPUs belong to the nodes: pools that share nodes show the same numbers, and sums count them
once.

Each subpool repeats the whole configuration of its parent, which is most of a large answer. So the text is composed:
the inherited part is encoded once for each pool. Names and states need no escaping, because the database allows only
safe characters in them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from pools.domain.numbers import POOL_NUMBERS
from pools.domain.people.roles import Actor
from pools.domain.values.amounts import UNLIMITED
from pools.selectors.pool_lists import (
    ListedPool,
    ListedPoolAnswer,
    group_by_node_set,
    inherited_body,
    list_pools,
    root_body,
    subpool_resources,
)
from scheduling.selectors.cluster.nodes import gpus_by_node_set


class ResourceUsageAnswer(TypedDict):
    """GPUs, as texts."""

    quota_used: str
    quota_free: str
    quota_limit: str
    total_usage: str
    total_capacity: str
    total_free: str


class PoolUseAnswer(ListedPoolAnswer):
    """A pool or subpool with its use."""

    resource_usage: ResourceUsageAnswer
    gpu_quota: str
    used: Annotated[int, POOL_NUMBERS["used"].meaning]
    available: Annotated[int, POOL_NUMBERS["available"].meaning]


class NodeSetAnswer(TypedDict):
    """The pools and subpools that share nodes."""

    pools: list[PoolUseAnswer]


class PoolQuotaAnswer(TypedDict):
    """Pools with quota and use, and the sums over all of them."""

    node_sets: list[NodeSetAnswer]
    resource_sum: ResourceUsageAnswer


@dataclass(slots=True)
class _QuotaTotals:
    """The sums of the rows, in GPUs."""

    used: int = 0
    limit: int = 0
    usage: int = 0

    def add(self, limit: int, used: int, usage: int) -> None:
        self.limit += limit
        self.used += used
        self.usage += usage


def render_pool_quota(
    actor: Actor,
    *,
    names: Collection[str] | None = None,
    include_archived: bool = False,
    with_subpools: bool = False,
) -> str:
    """A :class:`PoolQuotaAnswer` as text; three queries for any number of pools."""
    trees = list_pools(actor, names=names, include_archived=include_archived, with_subpools=with_subpools)
    gpus = gpus_by_node_set()
    sums, capacity_sum, free_sum, sets = _QuotaTotals(), 0, 0, []
    for shared, members in group_by_node_set(trees, gpus.keys()):
        capacity = sum(gpus[place][0] for place in shared.node_groups)
        free = capacity - sum(gpus[place][1] for place in shared.node_groups)
        rows = [row for tree in members for row in _render_rows(tree, capacity, free, sums)]
        sets.append(f'{{"pools":[{",".join(rows)}]}}')
        capacity_sum += capacity
        free_sum += free
    total = _encode(_usage_body(sums.limit, sums.used, sums.usage, capacity_sum, free_sum))
    return f'{{"node_sets":[{",".join(sets)}],"resource_sum":{total}}}'


def _render_rows(tree: ListedPool, capacity: int, free: int, sums: _QuotaTotals) -> Iterator[str]:
    """The rows of one tree that the list shows, counted into `sums`: the pool first, then its subpools."""
    root, common = tree.root, _encode(inherited_body(tree.root))[1:-1]
    if tree.is_listed(root.name):
        limit, label = _pool_limit(tree, capacity)
        used, usage = root.usage__used, root.usage__total_usage
        sums.add(limit, used, usage)
        own = {
            **root_body(root),
            "resource_usage": _usage_body(limit, used, usage, capacity, free),
            "gpu_quota": label,
            "used": used,
            "available": limit - used,
        }
        yield f"{_encode(own)[:-1]},{common}}}"
    if not tree.subpools:
        return
    shares = subpool_resources(root)
    rest = f'"maximum":{shares["maximum"]},"weight":{shares["weight"]}'
    nodes = f'"total_capacity":"{capacity}","total_free":"{free}"'
    for row in tree.subpools:
        if not tree.is_listed(row.name):
            continue
        limit, used, usage = row.quota, row.usage__used, row.usage__total_usage
        sums.add(limit, used, usage)
        left = limit - used
        yield (
            f'{{"name":"{row.name}","resources":{{"gpu":{{"guarantee":{limit},{rest}}}}},"parent_pool":"{root.name}",'
            f'"subpool_name":"{row.subpool_name}","subpool_state":"{row.subpool_state}",'
            f'"resource_usage":{{"quota_used":"{used}","quota_free":"{left}","quota_limit":"{limit}",'
            f'"total_usage":"{usage}",{nodes}}},"gpu_quota":"{limit}","used":{used},"available":{left},{common}}}'
        )


def _pool_limit(tree: ListedPool, capacity: int) -> tuple[int, str]:
    """The GPUs that the pool itself may use, and their text. Without a quota the limit is the capacity of its nodes."""
    if tree.guarantee == UNLIMITED:
        return capacity, str(capacity)
    guarantee = int(tree.guarantee)
    unallocated = guarantee - tree.allocated
    return unallocated, f"{unallocated} (Total: {guarantee})" if tree.is_partitioned else str(unallocated)


def _usage_body(limit: int, used: int, usage: int, capacity: int, free: int) -> ResourceUsageAnswer:
    return {
        "quota_used": str(used),
        "quota_free": str(limit - used),
        "quota_limit": str(limit),
        "total_usage": str(usage),
        "total_capacity": str(capacity),
        "total_free": str(free),
    }


def _encode(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
