"""The five parts of a usage bar, by examples and by properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pools.domain.quota.pool_balance import PoolBalance, Subpool, UsageCounts
from pools.domain.quota.usage_bar import UsageBar, leaf_bar, pool_bar, subpool_bar, sum_bars
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import UNLIMITED

AMOUNT = st.integers(0, 10_000)


@pytest.mark.parametrize(
    ("quota", "used", "total", "parts"),
    [
        (10, 0, 0, UsageBar(free=10)),
        (10, 4, 4, UsageBar(guaranteed=4, free=6)),
        (2, 0, 2, UsageBar(low_inside=2)),
        (10, 4, 7, UsageBar(guaranteed=4, low_inside=3, free=3)),  # LOW work inside the quota uses no quota of others
        (10, 4, 15, UsageBar(guaranteed=4, low_inside=6, over_quota=5)),
        (10, 15, 15, UsageBar(guaranteed=10, draining=5)),
        (10, 15, 18, UsageBar(guaranteed=10, over_quota=3, draining=5)),
        (0, 0, 0, UsageBar()),
        (UNLIMITED, 5, 9, UsageBar(guaranteed=5, low_inside=4)),
    ],
)
def test_a_leaf(quota: int, used: int, total: int, parts: UsageBar) -> None:
    assert leaf_bar(quota, UsageCounts(used, total)) == parts


def test_all_use_of_a_deleted_subpool_is_draining() -> None:
    subpool = Subpool("c", SubpoolState.DELETING, 20, UsageCounts(used=5, total_usage=8))
    assert subpool_bar(subpool) == UsageBar(draining=8)


def test_the_example_of_the_design() -> None:
    """The pool `team` of the published `pool list`: 40 GPUs of the pool's own work have to drain."""
    subpools = tuple(
        Subpool(name, SubpoolState.ACTIVE, quota, UsageCounts(used, used))
        for name, quota, used in (("a", 30, 5), ("b", 40, 10), ("c", 20, 0))
    )
    balance = PoolBalance("team", 100, UNLIMITED, subpools, UsageCounts(50, 50))
    assert pool_bar(balance) == UsageBar(guaranteed=25, free=35, draining=40)


@given(quota=AMOUNT, used=AMOUNT, low=AMOUNT)
def test_the_parts_of_a_leaf_add_up(quota: int, used: int, low: int) -> None:
    parts = leaf_bar(quota, UsageCounts(used, used + low))
    assert min(parts.guaranteed, parts.low_inside, parts.free, parts.over_quota, parts.draining) >= 0
    assert parts.guaranteed + parts.draining == used
    assert parts.low_inside + parts.over_quota == low
    assert parts.low_inside + parts.free - parts.draining == quota - used or parts.over_quota
    assert parts.length == max(quota, used + low)


@given(st.lists(st.builds(UsageBar, AMOUNT, AMOUNT, AMOUNT, AMOUNT, AMOUNT)))
def test_adding_bars_loses_nothing(bars: list[UsageBar]) -> None:
    assert sum_bars(bars).length == sum(bar.length for bar in bars)
