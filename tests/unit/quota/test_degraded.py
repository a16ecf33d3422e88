"""The promises that a cluster with too few GPUs holds."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pools.domain.shortage.degraded import DegradedRule, Promise, hold_by_flavor, hold_promises

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


PLATFORMS = ("a", "b", "c")
GPUS = st.dictionaries(st.sampled_from(PLATFORMS), st.integers(0, 40), min_size=1)


@st.composite
def restricted(draw: st.DrawFn) -> list[Promise]:
    sets = st.frozensets(st.sampled_from([*PLATFORMS, "gone"]), min_size=1) | st.none()
    names = draw(st.lists(st.sampled_from("pqrst"), unique=True, max_size=5))
    return [Promise(n, draw(st.integers(0, 40)), draw(st.sampled_from([1, 1, 2])), draw(sets)) for n in names]


def is_possible(promises_: list[Promise], held: list[int], gpus: dict[str, int]) -> bool:
    """No set of pools holds more than all the platforms have that one of them may use."""
    usable = [set(gpus) if each.platforms is None else each.platforms & gpus.keys() for each in promises_]
    return all(
        sum(held[n] for n in some) <= sum(gpus[name] for name in set().union(*(usable[n] for n in some)))
        for size in range(len(held) + 1)
        for some in combinations(range(len(held)), size)
    )


@given(restricted(), GPUS, RULES)
def test_a_pool_has_only_gpus_of_its_platforms(given_: list[Promise], gpus: dict[str, int], rule: DegradedRule) -> None:
    held = [each.held for each in hold_promises(given_, gpus, rule)]
    assert all(0 <= part <= each.quota for part, each in zip(held, given_, strict=True))
    assert is_possible(given_, held, gpus)
    for n, each in enumerate(given_):
        if held[n] < each.quota:
            more = [part + (m == n) for m, part in enumerate(held)]
            assert not is_possible(given_, more, gpus), "nothing that somebody could have is left"


@given(restricted(), GPUS, RULES, st.randoms())
def test_nor_does_their_order_with_platforms(
    given_: list[Promise], gpus: dict[str, int], rule: DegradedRule, chance: Random
) -> None:
    mixed = list(given_)
    chance.shuffle(mixed)
    assert set(hold_promises(given_, gpus, rule)) == set(hold_promises(mixed, gpus, rule))


@given(promises(), st.integers(0, 4000), RULES)
def test_one_platform_of_all_is_one_capacity(given_: list[Promise], capacity: int, rule: DegradedRule) -> None:
    of_one = [Promise(each.pool, each.quota, each.weight, frozenset({"a"})) for each in given_]
    whole = hold_promises(given_, capacity, rule)
    assert hold_promises(of_one, {"a": capacity}, rule) == hold_promises(of_one, {"a": capacity, "b": 9}, rule) == whole


@pytest.mark.parametrize(
    ("rule", "held"), [(DegradedRule.PROPORTIONAL, [4, 4, 16, 6]), (DegradedRule.ORDERED, [0, 8, 16, 6])]
)
def test_an_example_with_platforms(rule: DegradedRule, held: list[int]) -> None:
    """8 of 16 GPUs are left for vision and speech, and nobody else is touched; `any` uses what is left of h100."""
    old, new = frozenset({"a100"}), frozenset({"h100"})
    pools = [
        Promise("vision", 8, 1, old), Promise("speech", 8, 2, old), Promise("language", 16, 1, new),
        Promise("any", 6, 1, old | new),
    ]  # fmt: skip
    assert [each.held for each in hold_promises(pools, {"a100": 8, "h100": 24}, rule)] == held


@given(promises(), promises(), st.integers(0, 2000), st.integers(0, 2000), RULES)
def test_each_flavor_is_shared_as_if_it_was_alone(
    first: list[Promise], second: list[Promise], gpus: int, others: int, rule: DegradedRule
) -> None:
    mixed = [replace(each, flavor="h100") for each in first] + [replace(each, flavor="a100") for each in second]
    held = hold_by_flavor(mixed, {"h100": {"p": gpus}, "a100": {"p": others}, "l40s": {"p": 9}}, rule)
    alone = (*hold_promises(first, gpus, rule), *hold_promises(second, others, rule))
    assert [(each.pool, each.quota, each.held) for each in held] == [
        (each.pool, each.quota, each.held) for each in alone
    ]
    assert [each.flavor for each in held] == [each.flavor for each in mixed]
