"""The balance of a pool, flavor by flavor."""

from __future__ import annotations

from pools.domain.quota.pool_balance import FlavorQuota, PoolBalance, Subpool, UsageCounts, split_by_flavor
from pools.domain.quota.stored_quotas import flavor_quotas, gpus_by_flavor
from pools.domain.quota.tree import NodeQuota
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import UNLIMITED

ROWS = [
    {"flavor": "h100", "quota": 16, "maximum": 24, "borrowing_limit": 4},
    {"flavor": "a100", "quota": 48, "lending_limit": 0},
]


def _part(name: str, state: SubpoolState = SubpoolState.ACTIVE, *, after: int | None = None, **gpus: int) -> Subpool:
    quotas_after = {} if after is None else {"h100": after}
    return Subpool(name, state, sum(gpus.values()), quota_after=after, last_quotas=gpus, quotas_after=quotas_after)


def _split(*parts: Subpool, usage: dict[tuple[str | None, str], UsageCounts] | None = None) -> PoolBalance:
    return split_by_flavor(PoolBalance("team", 64, UNLIMITED, parts), flavor_quotas(ROWS), usage or {})


def test_the_rows_are_read() -> None:
    assert flavor_quotas(ROWS) == (
        FlavorQuota("h100", 16, maximum=24, limits=NodeQuota(0, borrowing_limit=4)),
        FlavorQuota("a100", 48, limits=NodeQuota(0, lending_limit=0)),
    )
    assert gpus_by_flavor(ROWS) == {"h100": 16, "a100": 48}


def test_a_pool_without_flavors_has_no_kinds() -> None:
    balance = PoolBalance("team", 64, UNLIMITED, ())
    assert split_by_flavor(balance, (), {}) is balance
    assert balance.kinds == {}


def test_shared_and_active_subpools_are_the_quota_of_each_flavor() -> None:
    balance = _split(_part("a", h100=4, a100=8), _part("b", SubpoolState.ARCHIVED, a100=40), _part("c", h100=12))
    assert list(balance.kinds) == ["h100", "a100"]
    numbers = {name: (kind.guarantee, kind.maximum, kind.unallocated) for name, kind in balance.kinds.items()}
    assert numbers == {"h100": (16, 24, 0), "a100": (48, UNLIMITED, 40)}
    assert sum(kind.unallocated for kind in balance.kinds.values()) == balance.unallocated == 40
    assert [part.quota for part in balance.kinds["h100"].subpools] == [4, 0, 12]


def test_usage_and_temporary_quotas_are_of_their_flavor() -> None:
    usage = {("a", "h100"): UsageCounts(2, 3, 1, 2), (None, "a100"): UsageCounts(5, 5, 1, 5)}
    balance = _split(_part("a", after=3, h100=4, a100=8), usage=usage)
    (h100,), (a100,) = (kind.subpools for kind in balance.kinds.values())
    assert (h100.usage.used, h100.available, h100.quota_after) == (2, 2, 3)
    assert (a100.usage.used, a100.quota_after) == (0, 0)
    assert balance.kinds["a100"].shared_available == 35


def test_a_draining_subpool_keeps_what_its_work_needs_of_each_flavor() -> None:
    draining = _part("a", SubpoolState.DELETING, h100=8, a100=8)
    balance = _split(draining, usage={("a", "h100"): UsageCounts(6, 6, 1, 6)})
    h100, a100 = balance.kinds.values()
    assert (h100.subpools[0].scheduling_quota, h100.shared_scheduling_quota) == (6, 10)
    assert (a100.subpools[0].scheduling_quota, a100.shared_scheduling_quota) == (0, 48)


def test_a_flavor_that_is_only_left_over_comes_last_without_quota() -> None:
    balance = _split(_part("a", SubpoolState.DELETING, l40=8), usage={(None, "default"): UsageCounts(0, 2, 1, 0)})
    assert [(name, kind.guarantee) for name, kind in balance.kinds.items()] == [
        ("h100", 16),
        ("a100", 48),
        ("default", 0),
        ("l40", 0),
    ]
