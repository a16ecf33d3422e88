"""Who borrows so that others may take it back: a node that uses more than it owns, as far up as its way does so too.

Work is reclaimed only from borrowers, all the way to where the way of the lender and theirs meet. So the further up the
nodes above a pool use more than they own, the more lenders may take back what LOW work holds there.
"""

from __future__ import annotations

from pools.domain.amounts import GPU
from pools.domain.quota.tree import QuotaTree


def borrowing_levels(tree: QuotaTree, name: str, key: str = GPU) -> int:
    """How many nodes, from this one upward without a gap, use more than they own. The top of a tree has nobody to
    borrow from."""
    column, x, levels = tree.columns[key], tree.index[name], 0
    while tree.parents[x] >= 0 and column.usage[x] > column.subtree[x]:
        levels, x = levels + 1, tree.parents[x]
    return levels


def newly_reclaimable(before: QuotaTree, after: QuotaTree, key: str = GPU) -> list[str]:
    """The nodes that hold something themselves and that more lenders may take it from after a change, in the order of
    the tree."""
    if key not in after.columns:
        return []
    own = after.columns[key].own
    return [
        name
        for name, x in after.index.items()
        if own[x] and borrowing_levels(after, name, key) > _levels(before, name, key)
    ]


def _levels(tree: QuotaTree, name: str, key: str) -> int:
    return borrowing_levels(tree, name, key) if name in tree.index and key in tree.columns else 0
