"""The numbers with everything below: they add up, and what may start is the most that starts at the same time."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from pools.domain.quota.explanations import explain_totals
from pools.domain.quota.node_numbers import node_numbers
from pools.domain.quota.node_totals import node_totals
from pools.domain.values.amounts import GPU, UNLIMITED
from tests.unit.quota.test_properties import trees


@given(trees())
def test_quota_and_use_add_up(drawn: Any) -> None:
    tree, _leaves = drawn
    totals, column = node_totals(tree, []), tree.columns[GPU]
    for x, name in enumerate(tree.names):
        below = [totals[tree.names[child]] for child, parent in enumerate(tree.parents) if parent == x]
        assert totals[name].total_usage == column.own[x] + sum(each.total_usage for each in below)
        assert totals[name].quota == column.nominal[x] + sum(each.quota for each in below)


@given(trees())
def test_low_work_starts_no_more_and_no_less(drawn: Any) -> None:
    """Whatever the order in which leaves take all that is available, the same amount starts below the top."""
    tree, _leaves = drawn
    totals, column = node_totals(tree, []), tree.columns[GPU]
    parents = set(tree.parents)
    leaves = [x for x in range(len(tree.names)) if x not in parents and tree.is_active(tree.names[x])]
    started = 0
    for x in leaves:
        room = max(0, column.available(x))
        if room == UNLIMITED:
            return
        column.reserve(x, room)
        started += room
    tops = [name for x, name in enumerate(tree.names) if tree.parents[x] < 0 and tree.is_active(name)]
    assert sum(totals[name].low_can_start_now for name in tops) == started


@given(trees())
def test_the_terms_add_up(drawn: Any) -> None:
    tree, _leaves = drawn
    totals, numbers = node_totals(tree, []), node_numbers(tree, GPU)
    for name in tree.names:
        for each in explain_totals(tree, GPU, name, totals):
            if each.terms:
                assert each.total == each.amount == getattr(totals[name], each.number), (name, each.number)
        assert totals[name].can_start_now <= totals[name].low_can_start_now
        assert totals[name].low_can_start_now >= numbers[name].available or tree.parents.count(tree.index[name])
