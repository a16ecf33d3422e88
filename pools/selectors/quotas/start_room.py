"""The GPUs that can start now in some pools and their leaves: the number of the quota tree, read for them alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pools.domain import names
from pools.domain.quota.forest import build_forest, pool_key
from pools.domain.quota.pool_balance import PoolBalance
from pools.domain.quota.tree import QuotaTree
from pools.domain.values.amounts import GPU, Amount
from pools.models import Pool
from pools.selectors.quotas.quota_facts import cohort_roots, pool_facts_with_leaves, read_admission_tree


@dataclass(frozen=True, slots=True)
class StartRoom:
    """What may still start, by pool and leaf. `available` of :mod:`pools.domain.quota.node_numbers` is the same number:
    quotas and limits allow it at this moment, the free GPUs of the nodes are a further limit."""

    trees: Sequence[tuple[QuotaTree, Sequence[Amount]]]

    def of_pool(self, pool: str) -> Amount:
        """The room of a whole pool."""
        return self._of(pool_key(pool))

    def of_leaf(self, pool: str, subpool: str | None) -> Amount:
        """The room of a subpool by its short name, or of the shared leaf."""
        return self._of(pool_key(names.canonical_name(pool, subpool or names.SHARED_QUEUE)))

    def _of(self, key: str) -> Amount:
        for tree, available in self.trees:
            if key in tree.index:
                return max(0, available[tree.index[key]]) if tree.is_active(key) else 0
        return 0


def read_start_room(roots: Sequence[Pool], balances: Mapping[int, PoolBalance]) -> StartRoom:
    """The room of these pools and their leaves. The cohorts must be loaded with the rows. Four queries if a pool is in
    a cohort, none otherwise."""
    facts = {row.name: pool_facts_with_leaves(row, balances[row.pk]) for row in roots}
    alone = build_forest([], [each for each in facts.values() if each.cohort is None])
    members = {row.cohort_id for row in roots if row.cohort_id is not None and not row.archived}
    shared = read_admission_tree(set(cohort_roots(members).values()), detailed=facts)
    trees = [tree for tree in (alone, shared) if tree.names]
    return StartRoom([(tree, tree.columns[GPU].available_of_all()) for tree in trees])
