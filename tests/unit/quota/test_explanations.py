"""The terms of every explanation add up to the number, and each term is the number of the node that it names."""

from __future__ import annotations

from hypothesis import given

from pools.domain.quota.explanations import explain_node, explain_share
from pools.domain.quota.node_numbers import node_numbers
from pools.domain.quota.tree import QuotaTree
from pools.domain.values.amounts import GPU
from tests.unit.quota.test_properties import trees
from tests.unit.quota.test_worked_examples import EXAMPLE_A, gpus, node

NUMBERS = {"subtree_quota", "usage", "t", "available", "potential_available", "borrowed", "lent", "lendable", "debt"}


def value_of(term):
    if term.least_of:
        assert {part.is_deciding for part in term.least_of} >= {True}
        least = min(value_of(part) for part in term.least_of)
        assert all(part.is_deciding == (part.amount == least) for part in term.least_of)
        assert term.amount == least
    if term.sum_of:
        assert term.amount == max(0, sum(part.sign * value_of(part) for part in term.sum_of))
    return term.amount


@given(trees())
def test_the_terms_add_up_to_the_number_on_the_page(drawn):
    tree, _leaves = drawn
    numbers = node_numbers(tree, GPU)
    for name in tree.names:
        explanations = {each.number: each for each in explain_node(tree, GPU, name)}
        assert set(explanations) == NUMBERS
        for number, each in explanations.items():
            assert each.amount == getattr(numbers[name], number)
            assert each.total == each.amount, (name, number)
            for term in each.terms:
                value_of(term)


@given(trees())
def test_a_term_that_names_a_number_of_another_node_has_its_amount(drawn):
    tree, _leaves = drawn
    numbers = node_numbers(tree, GPU)
    for name in tree.names:
        for each in explain_node(tree, GPU, name):
            for term in each.terms:
                if term.number in {"t", "borrowed", "lent"}:
                    assert term.amount == getattr(numbers[term.node], term.number)


def test_the_terms_of_the_worked_example():
    tree = QuotaTree(EXAMPLE_A, gpus(serve=18, train=9))
    explanations = {each.number: each for each in explain_node(tree, GPU, "serve")}
    (above,) = explanations["available"].terms
    assert (above.amount, above.node, above.number) == (10, "prod", "available")
    explanations = {each.number: each for each in explain_node(tree, GPU, "prod")}
    (above,) = explanations["available"].terms
    assert [(part.amount, part.node, part.is_deciding) for part in above.least_of] == [
        (11, "corp", False),
        (10, "prod", True),
    ]
    own, serve, batch = explanations["subtree_quota"].terms
    assert [(term.amount, term.node) for term in (own, serve, batch)] == [(6, "prod"), (10, "serve"), (4, "batch")]
    explanations = {each.number: each for each in explain_node(tree, GPU, "corp")}
    assert [(term.amount, term.text) for term in explanations["subtree_quota"].terms] == [
        (4, "nominal quota"),
        (20, "effective quota"),
        (5, "effective quota, capped by the lending limit"),
    ]


def test_lending_is_explained_by_the_borrowers():
    tree = QuotaTree([node("top", None, 1), node("a", "top", 4), node("b", "top", 0)], gpus(b=3))
    explanations = {each.number: each for each in explain_node(tree, GPU, "a")}
    (term,) = explanations["lent"].terms
    wanted, unused = term.least_of
    assert (wanted.amount, unused.amount, term.amount) == (2, 4, 2)
    assert [(part.amount, part.sign, part.node) for part in wanted.sum_of] == [(1, -1, "top"), (3, 1, "b")]


def test_on_a_cycle_of_parents_nothing_is_available():
    tree = QuotaTree([node("a", "b", 4), node("b", "a", 4)])
    explanations = {each.number: each for each in explain_node(tree, GPU, "a")}
    assert (explanations["available"].amount, explanations["available"].terms) == (0, ())


def test_the_weighted_share():
    tree = QuotaTree(EXAMPLE_A, gpus(serve=18))
    found = explain_share(tree, "serve")
    assert (found.borrowed, found.lendable, found.weight, found.parent) == (8, 28, 1, "prod")
    assert (found.reported, found.resource) == (286, "gpu")
    assert explain_share(tree, "corp").parent is None
