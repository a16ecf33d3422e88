"""Rows of pools and subpools as the facts of :mod:`pools.domain.quota.pool_balance`."""

from __future__ import annotations

from collections.abc import Iterable

from pools.domain.quota.pool_balance import PoolBalance, Subpool, UsageCounts
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import LeafUsage, Pool


def read_balances(roots: Iterable[Pool]) -> dict[int, PoolBalance]:
    """The balance of each tree by the id of its top-level pool; two queries however many there are."""
    wanted = {root.pk: root for root in roots}
    subpools: dict[int, list[Subpool]] = {pk: [] for pk in wanted}
    usage = {row.pool_id: row.as_usage() for row in LeafUsage.objects.filter(pool__in=wanted)}
    rows = Pool.objects.filter(parent__in=wanted).select_related("usage").order_by("subpool_name")
    for row in rows:
        assert row.parent_id is not None
        subpools[row.parent_id].append(subpool_from_row(row))
    return {
        pk: PoolBalance(
            root.name,
            root.effective_guarantee,
            root.effective_maximum,
            tuple(subpools[pk]),
            usage.get(pk, UsageCounts()),
        )
        for pk, root in wanted.items()
    }


def read_balance(root: Pool) -> PoolBalance:
    """The balance of one tree."""
    return read_balances([root])[root.pk]


def subpool_from_row(row: Pool) -> Subpool:
    """The facts of a subpool from its row and its usage."""
    assert row.subpool_name
    assert row.subpool_state
    assert row.last_quota is not None
    return Subpool(
        row.subpool_name,
        SubpoolState(row.subpool_state),
        row.last_quota,
        row.usage.as_usage(),
        row.quota_until,
        row.quota_after,
    )
