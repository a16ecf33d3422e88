"""Properties of every tree: the fast path equals the formula, `release` undoes `reserve`, no admission increases a
debt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pools.domain.quota.tree import NodeQuota, QuotaNode, QuotaTree, children_first_order
from pools.domain.values.amounts import GPU, UNLIMITED
from tests.unit.quota.changes import changed_tree

USAGE = st.integers(0, 10)
LIMIT = st.one_of(st.just(UNLIMITED), st.integers(0, 12))


@st.composite
def trees(draw, usage=USAGE):
    """A random forest; node i is below an earlier node or is a root. Only leaves have usage."""
    size = draw(st.integers(1, 12))
    parents = [draw(st.integers(-1, i - 1)) for i in range(size)]
    nodes = [
        QuotaNode(f"n{i}", None if parents[i] < 0 else f"n{parents[i]}", {GPU: NodeQuota(*draw(_QUOTA))})
        for i in range(size)
    ]
    leaves = [i for i in range(size) if i not in parents]
    return QuotaTree(nodes, {f"n{i}": {GPU: draw(usage)} for i in leaves}), [f"n{i}" for i in leaves]


_QUOTA = st.tuples(st.integers(0, 20), LIMIT, LIMIT)


def children_of(tree, name):
    return [node for node in tree.nodes.values() if node.parent == name]


def balance_by_the_kep(tree, name):
    """`T` of the KEP: own quota minus own usage, plus the balance of each child, capped by its lending limit."""
    own = tree._usage.get(name, {}).get(GPU, 0)
    balance = tree.nodes[name].quotas[GPU].nominal - own
    for child in children_of(tree, name):
        balance += min(child.quotas[GPU].lending_limit, balance_by_the_kep(tree, child.name))
    return balance


def admits_by_the_kep(tree, leaf, amount):
    """The KEP's rule on the whole tree after the request: no node below −borrowing limit, no root below 0."""
    held = {**tree._usage.get(leaf, {})}
    held[GPU] = held.get(GPU, 0) + amount
    after = changed_tree(tree, usage={leaf: held})
    for name, node in after.nodes.items():
        bound = 0 if node.parent is None else node.quotas[GPU].borrowing_limit
        if balance_by_the_kep(after, name) < -bound:
            return False
    return True


@given(trees())
def test_t_is_subtree_quota_minus_usage_at_every_node(drawn):
    tree, _leaves = drawn
    column = tree.columns[GPU]
    for name in tree.names:
        assert column.balance(tree.index[name]) == balance_by_the_kep(tree, name)


@given(trees(usage=st.just(0)), st.data())
def test_fast_path_equals_the_formula_and_a_debt_free_tree_stays_so(drawn, data):
    tree, leaves = drawn
    column = tree.columns[GPU]
    for _ in range(8):
        leaf, amount = data.draw(st.sampled_from(leaves)), data.draw(st.integers(1, 12))
        now = QuotaTree(tree.nodes.values(), {n: {GPU: column.own[tree.index[n]]} for n in leaves})
        fits = not tree.shortfalls(leaf, {GPU: amount})
        assert fits == admits_by_the_kep(now, leaf, amount)
        if fits:
            column.reserve(tree.index[leaf], amount)
            assert all(column.debt(x) == 0 for x in range(len(tree.names)))


@given(trees())
def test_available_follows_from_the_balances(drawn):
    """available(x) = min(T(x) + borrowing limit, unused local quota of x + available(parent)), also with debts."""
    tree, _leaves = drawn
    column = tree.columns[GPU]
    everywhere = column.available_of_all()
    for x, parent in enumerate(tree.parents):
        expected = column.balance(x)
        if parent >= 0:
            kept = max(0, column.local[x] - column.usage[x])
            expected = min(column.balance(x) + column.borrowing[x], kept + column.available(parent))
        assert column.available(x) == everywhere[x] == expected


@given(trees(), st.data())
def test_admission_with_a_debt_breaks_no_limit_of_the_path(drawn, data):
    """The formula is checked on the path from the leaf to the root (design, D12). An admitted workload leaves no node
    there over its limits, and a refused one would have."""
    tree, leaves = drawn
    leaf, amount = data.draw(st.sampled_from(leaves)), data.draw(st.integers(1, 12))
    held = {GPU: tree._usage.get(leaf, {}).get(GPU, 0) + amount}
    after = changed_tree(tree, usage={leaf: held})
    way, x = [], tree.index[leaf]
    while x >= 0:
        way.append(x)
        x = tree.parents[x]
    # Where the request ends in what a node keeps for itself, nothing above it moves.
    moved = [x for x in way if after.columns[GPU].balance(x) != tree.columns[GPU].balance(x)]
    if not tree.shortfalls(leaf, {GPU: amount}):
        assert all(after.columns[GPU].debt(x) == 0 for x in moved)
    elif not any(tree.columns[GPU].debt(x) for x in way):
        assert any(after.columns[GPU].debt(x) for x in moved)


