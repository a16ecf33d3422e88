"""Cohorts, pools and leaves as one tree for the arithmetic (design section 3).

A cohort's quota is its own, on top of its children's; a pool's contains its leaves, so its own nominal is 0; a leaf's
is its quota as the scheduler is told it (D4). A pool's `maximum` bounds what it borrows: maximum − guarantee.

Cohorts and pools may share a name, so a node is called `cohort/org` or `pool/team--a` here, as in the audit trail.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pools.domain.amounts import GPU, UNLIMITED, Gpus, Number
from pools.domain.cohort_config import StoredQuotas, quotas_from_stored
from pools.domain.quota.tree import NodeQuota, QuotaNode, QuotaTree

COHORT_PREFIX: Final = "cohort/"
POOL_PREFIX: Final = "pool/"


@dataclass(frozen=True, slots=True)
class CohortQuotaFacts:
    """A cohort; `parent` is a cohort's name."""

    name: str
    parent: str | None = None
    quotas: StoredQuotas | None = None
    weight: Number = 1


@dataclass(frozen=True, slots=True)
class LeafQuotaFacts:
    """A shared leaf or a subpool by its canonical name (`team--_shared`, `team--a`). Amounts are GPUs; `pending` are
    those that waiting work of the leaf asks for."""

    name: str
    quota: Gpus
    usage: int = 0
    pending: int = 0


@dataclass(frozen=True, slots=True)
class PoolQuotaFacts:
    """A pool and its leaves; GPUs, -1 is unlimited, of the two limits None is.

    Leaves have no limits of their own, so for a verdict they need not be told one by one: without `leaves` the pool
    itself has their `quota` and `usage` together, and every number above it is the same.
    """

    name: str
    cohort: str | None
    guarantee: Gpus
    maximum: Gpus = UNLIMITED
    borrowing_limit: Gpus = UNLIMITED
    lending_limit: Gpus = UNLIMITED
    weight: Number = 1
    leaves: Sequence[LeafQuotaFacts] = ()
    quota: Gpus = 0
    usage: int = 0


def cohort_key(name: str) -> str:
    """What a cohort is called in the tree."""
    return COHORT_PREFIX + name


def pool_key(name: str) -> str:
    """What a pool, or a leaf by its canonical name, is called in the tree."""
    return POOL_PREFIX + name


def display_name(key: str) -> str:
    """The name that people know of a node of the tree."""
    return key.partition("/")[2]


def build_forest(cohorts: Iterable[CohortQuotaFacts], pools: Iterable[PoolQuotaFacts]) -> QuotaTree:
    """The tree with what every leaf holds. GPUs are always counted."""
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
        nodes.append(_pool(pool))
        if not pool.leaves:
            usage[pool_key(pool.name)] = {GPU: pool.usage}
        for leaf in pool.leaves:
            nodes.append(QuotaNode(pool_key(leaf.name), pool_key(pool.name), {GPU: NodeQuota(leaf.quota)}))
            usage[pool_key(leaf.name)] = {GPU: leaf.usage}
    return QuotaTree(nodes, usage)


def _pool(pool: PoolQuotaFacts) -> QuotaNode:
    parent = None if pool.cohort is None else cohort_key(pool.cohort)
    nominal = 0 if pool.leaves else pool.quota
    quota = NodeQuota(nominal, pool_borrowing_limit(pool), pool.lending_limit)
    return QuotaNode(pool_key(pool.name), parent, {GPU: quota}, pool.weight)


def pool_borrowing_limit(pool: PoolQuotaFacts) -> Gpus:
    """The smaller of the configured borrowing limit and what the maximum leaves above the guarantee."""
    if UNLIMITED in {pool.maximum, pool.guarantee}:
        return pool.borrowing_limit
    return min(pool.borrowing_limit, max(0, pool.maximum - pool.guarantee))
