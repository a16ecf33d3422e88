"""The worked examples (design, Q6) with exact numbers, and two stories of borrowing."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pools.domain.quota.node_numbers import node_numbers, weighted_share
from pools.domain.quota.tree import NodeQuota, QuotaNode, QuotaTree
from pools.domain.values.amounts import GPU, UNLIMITED
from tests.unit.quota.changes import changed_tree

OPEN = UNLIMITED


def node(name, parent=None, nominal=0, *, borrow=OPEN, lend=OPEN, weight=1):
    return QuotaNode(name, parent, {GPU: NodeQuota(nominal, borrow, lend)}, weight)


def gpus(**held):
    return {name: {GPU: amount} for name, amount in held.items()}


EXAMPLE_A = [
    node("corp", None, 4),
    node("prod", "corp", 6, borrow=8),
    node("research", "corp", 0, lend=5),
    node("serve", "prod", 10),
    node("batch", "prod", 4, borrow=3),
    node("train", "research", 16, lend=12),
    node("labs", "research", 0, borrow=2),
]


def column_of(tree, what, *names):
    table = node_numbers(tree, GPU)
    return [getattr(table[name], what) for name in names]


def test_example_a_subtree_quota():
    tree = QuotaTree(EXAMPLE_A)
    names = ["train", "labs", "research", "serve", "batch", "prod", "corp"]
    assert column_of(tree, "subtree_quota", *names) == [16, 0, 12, 10, 4, 20, 29]


@pytest.mark.parametrize(
    ("usage", "t", "available"),
    [
        ({}, [29, 20, 12], [28, 7, 40, 2]),
        ({"serve": 18, "train": 9}, [11, 2, 7], [10, 7, 13, 2]),
        ({"serve": 18, "train": 12}, [10, 2, 4], [10, 7, 10, 2]),
        ({"serve": 25, "train": 0}, [4, -5, 12], [3, 3, 15, 2]),
    ],
)
def test_example_a_states(usage, t, available):
    tree = QuotaTree(EXAMPLE_A, gpus(**usage))
    assert column_of(tree, "t", "corp", "prod", "research") == t
    assert column_of(tree, "available", "serve", "batch", "train", "labs") == available
    assert column_of(tree, "potential_available", "serve", "batch", "train", "labs") == [28, 7, 40, 2]


def test_example_b_a_tighter_lending_limit_creates_a_debt_and_evicts_no_work():
    before = QuotaTree([node("a", "pool", 10, lend=4), node("b", "pool", 2)], gpus(b=6))
    assert column_of(before, "t", "pool") == [0]
    assert column_of(before, "available", "a", "b") == [6, 0]
    assert column_of(before, "lent", "a", "b") == [4, 0]
    after = changed_tree(before, node("a", "pool", 10, lend=1))
    assert column_of(after, "subtree_quota", "pool") == [3]
    assert column_of(after, "usage", "pool") == [6]
    assert column_of(after, "t", "pool") == [-3]
    assert column_of(after, "debt", "pool", "a", "b") == [3, 0, 0]
    assert column_of(after, "available", "a", "b") == [6, 0]
    assert after.columns[GPU].available(after.index["b"]) == -3


def test_example_c_debt_in_another_branch_blocks_no_work():
    tree = QuotaTree(
        [node("root"), node("x", "root", borrow=0), node("y", "root"), node("xq", "x", 6), node("yq", "y", 5)],
        gpus(xq=8),
    )
    assert column_of(tree, "t", "root", "x") == [3, -2]
    assert column_of(tree, "debt", "root", "x") == [0, 2]
    assert column_of(tree, "available", "yq", "xq") == [3, 0]
    assert tree.shortfalls("yq", {GPU: 3}) == []
    assert [found.available for found in tree.shortfalls("yq", {GPU: 4})] == [3]


@pytest.mark.parametrize("limit", [{}, {"borrow": 5}], ids=["without a limit", "with a limit"])
def test_a_root_borrows_nothing(limit):
    """Nobody could lend to it, so all use above its quota is debt."""
    tree = QuotaTree([node("root", **limit), node("q", "root", 6)], gpus(q=8))
    assert column_of(tree, "debt", "root", "q") == [2, 0]


def test_weighted_share_example():
    tree = QuotaTree(
        [
            node("root", None, 20),
            node("team", "root", 4, weight=2),
            node("q1", "team", 6),
            node("q2", "team", 0, weight=Fraction(1, 2)),
            node("q3", "root", 10),
        ],
        gpus(q1=9, q2=7, q3=4),
    )
    weightless = changed_tree(tree, node("q2", "team", 0, weight=0))
    assert [weighted_share(tree, name).exact for name in ("q1", "team", "q3")] == [75, 75, 0]
    assert weighted_share(tree, "q2").exact == 350
    assert column_of(tree, "potential_available", "root", "team") == [40, 40], "lendable, at both levels"
    assert weighted_share(tree, "q1").dominant_resource == "gpu"
    assert weighted_share(weightless, "q2").reported_share == "infinite"
    assert weighted_share(tree, "root").reported_share == 0


def test_story_1_production_borrows_from_research_and_not_the_reverse():
    tree = QuotaTree(
        [
            node("company"),
            node("production", "company"),
            node("research", "company", borrow=0),
            node("serving", "production", 10),
            node("lab", "research", 6),
        ]
    )
    assert tree.shortfalls("serving", {GPU: 16}) == []
    (stopped,) = tree.shortfalls("lab", {GPU: 7})
    assert (stopped.node, stopped.limit, stopped.available, stopped.requested > stopped.potential) == (
        "research",
        "borrowing_limit",
        6,
        True,
    )


def test_story_2_the_special_queue_borrows_from_every_organisation():
    tree = QuotaTree(
        [
            node("top"),
            node("org1", "top", borrow=0),
            node("org2", "top", borrow=0),
            node("q1", "org1", 4),
            node("q2", "org2", 4),
            node("special", "top", 0),
        ],
        gpus(q1=1),
    )
    assert column_of(tree, "available", "q1", "q2", "special") == [3, 4, 7]
    tree.columns[GPU].reserve(tree.index["special"], 7)
    assert column_of(tree, "available", "q1", "q2", "special") == [0, 0, 0]
    assert column_of(tree, "lent", "q1", "q2", "org1", "org2") == [3, 4, 3, 4]
    assert column_of(tree, "borrowed", "special") == [7]


def test_a_named_cohort_exists_without_quota_until_it_is_configured():
    tree = QuotaTree([node("a", "shared", 3), node("b", "shared", 1)])
    assert tree.available("b", GPU) == 4
    assert changed_tree(tree, node("shared", None, 2)).available("b", GPU) == 6


def test_removing_a_cohort_makes_its_children_roots():
    tree = QuotaTree([node("org", None, 4), node("a", "org", 1)], gpus(a=2))
    assert tree.available("a", GPU) == 3
    cut = changed_tree(tree, removed=["org"])
    assert (cut.nodes["a"].parent, cut.available("a", GPU), column_of(cut, "debt", "a")) == (None, 0, [1])


def test_a_cycle_admits_nothing_there_and_never_hangs():
    tree = QuotaTree(
        [node("a", "b", 4), node("b", "c", 4), node("c", "a", 4), node("leaf", "a", 9), node("free", None, 2)],
        gpus(leaf=3),
    )
    assert tree.cycles == [["a", "b", "c"]]
    assert [tree.is_active(name) for name in ("a", "b", "c", "leaf", "free")] == [False] * 4 + [True]
    assert tree.available("leaf", GPU) == 0
    assert [found.limit for found in tree.shortfalls("leaf", {GPU: 1})] == ["cycle"]
    assert tree.shortfalls("leaf", {GPU: 0}) == []
    assert tree.available("free", GPU) == 2
    assert column_of(tree, "usage", "leaf") == [3]


def test_unlimited_quota_stays_unlimited():
    tree = QuotaTree([node("org", None, UNLIMITED), node("a", "org", 1, borrow=5), node("b", "org", UNLIMITED, lend=3)])
    assert column_of(tree, "subtree_quota", "org", "b") == [UNLIMITED, UNLIMITED]
    assert column_of(tree, "available", "a", "b", "org") == [6, UNLIMITED, UNLIMITED]
    tree.columns[GPU].reserve(tree.index["b"], 10**12)
    assert column_of(tree, "usage", "b", "org") == [10**12, 0]


def test_unknown_resource_is_refused_with_zero():
    (stopped,) = QuotaTree([node("a", None, 4)]).shortfalls("a", {"default/cpu": 1})
    assert (stopped.key, stopped.available, stopped.requested > stopped.potential) == ("default/cpu", 0, True)
