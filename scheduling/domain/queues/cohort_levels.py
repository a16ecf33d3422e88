"""Cohorts as levels of KAI queues.

KAI knows a quota and a limit for each level, but no lending limits. The quota of a level is the sum of the quotas below
it on this cluster and its own. The limit is the most that all below it could ever hold on any cluster. The most that
one pool could ever hold, with the lending limits of others, is exact and is the limit of the pool's container. KAI has
one number of GPUs, so all of these are sums over the flavors."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from pools.domain.quota.forest import COHORT_PREFIX, display_name, pool_key
from pools.domain.quota.tree import NO_QUOTA, NodeQuota, QuotaTree
from pools.domain.values.amounts import GPU, UNLIMITED, Amount, Gpus, is_gpu
from scheduling.domain.queues.desired import CohortLevel


@dataclass(frozen=True, slots=True)
class CohortPlacement:
    """The cohort of a pool, and the most that the pool could ever hold there (`UNLIMITED`: no limit)."""

    cohort: str
    limit: Gpus


@dataclass(frozen=True, slots=True)
class CohortLevels:
    """The levels that a cluster needs, and the placement of pools below them by name."""

    cohorts: tuple[CohortLevel, ...] = ()
    pools: Mapping[str, CohortPlacement] = field(default_factory=dict)


def cohort_levels(tree: QuotaTree, pool_quotas: Mapping[str, Gpus]) -> CohortLevels:
    """The levels above the pools of this cluster; `pool_quotas` are the quotas of these pools.

    Cohorts on a cycle of parents have no level: their pools are placed as if they had no cohort.
    """
    keys = _gpu_keys(node.quotas for node in tree.nodes.values())
    pools: dict[str, CohortPlacement] = {}
    quotas: dict[str, Amount] = defaultdict(int)
    for pool, quota in pool_quotas.items():
        name = pool_key(pool)
        if name not in tree.nodes or not tree.is_active(name) or (cohort := tree.nodes[name].parent) is None:
            continue
        own_keys, x = _gpu_keys([tree.nodes[name].quotas]), tree.index[name]
        most = sum(tree.columns[key].potential(x) for key in own_keys)
        pools[pool] = CohortPlacement(display_name(cohort), _whole_gpus(most))
        for above in _path_up(tree, name):
            quotas[above] += quota
    own, everything = _sums(tree, COHORT_PREFIX, keys), _sums(tree, "", keys)
    return CohortLevels(
        tuple(_level(tree, name, quota + own[name], everything[name], keys) for name, quota in sorted(quotas.items())),
        pools,
    )


def _gpu_keys(quotas: Iterable[Mapping[str, NodeQuota]]) -> frozenset[str]:
    """The keys of the GPUs of which there are quotas; without any, that of GPUs without a flavor."""
    return frozenset(key for each in quotas for key in each if is_gpu(key)) or frozenset([GPU])


def _level(tree: QuotaTree, name: str, quota: Amount, everything: Amount, keys: Collection[str]) -> CohortLevel:
    node = tree.nodes[name]
    above = node.parent
    borrowed = sum(node.quotas.get(key, NO_QUOTA).borrowing_limit for key in keys)
    limit = everything if above is None else everything + borrowed
    return CohortLevel(
        display_name(name),
        _whole_gpus(quota),
        _whole_gpus(limit),
        float(node.weight),
        None if above is None else display_name(above),
    )


def _path_up(tree: QuotaTree, name: str) -> list[str]:
    """The nodes above a node that is on no cycle."""
    path = []
    above = tree.nodes[name].parent
    while above is not None:
        path.append(above)
        above = tree.nodes[above].parent
    return path


def _sums(tree: QuotaTree, prefix: str, keys: Collection[str]) -> dict[str, Amount]:
    """The sum of the quotas of each node and all below it; only nodes whose name has the prefix count."""
    found: dict[str, Amount] = defaultdict(int)
    for name, node in tree.nodes.items():
        if name.startswith(prefix) and tree.is_active(name):
            for each in (name, *_path_up(tree, name)):
                found[each] += sum(node.quotas.get(key, NO_QUOTA).nominal for key in keys)
    return found


def _whole_gpus(amount: Amount) -> Gpus:
    """Whole GPUs for KAI."""
    return UNLIMITED if amount == UNLIMITED else math.floor(amount)