@given(trees(), st.data())
def test_release_undoes_reserve_and_order_does_not_matter(drawn, data):
    tree, leaves = drawn
    column, start = tree.columns[GPU], list(tree.columns[GPU].usage)
    held = data.draw(st.lists(st.tuples(st.sampled_from(leaves), st.integers(0, 9)), max_size=6))
    for leaf, amount in held:
        column.reserve(tree.index[leaf], amount)
    full = list(column.usage)
    for leaf, amount in data.draw(st.permutations(held)):
        column.release(tree.index[leaf], amount)
    assert column.usage == start
    for leaf, amount in data.draw(st.permutations(held)):
        column.reserve(tree.index[leaf], amount)
    assert column.usage == full
    own = {x: amount for x, amount in enumerate(column.own) if amount}
    column.set_usage(own)
    assert column.usage == full


@given(trees(), st.data())
def test_admission_never_deepens_a_debt_on_its_path(drawn, data):
    tree, leaves = drawn
    column = tree.columns[GPU]
    leaf, amount = data.draw(st.sampled_from(leaves)), data.draw(st.integers(1, 8))
    if tree.shortfalls(leaf, {GPU: amount}):
        return
    debts = [column.debt(x) for x in range(len(tree.names))]
    column.reserve(tree.index[leaf], amount)
    assert [column.debt(x) for x in range(len(tree.names))] == debts


@given(trees(), st.data())
def test_the_reason_is_true(drawn, data):
    """The request is admitted after each named limit is raised by its missing amount, one after the other."""
    tree, leaves = drawn
    leaf, amount = data.draw(st.sampled_from(leaves)), data.draw(st.integers(1, 12))
    for _ in range(len(tree.names) + 1):
        stopped = tree.shortfalls(leaf, {GPU: amount})
        if not stopped:
            break
        node = tree.nodes[stopped[0].node]
        old = node.quotas[GPU]
        missing = amount - tree.columns[GPU].available(tree.index[leaf])
        if stopped[0].limit == "borrowing_limit":
            new = NodeQuota(old.nominal, old.borrowing_limit + missing, old.lending_limit)
        else:
            new = NodeQuota(old.nominal + missing, old.borrowing_limit, old.lending_limit)
        tree = changed_tree(tree, QuotaNode(node.name, node.parent, {GPU: new}))
    assert tree.shortfalls(leaf, {GPU: amount}) == []


@given(trees())
def test_available_of_all_equals_available_of_each(drawn):
    tree, _leaves = drawn
    column = tree.columns[GPU]
    assert column.available_of_all() == [column.available(x) for x in range(len(tree.names))]


def test_a_long_chain_causes_no_recursion():
    """The numbers of a chain are computed without a nested call for each node."""
    quota = {GPU: NodeQuota(1, borrowing_limit=10_000, lending_limit=1)}
    tree = QuotaTree([QuotaNode(f"c{n}", f"c{n + 1}" if n < 4999 else None, quota) for n in range(5000)])
    column = tree.columns[GPU]
    assert column.available(0) == column.potential(0) == 5000
    assert column.binding_limit(0) == column.binding_potential_limit(0) == (4999, "quota")
    (shortfall, *_) = tree.shortfalls("c0", {GPU: 5001})
    assert shortfall.requested > shortfall.potential


@given(trees())
def test_the_binding_potential_limit_is_true(drawn):
    """The number follows from the named node and limit, plus the local quotas of the nodes below it."""
    tree, leaves = drawn
    column = tree.columns[GPU]
    for leaf in leaves:
        x = tree.index[leaf]
        most = column.potential(x)
        assert most >= column.available(x)
        node, limit = column.binding_potential_limit(x)
        assert (limit == "quota") == (tree.parents[node] < 0)
        kept = column.subtree[node] + (column.borrowing[node] if limit == "borrowing_limit" else 0)
        way = []
        while x != node:
            way.append(x)
            kept, x = kept + column.local[x], tree.parents[x]
        assert most == kept
        assert all(column.subtree[x] + column.borrowing[x] >= column.potential(x) for x in way)


@given(st.lists(st.integers(-1, 9), min_size=1, max_size=10))
def test_any_shape_ends(parents):
    parents = [min(parent, len(parents) - 1) for parent in parents]
    order, cyclic = children_first_order(parents)
    assert sorted(order) == list(range(len(parents)))
    for x, parent in enumerate(parents):
        if parent >= 0 and x not in cyclic:
            assert order.index(x) < order.index(parent)
    names = [None if p < 0 else f"n{p}" for p in parents]
    tree = QuotaTree([QuotaNode(f"n{x}", parent, {GPU: NodeQuota(1)}) for x, parent in enumerate(names)])
    assert {tree.index[name] for cycle in tree.cycles for name in cycle} <= cyclic
    assert bool(tree.cycles) == bool(cyclic)
