"""The parts of a usage bar (docs/numbers.md), the same on every page and in the client.

All amounts are whole GPUs. `guaranteed` is HIGH and NORMAL work that the quota covers; `low_inside` is LOW work inside
the quota, which yields to guaranteed work of its own leaf; `over_quota` is LOW work beyond the quota, which may be
reclaimed; `draining` is usage whose quota is gone: HIGH and NORMAL work above a reduced quota, and all work on a
subpool that is being deleted. Unused quota is `lent`, while others use it over their quotas, or `free`.

The parts agree with the numbers next to them: on an ACTIVE leaf *guaranteed in use* is `guaranteed + draining` and
*total in use* is all but `lent` and `free`; without use over the quota *guaranteed free* is `low_inside + lent + free`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, TypedDict

from pools.domain.numbers import USAGE_NUMBERS
from pools.domain.quota.pool_balance import PoolBalance, Subpool, UsageCounts
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import UNLIMITED, Amount, Gpus


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of every bar: its name in the style sheet, its word beside a number, and its meaning in a legend."""

    field: str
    key: str
    word: str
    legend: str
    sign: str


BAR_PARTS = (
    BarPart("guaranteed", "guaranteed", "guaranteed", "guaranteed: HIGH and NORMAL within the quota", "█"),
    BarPart("low_inside", "low", "LOW inside", USAGE_NUMBERS["low_inside_gpu_s"].label, "▓"),
    BarPart("over_quota", "over", "over quota", "over quota: borrowed, preemptible", "▒"),
    BarPart("draining", "draining", "draining", "draining", "×"),
    BarPart("lent", "lent", "lent out", "lent out", "░"),
    BarPart("free", "free", "free", "free", "·"),
)
"""In the order of the bar. `sign` draws the part in a terminal."""


class UsageBarAnswer(TypedDict):
    """The parts of a bar in whole GPUs. All but `lent` and `free` are the total in use; both are unused quota."""

    guaranteed: Annotated[int, "HIGH and NORMAL work that the quota covers."]
    low_inside: Annotated[int, "LOW work inside the quota."]
    free: Annotated[int, "Unused quota that nobody has borrowed."]
    over_quota: Annotated[int, "LOW work beyond the quota."]
    draining: Annotated[int, "Use whose quota is gone."]
    lent: Annotated[int, "Unused quota that others use."]


@dataclass(frozen=True, slots=True)
class FlavorUse:
    """All work in one flavor of a node, and its quota of it: what a bar of sums does not tell. The numbers of a flavor
    that `is_of_parts` are parts of GPUs."""

    flavor: str
    used: int
    quota: Amount
    is_of_parts: bool = False

    @property
    def is_full(self) -> bool:
        """Whether nothing of the quota is idle."""
        return self.used >= self.quota


@dataclass(frozen=True, slots=True)
class UsageBar:
    """One bar. The parts add up to its length: the larger of quota and usage."""

    guaranteed: int = 0
    low_inside: int = 0
    free: int = 0
    over_quota: int = 0
    draining: int = 0
    lent: int = 0

    @property
    def length(self) -> int:
        """The sum of the parts."""
        return self.in_use + self.lent + self.free

    @property
    def in_use(self) -> int:
        """The total in use."""
        return self.guaranteed + self.low_inside + self.over_quota + self.draining

    def parts(self) -> list[tuple[BarPart, int]]:
        """The parts with their sizes, in the order of the bar."""
        return [(part, getattr(self, part.field)) for part in BAR_PARTS]

    def as_body(self) -> UsageBarAnswer:
        """The parts as the API shows them."""
        return {
            "guaranteed": self.guaranteed,
            "low_inside": self.low_inside,
            "free": self.free,
            "over_quota": self.over_quota,
            "draining": self.draining,
            "lent": self.lent,
        }

    def drawn(self, width: int) -> str:
        """The bar as a text of `width` signs; a part that is there has at least one."""
        sizes = [(part.sign, size) for part, size in self.parts() if size]
        if not sizes:
            return ""
        counts = [max(1, round(size * width / self.length)) for _, size in sizes]
        counts[counts.index(max(counts))] += width - sum(counts)
        return "".join(sign * count for (sign, _), count in zip(sizes, counts, strict=True))

    @property
    def inside(self) -> int:
        """The part of the total in use that the quota covers."""
        return self.guaranteed + self.low_inside

    def lending(self, lent: Amount) -> UsageBar:
        """The same bar with this part of the unused quota lent out."""
        part = int(min(lent, self.free))
        return replace(self, lent=part, free=self.free - part) if part else self

    def with_quota(self, quota: Gpus) -> UsageBar:
        """The bar of the same use in a node with this quota, of which the rest is free."""
        return replace(self, free=0 if quota == UNLIMITED else max(0, int(quota) - self.in_use), lent=0)


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
    return sum_bars(leaves).with_quota(balance.guarantee)


def sum_bars(parts: Iterable[UsageBar]) -> UsageBar:
    """The sum of several bars."""
    guaranteed = low = free = over = draining = lent = 0
    for part in parts:
        guaranteed += part.guaranteed
        low += part.low_inside
        free += part.free
        over += part.over_quota
        draining += part.draining
        lent += part.lent
    return UsageBar(guaranteed, low, free, over, draining, lent)
