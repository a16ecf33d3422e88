"""Which changes of quotas need an approval."""

from __future__ import annotations

import pytest

from pools.domain.approvals import changes_above, loosens_limit, pool_changes_above, subpool_amounts
from pools.domain.configuration.pool_config import PoolSettings, parse_pool
from pools.domain.configuration.pool_flavors import FlavorsAsked
from pools.domain.values.amounts import UNLIMITED


def _pool(**columns: object) -> PoolSettings:
    return PoolSettings(**{"backend": "sim", "guarantee": 100, "maximum": 200, **columns})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        (_pool(), _pool(guarantee=110), []),
        (_pool(), _pool(guarantee=111), ["guarantee"]),
        (_pool(), _pool(guarantee=89), ["guarantee"]),
        (_pool(), _pool(maximum=211), ["maximum"]),
        (_pool(), _pool(maximum=-1), ["maximum"]),
        (_pool(maximum=None), _pool(maximum=-1), []),
        (_pool(), _pool(cohort="org", borrowing_limit=10, lending_limit=10), []),
        (_pool(), _pool(cohort="org", borrowing_limit=11, lending_limit=0), ["borrowing limit"]),
        (_pool(), _pool(cohort="org"), ["borrowing limit", "lending limit"]),
        (_pool(cohort="org", borrowing_limit=5), _pool(cohort="other", borrowing_limit=5), ["lending limit"]),
        (
            _pool(cohort="org", borrowing_limit=11, lending_limit=10),
            _pool(cohort="other", borrowing_limit=3, lending_limit=10),
            ["borrowing limit"],
        ),
        (_pool(), _pool(backend="other"), ["guarantee", "maximum"]),
        (_pool(guarantee=10), _pool(guarantee=10, backend="other"), ["maximum"]),
        (_pool(), _pool(weight=50, description="new"), []),
        (None, _pool(guarantee=10, maximum=10), []),
        (None, _pool(guarantee=11, maximum=11), ["guarantee", "maximum"]),
        (_pool(), None, ["guarantee", "maximum"]),
    ],
)
def test_amounts_of_a_pool(before: PoolSettings | None, after: PoolSettings | None, changed: list[str]) -> None:
    found = pool_changes_above(before, after, 10)
    assert [each.name for each in found] == changed


def test_a_temporary_quota_that_becomes_lasting_is_a_change() -> None:
    (found,) = changes_above(subpool_amounts(FlavorsAsked(50), FlavorsAsked(10)), subpool_amounts(FlavorsAsked(50)), 10)
    assert found.as_dict() == {"amount": "lasting quota", "before": 10, "after": 50, "change": 40}


def test_an_amount_that_moves_says_between_what() -> None:
    (found,) = pool_changes_above(
        _pool(cohort="org", borrowing_limit=0, lending_limit=20),
        _pool(cohort="lab", borrowing_limit=0, lending_limit=25),
        10,
    )
    assert found.as_dict() == {
        "amount": "lending limit", "before": 20, "after": 25, "change": 25,
        "before_in": "cohort org", "after_in": "cohort lab",
    }  # fmt: skip


def test_between_a_number_and_unlimited_lies_more_than_any_limit() -> None:
    (found,) = changes_above({"guarantee": 5}, {"guarantee": UNLIMITED}, 10**9)
    assert found.as_dict() == {"amount": "guarantee", "before": 5, "after": -1, "change": -1}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(10, 11, True), (10, None, True), (0, 1, True), (10, 9, False), (10, 10, False), (None, 5, False)],
)
def test_only_a_looser_limit_needs_an_approval(before: int | None, after: int | None, expected: bool) -> None:
    assert loosens_limit(before, after) is expected


@pytest.mark.parametrize(("given", "stored"), [(None, None), (0, 0), (8, 8)])
def test_a_limit_of_0_is_kept(given: int | None, stored: int | None) -> None:
    settings, faults = parse_pool({"backend": "sim", "approval_above": given})
    assert (settings.config.get("approval_above"), faults) == (stored, [])


@pytest.mark.parametrize("given", [-1, 1.5, "many", True])
def test_a_limit_is_a_number_of_gpus(given: object) -> None:
    _, (fault,) = parse_pool({"backend": "sim", "approval_above": given})
    assert fault.path == "approval_above"
