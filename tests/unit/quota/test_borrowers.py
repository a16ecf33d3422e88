"""The number of levels on which others may reclaim from a node, and the effect of a change on it."""

from __future__ import annotations

import pytest

from pools.domain.quota.borrowers import borrowing_levels, newly_reclaimable
from pools.domain.quota.tree import NodeQuota, QuotaNode, QuotaTree
from pools.domain.values.amounts import GPU

HELD = {"leaf": {GPU: 7}, "calm": {GPU: 1}}


def tree(top: int, middle: int, leaf: int) -> QuotaTree:
    nodes = [("top", None, top), ("middle", "top", middle), ("leaf", "middle", leaf), ("calm", "middle", 2)]
    return QuotaTree([QuotaNode(name, parent, {GPU: NodeQuota(quota)}) for name, parent, quota in nodes], HELD)


@pytest.mark.parametrize(
    ("own", "levels"),
    [((0, 0, 7), 0), ((0, 1, 5), 1), ((9, 0, 4), 2), ((0, 0, 4), 2)],
    ids=["within its own", "its parent has it", "the top has it", "a debt of the top is nobody's to take"],
)
def test_the_number_of_borrowing_levels(own: tuple[int, int, int], levels: int) -> None:
    assert borrowing_levels(tree(*own), "leaf") == levels
    assert borrowing_levels(tree(*own), "calm") == 0


def test_newly_reclaimable_nodes_after_a_change() -> None:
    assert newly_reclaimable(tree(9, 4, 5), tree(9, 0, 5)) == ["leaf"]
    assert newly_reclaimable(tree(9, 0, 5), tree(9, 4, 5)) == []
    assert newly_reclaimable(QuotaTree([]), tree(9, 0, 5)) == ["leaf"], "it comes and borrows"
    assert newly_reclaimable(tree(9, 0, 5), QuotaTree([])) == []
    assert newly_reclaimable(tree(9, 0, 5), tree(9, 0, 7)) == []
