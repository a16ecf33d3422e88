"""Rows of pools and subpools as the facts of :mod:`pools.domain.quota.pool_balance`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from django.db.models import Q

from pools.domain.quota.pool_balance import PoolBalance, Subpool, UsageCounts, split_by_flavor
from pools.domain.quota.stored_quotas import flavor_quotas, gpus_by_flavor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import FlavorUsage, LeafUsage, Pool

_SUBPOOL_COLUMNS = (
    "parent", "subpool_name", "subpool_state", "last_quota", "quota_until", "quota_after", "flavors",
    "flavors_after", "usage__used", "usage__total_usage", "usage__live_workflows", "usage__committed",
)  # fmt: skip


def read_balances(roots: Iterable[Pool]) -> dict[int, PoolBalance]:
    """The balance of each tree by the id of its top-level pool; two queries however many there are."""
    wanted = {root.pk: root for root in roots}
    subpools: dict[int, list[Subpool]] = {pk: [] for pk in wanted}
    held = LeafUsage.objects.filter(pool__in=wanted).annotate(is_online=Q(pool__backend__offline=False))
    usage = {row.pool_id: row for row in held}
    # Plain values: of a large installation there are twenty thousand.
    rows = Pool.objects.filter(parent__in=wanted).order_by("subpool_name").values_list(*_SUBPOOL_COLUMNS)
    for parent, name, state, last_quota, until, quota_after, flavors, flavors_after, *counts in rows:
        part = Subpool(
            name, SubpoolState(state), last_quota, UsageCounts(*counts), until, quota_after,
            gpus_by_flavor(flavors), gpus_by_flavor(flavors_after),
        )  # fmt: skip
        subpools[parent].append(part)
    by_flavor = _read_usage_by_flavor(root for root in wanted.values() if root.flavors)
    return {
        pk: split_by_flavor(
            PoolBalance(
                root.name,
                root.effective_guarantee,
                root.effective_maximum,
                tuple(subpools[pk]),
                usage[pk].as_usage() if pk in usage else UsageCounts(),
                root.takes_no_work or not getattr(usage.get(pk), "is_online", True),
            ),
            flavor_quotas(root.flavors),
            by_flavor[pk],
        )
        for pk, root in wanted.items()
    }


def _read_usage_by_flavor(roots: Iterable[Pool]) -> Mapping[int, dict[tuple[str | None, str], UsageCounts]]:
    """The usage of the leaves of these trees by short name (None: the shared leaf) and flavor; no query without a
    tree."""
    ids = [root.pk for root in roots]
    found: dict[int, dict[tuple[str | None, str], UsageCounts]] = defaultdict(dict)
    if ids:
        rows = FlavorUsage.objects.filter(Q(pool__in=ids) | Q(pool__parent__in=ids))
        columns = ("pool", "pool__parent", "pool__subpool_name", "flavor", "used", "total_usage", "committed")
        for pool, parent, name, flavor, used, total, committed in rows.values_list(*columns):
            found[parent or pool][name, flavor] = UsageCounts(used, total, committed=committed)
    return found


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
        gpus_by_flavor(row.flavors),
        gpus_by_flavor(row.flavors_after),
    )
