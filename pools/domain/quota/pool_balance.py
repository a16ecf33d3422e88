"""The arithmetic of one pool and its subpools: quotas, usage, and the numbers for the scheduler.

Amounts are whole GPUs (design, D7). A draining subpool has two quotas (design, D4): in *accounting* it counts as 0 from
the moment it is deleted; in *scheduling* it keeps the quota that its active work needs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from pools.domain.errors import Fault, Violation
from pools.domain.names import SHARED_QUEUE
from pools.domain.quota.tree import NO_QUOTA, NodeQuota
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import DEFAULT_FLAVOR, UNLIMITED, Gpus, gpu_words
from pools.domain.values.counting import counted
from pools.domain.values.scalars import is_decimal

MAX_GPUS = 2**31 - 1
MIN_EXPONENT = -40
"""The lowest accepted power of ten, because the warning about rounding repeats every digit of the request."""


@dataclass(frozen=True, slots=True)
class UsageCounts:
    """The usage of a leaf. `committed` is the amount that its active HIGH and NORMAL work needs until its end: for each
    workflow the larger of its usage and its largest gang that has not ended."""

    used: int = 0
    total_usage: int = 0
    live_workflows: int = 0
    committed: int = 0


def accounting_quota(state: SubpoolState, last_quota: int) -> int:
    """The quota of a subpool in accounting: 0 unless the subpool is ACTIVE (design, D4)."""
    return last_quota if state is SubpoolState.ACTIVE else 0


def unallocated_quota(guarantee: Gpus, allocated: int) -> Gpus:
    """The quota of the shared leaf: `shared + sum(ACTIVE) = guarantee` by definition."""
    return guarantee - allocated


@dataclass(frozen=True, slots=True)
class FlavorQuota:
    """The part of a pool's or subpool's quota that is of one flavor, in GPUs; of a pool with its maximum and
    what it may borrow and lend in its cohort."""

    flavor: str
    quota: int
    maximum: Gpus = UNLIMITED
    limits: NodeQuota = NO_QUOTA


NO_USAGE = UsageCounts()


@dataclass(frozen=True, slots=True)
class Subpool:
    """One subpool. `last_quota` is kept after its deletion. A temporary quota ends at `until`, and `quota_after`
    follows it. `last_quotas` and `quotas_after` are the same by flavor; empty in a pool without flavors. `kept`: the
    quota in scheduling of all flavors together, where they were split."""

    name: str
    state: SubpoolState
    last_quota: int
    usage: UsageCounts = UsageCounts()
    until: datetime | None = None
    quota_after: int | None = None
    last_quotas: Mapping[str, int] = field(default_factory=dict)
    quotas_after: Mapping[str, int] = field(default_factory=dict)
    kept: int | None = None

    @property
    def quota(self) -> int:
        """The quota in accounting."""
        return accounting_quota(self.state, self.last_quota)

    @property
    def quotas(self) -> dict[str, int]:
        """The quota in accounting by flavor."""
        return {flavor: accounting_quota(self.state, gpus) for flavor, gpus in self.last_quotas.items()}

    def of_flavor(self, flavor: str, usage: UsageCounts) -> Subpool:
        """The subpool as far as one flavor is concerned."""
        return Subpool(
            self.name,
            self.state,
            self.last_quotas.get(flavor, 0),
            usage,
            self.until,
            None if self.quota_after is None else self.quotas_after.get(flavor, 0),
        )

    @property
    def scheduling_quota(self) -> int:
        """The quota in scheduling: a draining subpool keeps the amount that its active work needs, at most its last
        quota."""
        if self.state is SubpoolState.DELETING:
            return min(self.last_quota, self.usage.committed) if self.kept is None else self.kept
        return self.quota

    @property
    def is_closed(self) -> bool:
        """Whether the subpool takes no new work."""
        return self.state is not SubpoolState.ACTIVE

    @property
    def available(self) -> int:
        """Quota minus running HIGH and NORMAL work; a negative number is the amount that has to drain."""
        return self.quota - self.usage.used


@dataclass(frozen=True, slots=True)
class PoolBalance:
    """A pool with all its leaves; the shared leaf has the quota that no subpool has. `is_closed`: no new work starts in
    it, because it is archived, in maintenance or offline. `kinds` has the balance of each flavor, in the order of the
    pool's preference; it is empty for a pool without flavors, all of which is of the flavor `default`. `flavors` are
    those that the pool has a quota of; work may hold others still, which come last in `kinds`."""

    name: str
    guarantee: Gpus
    maximum: Gpus
    subpools: tuple[Subpool, ...]
    shared_usage: UsageCounts = UsageCounts()
    is_closed: bool = False
    kinds: Mapping[str, PoolBalance] = field(default_factory=dict)
    flavors: tuple[str, ...] = ()

    @property
    def by_flavor(self) -> Mapping[str, PoolBalance]:
        """The balance of each of its GPU flavors; a pool without flavors is its own `default` one."""
        return self.kinds or {DEFAULT_FLAVOR: self}

    @property
    def is_unlimited(self) -> bool:
        """Whether the guarantee is not finite: such a pool cannot have subpools (design, D7)."""
        return self.guarantee == UNLIMITED

    @property
    def allocated(self) -> int:
        """Sum of the quotas of the ACTIVE subpools."""
        return sum(part.quota for part in self.subpools)

    @property
    def unallocated(self) -> Gpus:
        """The shared leaf's quota."""
        return unallocated_quota(self.guarantee, self.allocated)

    def usage_of(self, leaf: str) -> UsageCounts:
        """The usage of a subpool by its short name, or of the shared leaf by the name of its queue."""
        if leaf == SHARED_QUEUE:
            return self.shared_usage
        return next(part.usage for part in self.subpools if part.name == leaf)

    @property
    def shared_available(self) -> Gpus:
        """The GPUs that new HIGH and NORMAL work in the pool itself may still use; negative while usage drains."""
        return self.unallocated - self.shared_usage.used

    @property
    def shared_scheduling_quota(self) -> Gpus:
        """The quota of the shared leaf for the scheduler: the guarantee minus all other leaves, at least 0
        (design, D4). Of several flavors it is the sum."""
        if self.kinds:
            return sum(kind.shared_scheduling_quota for kind in self.kinds.values())
        return max(0, self.guarantee - sum(part.scheduling_quota for part in self.subpools))

    @property
    def scheduling_quota(self) -> Gpus:
        """The quota of the pool's container: the guarantee, or the sum of its leaves if that is larger after a quota
        was reduced or given to another subpool (design, D4). Of several flavors it is the sum."""
        if self.kinds:
            return sum(kind.scheduling_quota for kind in self.kinds.values())
        return max(self.guarantee, self.shared_scheduling_quota + sum(part.scheduling_quota for part in self.subpools))

    @property
    def used(self) -> int:
        """Running HIGH/NORMAL GPUs of all leaves."""
        return self.shared_usage.used + sum(part.usage.used for part in self.subpools)

    @property
    def total_usage(self) -> int:
        """Running GPUs of all leaves, LOW included."""
        return self.shared_usage.total_usage + sum(part.usage.total_usage for part in self.subpools)


