"""Cohorts, pools and leaves as one quota tree (design, Q1).

The quota of a cohort is its own, on top of its children's. The quota of a pool consists of the quotas of its leaves, so
its own nominal quota is 0. The quota of a leaf is the one that the scheduler gets (design, D4). The `maximum`
of a pool limits its borrowing: maximum − guarantee.

Cohorts and pools may have the same name, so the keys of nodes are `cohort/org` and `pool/team--a`, as in the audit log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pools.domain.quota.stored_quotas import StoredQuotas, quotas_from_stored
from pools.domain.quota.tree import NO_QUOTA, NodeQuota, QuotaNode, QuotaTree
from pools.domain.values.amounts import GPU, UNLIMITED, Gpus, Number, gpu_key

COHORT_PREFIX: Final = "cohort/"
POOL_PREFIX: Final = "pool/"


@dataclass(frozen=True, slots=True)
class CohortQuotaFacts:
    """A cohort; `parent` is the name of a cohort."""

    name: str
    parent: str | None = None
    quotas: StoredQuotas | None = None
    weight: Number = 1


@dataclass(frozen=True, slots=True)
class LeafQuotaFacts:
    """A shared leaf or a subpool by its canonical name (`team--_shared`, `team--a`): quota and usage in GPUs; `pending`
    is the number of GPUs that its waiting work requests."""

    name: str
    quota: Gpus
    usage: int = 0
    pending: int = 0


@dataclass(frozen=True, slots=True)
class PoolQuotaFacts:
    """A pool and its leaves, in GPUs.

    Leaves have no limits of their own, so a verdict does not need them one by one: without `leaves` the pool itself has
    the sum of their `quota` and `usage`, and every number above it is the same. `limits` are those that are configured.
    `kinds` has the same of each flavor, in place of `limits`, `quota` and `usage` and of those of its leaves; it is
    empty for a pool without flavors, which is all of the flavor `default`.
    """

    name: str
    cohort: str | None
    guarantee: Gpus
    maximum: Gpus = UNLIMITED
    limits: NodeQuota = NO_QUOTA
    weight: Number = 1
    leaves: Sequence[LeafQuotaFacts] = ()
    quota: Gpus = 0
    usage: int = 0
    kinds: Mapping[str, PoolQuotaFacts] = field(default_factory=dict)

    @property
    def by_flavor(self) -> Mapping[str, PoolQuotaFacts]:
        """The facts of each flavor by the key of its GPUs."""
        return {gpu_key(flavor): kind for flavor, kind in self.kinds.items()} or {GPU: self}


def cohort_key(name: str) -> str:
    """The key of a cohort in the tree."""
    return COHORT_PREFIX + name


def pool_key(name: str) -> str:
    """The key of a pool, or of a leaf by its canonical name, in the tree."""
    return POOL_PREFIX + name


def is_pool_key(key: str) -> bool:
    """Whether a key in the tree is that of a pool or a leaf."""
    return key.startswith(POOL_PREFIX)


def display_name(key: str) -> str:
    """The name of a node on pages and in messages, from its key."""
    return key.partition("/")[2]


def build_forest(cohorts: Iterable[CohortQuotaFacts], pools: Iterable[PoolQuotaFacts]) -> QuotaTree:
    """The tree with the usage of every leaf. Every node has at least the resource GPU."""
    nodes = [
        QuotaNode(
            cohort_key(cohort.name),
            None if cohort.parent is None else cohort_key(cohort.parent),
            quotas_from_stored(cohort.quotas or {}),
            cohort.weight,
        )
        for cohort in cohorts
    ]
    usage: dict[str, dict[str, Number]] = {node.name: {GPU: 0} for node in nodes}
    for pool in pools:
        kinds = pool.by_flavor
        nodes.append(_pool(pool, kinds))
        if not pool.leaves:
            usage[pool_key(pool.name)] = {key: kind.usage for key, kind in kinds.items()}
        leaves = zip(*(kind.leaves for kind in kinds.values()), strict=True)
        for parts in leaves:
            name, of_flavor = pool_key(parts[0].name), dict(zip(kinds, parts, strict=True))
            quotas = {key: NodeQuota(part.quota) for key, part in of_flavor.items()}
            nodes.append(QuotaNode(name, pool_key(pool.name), quotas))
            usage[name] = {key: part.usage for key, part in of_flavor.items()}
    return QuotaTree(nodes, usage)


def _pool(pool: PoolQuotaFacts, kinds: Mapping[str, PoolQuotaFacts]) -> QuotaNode:
    parent = None if pool.cohort is None else cohort_key(pool.cohort)
    quotas = {key: pool_node_quota(kind) for key, kind in kinds.items()}
    return QuotaNode(pool_key(pool.name), parent, quotas, pool.weight)


def pool_node_quota(pool: PoolQuotaFacts) -> NodeQuota:
    """The quota of the pool's own node. It may borrow the smaller of the configured limit and the difference of maximum
    and guarantee."""
    borrowing = pool.limits.borrowing_limit
    if UNLIMITED not in {pool.maximum, pool.guarantee}:
        borrowing = min(borrowing, max(0, pool.maximum - pool.guarantee))
    return NodeQuota(0 if pool.leaves else pool.quota, borrowing, pool.limits.lending_limit)
