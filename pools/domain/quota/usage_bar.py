"""The five parts of a usage bar (docs/glossary.md).

All amounts are whole GPUs. `guaranteed` is HIGH and NORMAL work that the quota covers; `low_inside` is LOW work inside
the quota, which yields to guaranteed work of its own leaf; `free` is unused quota; `over_quota` is LOW work beyond the
quota, which may be reclaimed; `draining` is usage whose quota is gone: HIGH and NORMAL work above a reduced quota, and
all work on a subpool that is being deleted.

The parts agree with the numbers next to them: on an ACTIVE leaf *guaranteed in use* is `guaranteed + draining` and
*total in use* is all but `free`; without use over the quota *guaranteed free* is `low_inside + free`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pools.domain.quota.pool_balance import PoolBalance, Subpool, UsageCounts
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import UNLIMITED, Gpus


@dataclass(frozen=True, slots=True)
class UsageBar:
    """One bar. The parts add up to its length: the larger of quota and usage."""

    guaranteed: int = 0
    low_inside: int = 0
    free: int = 0
    over_quota: int = 0
    draining: int = 0

    @property
    def length(self) -> int:
        """The sum of the parts."""
        return self.guaranteed + self.low_inside + self.free + self.over_quota + self.draining


def leaf_bar(quota: Gpus, usage: UsageCounts, *, is_deleting: bool = False) -> UsageBar:
    """The bar of one leaf: a subpool, or the unallocated part of a pool. An unlimited quota has no part over quota and
    no free part."""
    if is_deleting:
        return UsageBar(draining=usage.total_usage)
    if quota == UNLIMITED:
        return UsageBar(guaranteed=usage.used, low_inside=usage.total_usage - usage.used)
    limit = int(quota)
    over = max(0, usage.total_usage - max(limit, usage.used))
    return UsageBar(
        guaranteed=min(usage.used, limit),
        low_inside=usage.total_usage - usage.used - over,
        free=max(0, limit - usage.total_usage),
        over_quota=over,
        draining=max(0, usage.used - limit),
    )


def subpool_bar(part: Subpool) -> UsageBar:
    """The bar of a subpool in any state."""
    return leaf_bar(part.quota, part.usage, is_deleting=part.state is SubpoolState.DELETING)


def pool_bar(balance: PoolBalance) -> UsageBar:
    """The bar of a whole pool. Its free part is the guarantee minus all usage, so a subpool that drains or borrows
    visibly uses quota of the others."""
    leaves = [leaf_bar(balance.unallocated, balance.shared_usage), *(subpool_bar(part) for part in balance.subpools)]
    total = sum_bars(leaves)
    free = 0 if balance.is_unlimited else max(0, int(balance.guarantee) - balance.total_usage)
    return replace(total, free=free)


def sum_bars(parts: Iterable[UsageBar]) -> UsageBar:
    """The sum of several bars."""
    guaranteed = low = free = over = draining = 0
    for part in parts:
        guaranteed += part.guaranteed
        low += part.low_inside
        free += part.free
        over += part.over_quota
        draining += part.draining
    return UsageBar(guaranteed, low, free, over, draining)
