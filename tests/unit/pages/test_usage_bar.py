"""The four parts of a bar, by cases and by laws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pools.domain.lifecycle import SubpoolState
from pools.domain.quota.pool_balance import UNLIMITED, PoolBalance, Slice, Usage
from pools.domain.quota.usage_bar import Parts, added, leaf_parts, pool_parts, slice_parts

AMOUNT = st.integers(0, 10_000)


@pytest.mark.parametrize(
    ("quota", "used", "total", "parts"),
    [
        (10, 0, 0, Parts(free=10)),
        (10, 4, 4, Parts(inside=4, free=6)),
        (10, 4, 7, Parts(inside=7, free=3)),  # LOW work inside the quota takes nobody's place
        (10, 4, 15, Parts(inside=10, over=5)),
        (10, 15, 15, Parts(inside=10, draining=5)),
        (10, 15, 18, Parts(inside=10, over=3, draining=5)),
        (0, 0, 0, Parts()),
        (UNLIMITED, 5, 9, Parts(inside=9)),
    ],
)
def test_a_leaf(quota: int, used: int, total: int, parts: Parts) -> None:
    assert leaf_parts(quota, Usage(used, total)) == parts


def test_all_that_a_deleted_slice_holds_is_draining() -> None:
    part = Slice("c", SubpoolState.DELETING, 20, Usage(used=5, total_usage=8))
    assert slice_parts(part) == Parts(draining=8)


def test_the_example_of_the_design() -> None:
    """The pool `team` of the seed: 40 GPUs of direct work have still to drain."""
    slices = tuple(
        Slice(name, SubpoolState.ACTIVE, quota, Usage(used, used))
        for name, quota, used in (("a", 30, 5), ("b", 40, 10), ("c", 20, 0))
    )
    balance = PoolBalance("team", 100, UNLIMITED, slices, Usage(50, 50))
    assert pool_parts(balance) == Parts(inside=25, free=35, draining=40)


@given(quota=AMOUNT, used=AMOUNT, low=AMOUNT)
def test_the_parts_of_a_leaf_add_up(quota: int, used: int, low: int) -> None:
    parts = leaf_parts(quota, Usage(used, used + low))
    assert min(parts.inside, parts.free, parts.over, parts.draining) >= 0
    assert parts.inside + parts.over + parts.draining == used + low
    assert parts.length == max(quota, used + low)


@given(st.lists(st.builds(Parts, AMOUNT, AMOUNT, AMOUNT, AMOUNT)))
def test_adding_bars_loses_nothing(bars: list[Parts]) -> None:
    assert added(bars).length == sum(bar.length for bar in bars)
