"""The arithmetic of a pool and its subpools (design, D4, D7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pools.domain.errors import Violation
from pools.domain.quota.pool_balance import (
    ParsedQuota,
    PoolBalance,
    Subpool,
    UsageCounts,
    guarantee_violation,
    parse_quota,
    subpool_quota_violation,
)
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import UNLIMITED

ACTIVE, DELETING, ARCHIVED = SubpoolState


NOTHING = UsageCounts()


def pool(guarantee: int, *subpools: Subpool, shared: UsageCounts = NOTHING) -> PoolBalance:
    return PoolBalance("team", guarantee, UNLIMITED, subpools, shared)


@pytest.mark.parametrize(
    ("value", "gpus", "warns"),
    [(30, 30, False), ("30", 30, False), (0, 0, False), (12.9, 12, True), ("12.9", 12, True), ("25%", 25, False),
     ("12.5%", 12, True), ("100%", 100, False), (12.0, 12, False), (" 7 ", 7, False), ("1e1", 10, False)],
)  # fmt: skip
def test_quotas_are_whole_gpus_floored(value: object, gpus: int, warns: bool) -> None:
    parsed = parse_quota(value, parent=100)
    assert isinstance(parsed, ParsedQuota)
    assert parsed.gpus == gpus
    assert (parsed.warning is not None) is warns


@pytest.mark.parametrize(
    ("value", "code"),
    [(-1, "negative_quota"), ("-5%", "negative_quota"), (-0.1, "negative_quota"), ("x", "bad_quota"), ("", "bad_quota"),
     (True, "bad_quota"), (None, "bad_quota"), ([30], "bad_quota"), ("nan", "bad_quota"), (float("inf"), "bad_quota"),
     ("1" * 50, "bad_quota"), (10**12, "quota_too_large"), ("1_0", "bad_quota"), ("\u0662\u0665%", "bad_quota"),
     ("1e-900000%", "bad_quota"), ("1e-900000", "bad_quota"), (5e-324, "bad_quota")],
)  # fmt: skip
def test_an_invalid_quota_is_refused_with_a_message(value: object, code: str) -> None:
    found = parse_quota(value, parent=100)
    assert isinstance(found, Violation)
    assert found.code == code
    assert found.message


def test_a_share_of_nothing_finite_is_refused() -> None:
    found = parse_quota("25%", parent=UNLIMITED)
    assert isinstance(found, Violation)
    assert found.code == "no_guarantee"


def test_the_seeds_pool() -> None:
    facts = pool(
        100,
        Subpool("a", ACTIVE, 30, UsageCounts(5, 5, 1, 5)),
        Subpool("b", ACTIVE, 40, UsageCounts(10, 10, 1, 10)),
        Subpool("c", ACTIVE, 20),
        shared=UsageCounts(50, 50, 3, 50),
    )
    assert facts.unallocated == 10
    assert facts.shared_available == -40
    assert [part.available for part in facts.subpools] == [25, 30, 20]
    assert facts.scheduling_quota == 100


def test_a_subpool_shows_what_has_to_drain() -> None:
    """After its deletion, or a quota below what runs, `available` is below zero."""
    held = UsageCounts(8, 8, 1, 8)
    assert [Subpool("a", DELETING, 30, held).available, Subpool("b", ACTIVE, 5, held).available] == [-8, -3]


@pytest.mark.parametrize(
    ("facts", "subpools", "shared", "container"),
    [
        pytest.param(
            pool(100, Subpool("a", DELETING, 30, UsageCounts(8, 8, 1, 20))), [20], 80, 100, id="keeps what it needs"
        ),
        pytest.param(
            pool(100, Subpool("a", DELETING, 30, UsageCounts(8, 8, 3, 50))), [30], 70, 100, id="no more than it had"
        ),
        pytest.param(
            pool(100, Subpool("a", DELETING, 30, UsageCounts(20, 20, 1, 20)), Subpool("b", ACTIVE, 100)),
            [20, 100],
            0,
            120,
            id="promised again meanwhile",
        ),
        pytest.param(
            pool(10, Subpool("a", DELETING, 30, UsageCounts(20, 20, 1, 20))), [20], 0, 20, id="the pool was cut"
        ),
        pytest.param(pool(100, Subpool("a", ARCHIVED, 30)), [0], 100, 100, id="archived holds nothing"),
    ],
)
def test_the_quotas_for_the_scheduler(facts: PoolBalance, subpools: list[int], shared: int, container: int) -> None:
    assert [part.scheduling_quota for part in facts.subpools] == subpools
    assert facts.shared_scheduling_quota == shared
    assert facts.scheduling_quota == container


@pytest.mark.parametrize(
    ("quota", "refused"), [(70, False), (71, True), (0, False)], ids=["all that is free", "one more", "nothing"]
)
def test_a_subpool_gets_at_most_the_unallocated_quota(quota: int, refused: bool) -> None:
    facts = pool(100, Subpool("a", ACTIVE, 30), Subpool("gone", DELETING, 50))
    assert (subpool_quota_violation(facts, name="b", quota=quota) is not None) is refused


def test_a_subpools_own_quota_is_free_for_itself() -> None:
    facts = pool(100, Subpool("a", ACTIVE, 30), Subpool("b", ACTIVE, 40))
    assert subpool_quota_violation(facts, name="b", quota=70) is None
    assert subpool_quota_violation(facts, name="b", quota=71) is not None


@pytest.mark.parametrize(
    ("guarantee", "code"), [(70, None), (69, "guarantee_below_slices"), (UNLIMITED, "no_guarantee")]
)
def test_a_guarantee_is_never_below_its_subpools(guarantee: int, code: str | None) -> None:
    found = guarantee_violation(pool(100, Subpool("a", ACTIVE, 30), Subpool("b", ACTIVE, 40)), guarantee)
    assert (found.code if found else None) == code


usages = st.builds(
    lambda used, more, need: UsageCounts(used, used + more, 1, max(used, need)), *[st.integers(0, 40)] * 3
)
subpools = st.lists(
    st.builds(Subpool, st.sampled_from("abcdefg"), st.sampled_from(SubpoolState), st.integers(0, 40), usages),
    max_size=6,
    unique_by=lambda part: part.name,
)


@given(subpools, st.integers(0, 300))
def test_the_leaves_never_exceed_their_container(parts: list[Subpool], extra: int) -> None:
    promised = sum(part.quota for part in parts)
    facts = pool(promised + extra, *parts)
    leaves = facts.shared_scheduling_quota + sum(part.scheduling_quota for part in facts.subpools)
    assert facts.unallocated + promised == facts.guarantee
    assert leaves <= facts.scheduling_quota
    assert facts.shared_scheduling_quota >= 0