def split_by_flavor(
    balance: PoolBalance, flavors: Sequence[FlavorQuota], usage: Mapping[tuple[str | None, str], UsageCounts]
) -> PoolBalance:
    """The balance with that of each flavor. `usage` is by the short name of the leaf (None: the shared leaf) and the
    flavor. A flavor that work or a subpool still has, and the pool no more, comes last, with no quota."""
    if not flavors:
        return balance
    quotas = {each.flavor: each for each in flavors}
    left = {flavor for part in balance.subpools if part.state is SubpoolState.DELETING for flavor in part.last_quotas}
    left |= {flavor for (_, flavor), counts in usage.items() if counts != NO_USAGE}
    quotas |= {flavor: FlavorQuota(flavor, 0) for flavor in sorted(left - quotas.keys())}
    kinds = {
        flavor: replace(
            balance,
            guarantee=each.quota,
            maximum=each.maximum,
            subpools=tuple(
                part.of_flavor(flavor, usage.get((part.name, flavor), NO_USAGE)) for part in balance.subpools
            ),
            shared_usage=usage.get((None, flavor), NO_USAGE),
        )
        for flavor, each in quotas.items()
    }
    subpools = tuple(
        replace(part, kept=sum(kind.subpools[place].scheduling_quota for kind in kinds.values()))
        for place, part in enumerate(balance.subpools)
    )
    return replace(balance, subpools=subpools, kinds=kinds, flavors=tuple(each.flavor for each in flavors))


@dataclass(frozen=True, slots=True)
class ParsedQuota:
    """A parsed quota. `warning` explains a rounding down."""

    gpus: int
    warning: str | None = None


