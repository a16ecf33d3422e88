"""Nodes that borrow, so that others may reclaim from them: a node borrows at each level where its subtree is over its
quota.

Work is reclaimed only from borrowers: every node from the victim up to the common ancestor with the lender must be over
its quota. So the more of the nodes above a pool are over their quota, the more lenders may reclaim the GPUs of its LOW
work.
"""

from __future__ import annotations

from pools.domain.quota.tree import QuotaTree
from pools.domain.values.amounts import GPU


def borrowing_levels(tree: QuotaTree, name: str, key: str = GPU) -> int:
    """The number of consecutive nodes, from this one upward, that are over their effective quota. A root cannot
    borrow."""
    column, x, levels = tree.columns[key], tree.index[name], 0
    while tree.parents[x] >= 0 and column.usage[x] > column.subtree[x]:
        levels, x = levels + 1, tree.parents[x]
    return levels


def newly_reclaimable(before: QuotaTree, after: QuotaTree) -> list[str]:
    """The nodes with work of their own from which more lenders may reclaim after a change, in the order of the tree."""
    if GPU not in after.columns:
        return []
    own = after.columns[GPU].own
    return [name for name, x in after.index.items() if own[x] and borrowing_levels(after, name) > _levels(before, name)]


def _levels(tree: QuotaTree, name: str) -> int:
    return borrowing_levels(tree, name) if name in tree.index and GPU in tree.columns else 0
