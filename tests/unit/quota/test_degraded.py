"""The promises that a cluster with too few GPUs holds."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pools.domain.quota.degraded import DegradedRule, Promise, hold_promises

NAMES = st.lists(st.sampled_from([f"pool-{n}" for n in range(12)]), unique=True, min_size=0, max_size=12)
RULES = st.sampled_from(list(DegradedRule))


@st.composite
def promises(draw: st.DrawFn) -> list[Promise]:
    quota, weight = st.integers(0, 500), st.sampled_from([0, 0.5, 1, 1, 2])
    return [Promise(name, draw(quota), draw(weight)) for name in draw(NAMES)]


@given(promises(), st.integers(-3, 4000), RULES)
def test_what_is_held_is_what_there_is(given_: list[Promise], capacity: int, rule: DegradedRule) -> None:
    held = hold_promises(given_, capacity, rule)
    total = sum(each.quota for each in given_)
    assert [each.pool for each in held] == [each.pool for each in given_]
    assert sum(each.held for each in held) == min(total, max(0, capacity))
    assert all(0 <= each.held <= each.quota for each in held)
    assert sum(each.missing for each in held) == max(0, total - max(0, capacity))


@given(promises(), st.integers(0, 4000), RULES, st.randoms())
def test_the_order_of_the_pools_decides_nothing(
    given_: list[Promise], capacity: int, rule: DegradedRule, chance: Random
) -> None:
    mixed = list(given_)
    chance.shuffle(mixed)
    assert set(hold_promises(given_, capacity, rule)) == set(hold_promises(mixed, capacity, rule))


@given(promises(), st.integers(0, 4000))
def test_in_proportion_nobody_is_a_gpu_from_their_part(given_: list[Promise], capacity: int) -> None:
    total = sum(each.quota for each in given_)
    for each in hold_promises(given_, capacity, DegradedRule.PROPORTIONAL):
        assert abs(each.held * total - min(capacity, total) * each.quota) < max(total, 1)


@given(promises(), st.integers(0, 4000))
def test_in_order_at_most_one_pool_has_a_part(given_: list[Promise], capacity: int) -> None:
    held = {each.pool: each for each in hold_promises(given_, capacity, DegradedRule.ORDERED)}
    ranked = [held[each.pool] for each in sorted(given_, key=lambda each: (-each.weight, each.pool)) if each.quota]
    missing = [each.missing > 0 for each in ranked]
    assert missing == sorted(missing), "after one that misses GPUs nobody has any"
    assert sum(0 < each.held < each.quota for each in ranked) <= 1


@pytest.mark.parametrize(("rule", "held"), [(DegradedRule.PROPORTIONAL, [11, 6, 6]), (DegradedRule.ORDERED, [7, 8, 8])])
def test_an_example(rule: DegradedRule, held: list[int]) -> None:
    """23 GPUs for 32: vision has 16, speech 8 with twice the weight, and language 8."""
    pools = [Promise("vision", 16), Promise("speech", 8, 2), Promise("language", 8)]
    assert [each.held for each in hold_promises(pools, 23, rule)] == held