def parse_quota(value: object, *, parent: Gpus, path: str = "quota") -> ParsedQuota | Violation:
    """Whole GPUs from an integer, a fraction (`12.9`) or a percentage of the parent (`"25%"`), floored (design, D7)."""
    bad = Violation(
        path,
        Fault.BAD_QUOTA,
        'This is not a valid quota: give whole GPUs, a fraction such as 12.9, or a percentage such as "25%".',
    )
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return bad
    text = str(value).strip()
    is_share = text.endswith("%")
    written = text.removesuffix("%").strip() if is_share else text
    if len(text) > 40 or not is_decimal(written):
        return bad
    number = Decimal(written)
    if not number.is_finite() or (number and number.adjusted() < MIN_EXPONENT):
        return bad
    if number < 0:
        return Violation(path, Fault.NEGATIVE_QUOTA, "A quota cannot be negative; the least is 0.")
    if is_share and parent == UNLIMITED:
        return Violation(
            path,
            Fault.NO_GUARANTEE,
            "A percentage needs a pool with a finite guarantee; give it one, or give whole GPUs.",
        )
    if number > MAX_GPUS:
        return Violation(path, Fault.QUOTA_TOO_LARGE, f"A quota is at most {MAX_GPUS:,}.")
    exact = number * int(parent) / 100 if is_share else number
    gpus = math.floor(exact)
    if exact == gpus:
        return ParsedQuota(gpus)
    amount = f"{text} of {parent} is {exact.normalize():f}" if is_share else f"{text} is not whole"
    return ParsedQuota(gpus, f"{amount}: quotas are whole GPUs, so {gpus} was taken; the rest stays unallocated.")


def subpool_quota_violation(
    balance: PoolBalance, *, name: str, quota: int, flavor: str = "", parts: Collection[str] = ()
) -> Violation | None:
    """The reason why `name` (new, archived or ACTIVE) may not have `quota`: the quotas of the ACTIVE subpools together
    stay within the guarantee. `flavor` names the flavor of the balance, if the pool has some; `parts` are those that
    count parts of shared GPUs."""
    if balance.is_unlimited:
        return Violation(
            "quota",
            Fault.NO_GUARANTEE,
            f"Pool {balance.name} has no finite GPU guarantee, so there is nothing to cut subpools from. "
            "Set resources.gpu.guarantee first.",
        )
    own = next((part.quota for part in balance.subpools if part.name == name), 0)
    free = balance.unallocated + own
    if quota <= free:
        return None
    return Violation(
        f"quotas.{flavor}" if flavor else "quota",
        Fault.QUOTA_EXCEEDS_PARENT,
        f"{quota} {gpu_words(flavor, parts)[1]} requested for {balance.name}--{name}, {free} are free to give: "
        f"pool {balance.name} guarantees {balance.guarantee} and its other subpools hold "
        f"{balance.allocated - own}. Ask for at most {free}, or shrink another subpool.",
        numbers=(("requested", quota), ("limit", balance.guarantee), ("free", free), *_flavor_number(flavor)),
    )


def _flavor_number(flavor: str) -> tuple[tuple[str, str], ...]:
    return (("flavor", flavor),) if flavor else ()


def pool_quotas_violation(
    balance: PoolBalance, quotas: Mapping[str, int], *, flavor: str = "", parts: Collection[str] = ()
) -> Violation | None:
    """The reason why these ACTIVE subpools (short name → GPUs) may not have these quotas at the same time: with the
    other ACTIVE subpools they stay within the guarantee."""
    words = gpu_words(flavor, parts)
    total = sum(quotas.get(part.name, part.quota) for part in balance.subpools)
    if balance.is_unlimited or total <= balance.guarantee:
        return None
    return Violation(
        "quotas",
        Fault.QUOTA_EXCEEDS_PARENT,
        f"The subpools of {balance.name} would hold {total} {words[1]}; pool {balance.name} "
        f"guarantees {balance.guarantee}. Ask for {counted(total - balance.guarantee, *words)} less.",
        numbers=(("requested", total), ("limit", balance.guarantee), *_flavor_number(flavor)),
    )


def guarantee_violation(
    balance: PoolBalance, guarantee: Gpus, *, flavor: str = "", parts: Collection[str] = ()
) -> Violation | None:
    """The reason why the guarantee of the pool may not become `guarantee`: it stays at least the sum of the quotas of
    its ACTIVE subpools."""
    path = f"resources.flavors.{flavor}.guarantee" if flavor else "resources.gpu.guarantee"
    if guarantee == UNLIMITED and any(part.state is SubpoolState.ACTIVE for part in balance.subpools):
        return Violation(
            path,
            Fault.NO_GUARANTEE,
            f"Pool {balance.name} has subpools, so its quota must stay a number of GPUs; it cannot be unlimited.",
        )
    if guarantee >= balance.allocated:
        return None
    return Violation(
        path,
        Fault.GUARANTEE_BELOW_SUBPOOLS,
        f"A quota of {guarantee} is below the {balance.allocated} {gpu_words(flavor, parts)[1]} allocated to "
        f"subpools of {balance.name}: {_quota_list_text(balance.subpools)}. Shrink or delete subpools first.",
        numbers=(("requested", guarantee), ("limit", balance.allocated), *_flavor_number(flavor)),
    )


def _quota_list_text(subpools: Sequence[Subpool]) -> str:
    return ", ".join(f"{part.name} {part.quota}" for part in subpools if part.state is SubpoolState.ACTIVE)
