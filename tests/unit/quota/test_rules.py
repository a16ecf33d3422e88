"""The rules for quotas, and the search for cycles before they are stored."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pools.domain.quota.rules import MAX_QUOTA_ROWS, QuotaRow, check_quota_rows, check_weight, find_closed_cycle


def row(nominal=4, borrow=None, lend=None, resource="gpu", at=0):
    return QuotaRow(f"quotas[{at}]", "default", resource, nominal, borrow, lend)


def codes(*rows, has_parent=True, is_pool=False):
    return [(v.path, v.code) for v in check_quota_rows(rows, has_parent=has_parent, is_pool=is_pool)]


@pytest.mark.parametrize(
    ("rows", "about", "expected"),
    [
        ([row(4, 2, 3)], {}, []),
        ([row(0, None, 5)], {}, []),
        ([row(4, None, 4)], {"is_pool": True}, []),
        ([row(4, None, 5)], {"is_pool": True}, [("quotas[0].lending_limit", "lending_above_nominal")]),
        ([row(4, 0)], {"has_parent": False}, [("quotas[0].borrowing_limit", "limit_without_parent")]),
        ([row(4, None, 0)], {"has_parent": False}, [("quotas[0].lending_limit", "limit_without_parent")]),
        (
            [row(-1, -2, -3)],
            {},
            [(f"quotas[0].{n}", "negative") for n in ("nominal", "borrowing_limit", "lending_limit")],
        ),
        ([row(), row(at=1)], {}, [("quotas[1]", "duplicate")]),
        ([row(), row(resource="cpu", at=1)], {}, []),
        (
            [row(-1, at=0), row(2, 1, at=1)],
            {"has_parent": False},
            [
                ("quotas[1]", "duplicate"),
                ("quotas[0].nominal", "negative"),
                ("quotas[1].borrowing_limit", "limit_without_parent"),
            ],
        ),
    ],
)
def test_rows(rows, about, expected):
    assert codes(*rows, **about) == expected


def test_the_number_of_rows_is_bounded():
    rows = [row(resource=f"r{i}", at=i) for i in range(MAX_QUOTA_ROWS)]
    assert codes(*rows) == []
    assert codes(*rows, row(resource="one", at=MAX_QUOTA_ROWS)) == [("quotas", "too_many")]


@pytest.mark.parametrize(
    ("weight", "good"), [(0, True), (1, True), (Fraction(1, 2), True), (-1, False), (Fraction(1, 10**10), False)]
)
def test_weight(weight, good):
    assert (check_weight(weight) == []) is good


def test_the_whole_cycle_is_named():
    parents = {"a": "b", "b": "c", "c": None, "x": "a", "p": "q", "q": "p"}
    assert find_closed_cycle(parents, "c", "a") == ["c", "a", "b"]
    assert find_closed_cycle(parents, "c", "c") == ["c"]
    assert find_closed_cycle(parents, "c", "x") == ["c", "x", "a", "b"]
    assert find_closed_cycle(parents, "x", "b") == []
    assert find_closed_cycle(parents, "x", None) == []
    assert find_closed_cycle(parents, "x", "p") == []
    assert find_closed_cycle(parents, "new", "implicit") == []


@given(
    st.dictionaries(st.integers(0, 6), st.none() | st.integers(0, 6)), st.integers(0, 6), st.none() | st.integers(0, 6)
)
def test_the_search_for_a_cycle_ends(parents, name, parent):
    circle = find_closed_cycle(parents, name, parent)
    if circle:
        after = {**parents, name: parent}
        assert [after[node] for node in circle] == [*circle[1:], circle[0]]
