"""The four parts of a usage bar: what the eye sees of a quota (design §1; issue 2, "Browser").

All amounts are whole GPUs. `inside` is use that the quota covers; `free` what it promises and nobody uses; `over` LOW
work beyond the quota, which may be taken back; `draining` use that stays although its promise is gone: HIGH/NORMAL work
above a quota that was cut, and everything on a slice that is being deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pools.domain.lifecycle import SubpoolState
from pools.domain.quota.pool_balance import UNLIMITED, PoolBalance, Slice, Usage


@dataclass(frozen=True, slots=True)
class Parts:
    """One bar. The parts add up to its length: the larger of quota and use."""

    inside: int = 0
    free: int = 0
    over: int = 0
    draining: int = 0

    @property
    def length(self) -> int:
        """What the whole bar stands for."""
        return self.inside + self.free + self.over + self.draining


def leaf_parts(quota: int, usage: Usage, *, deleting: bool = False) -> Parts:
    """The bar of one leaf: a slice, or the unallocated part of a pool. Without a limit nothing is over and nothing
    free."""
    if deleting:
        return Parts(draining=usage.total_usage)
    if quota == UNLIMITED:
        return Parts(inside=usage.total_usage)
    draining = max(0, usage.used - quota)
    over = max(0, usage.total_usage - max(quota, usage.used))
    inside = usage.total_usage - over - draining
    return Parts(inside=inside, free=max(0, quota - inside), over=over, draining=draining)


def slice_parts(part: Slice) -> Parts:
    """The bar of a slice in whatever state."""
    return leaf_parts(part.quota, part.usage, deleting=part.state is SubpoolState.DELETING)


def pool_parts(balance: PoolBalance) -> Parts:
    """The bar of a whole pool. Free is what its guarantee leaves over after all use, so a slice that drains or borrows
    is seen to eat into what the others were promised."""
    leaves = [leaf_parts(balance.unallocated, balance.shared_usage), *(slice_parts(part) for part in balance.slices)]
    total = added(leaves)
    free = 0 if balance.is_unlimited else max(0, balance.guarantee - balance.total_usage)
    return Parts(inside=total.inside, free=free, over=total.over, draining=total.draining)


def added(parts: Iterable[Parts]) -> Parts:
    """Several bars as one."""
    inside = free = over = draining = 0
    for part in parts:
        inside += part.inside
        free += part.free
        over += part.over
        draining += part.draining
    return Parts(inside, free, over, draining)
