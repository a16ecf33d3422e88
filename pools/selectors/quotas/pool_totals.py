"""The numbers of the quota tree that lists of pools show, read for some pools and their leaves alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pools.domain import names
from pools.domain.quota.forest import build_forest, pool_key
from pools.domain.quota.node_totals import NodeTotals, gpu_totals
from pools.domain.quota.pool_balance import PoolBalance
from pools.domain.quota.usage_bar import UsageBar
from pools.domain.values.amounts import UNLIMITED, Amount, Gpus
from pools.models import Pool
from pools.selectors.quotas.quota_facts import cohort_roots, pool_facts_with_leaves, read_admission_tree

_ARCHIVED = NodeTotals(0, 0, 0, 0, 0, UsageBar())


@dataclass(frozen=True, slots=True)
class LeafTotals:
    """What may start on a pool or leaf, and its bar: the same numbers as in the quota tree."""

    can_start_now: Gpus
    low_can_start_now: Gpus
    bar: UsageBar


@dataclass(frozen=True, slots=True)
class PoolTotals:
    """The totals of some pools and their leaves."""

    totals: Mapping[str, NodeTotals]

    def of_pool(self, pool: str) -> LeafTotals:
        """Those of a whole pool."""
        return self._of(pool_key(pool))

    def of_leaf(self, pool: str, subpool: str | None) -> LeafTotals:
        """Those of a subpool by its short name, or of the shared leaf."""
        return self._of(pool_key(names.canonical_name(pool, subpool or names.SHARED_QUEUE)))

    def _of(self, key: str) -> LeafTotals:
        found = self.totals.get(key, _ARCHIVED)
        return LeafTotals(_gpus(found.can_start_now), _gpus(found.low_can_start_now), found.bar)


def _gpus(amount: Amount) -> Gpus:
    return UNLIMITED if amount == UNLIMITED else int(amount)


def read_pool_totals(roots: Sequence[Pool], balances: Mapping[int, PoolBalance]) -> PoolTotals:
    """The totals of these pools and their leaves. The cohorts must be loaded with the rows. Four queries if a pool is
    in a cohort, none otherwise."""
    facts = {row.name: pool_facts_with_leaves(row, balances[row.pk]) for row in roots}
    alone = build_forest([], [each for each in facts.values() if each.cohort is None])
    members = {row.cohort_id for row in roots if row.cohort_id is not None and not row.archived}
    shared = read_admission_tree(set(cohort_roots(members).values()), detailed=facts)
    totals: dict[str, NodeTotals] = {}
    for tree in (alone, shared):
        if tree.names:
            totals |= gpu_totals(tree, [balances[row.pk] for row in roots if pool_key(row.name) in tree.index])
    return PoolTotals(totals)
