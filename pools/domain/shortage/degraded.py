"""Which part of their quotas the pools of a cluster can have while it has fewer GPUs than it has promised."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pools.domain.shortage.platform_shares import shares_in_order, shares_in_proportion


class DegradedRule(StrEnum):
    """How the pools of a cluster share what is left while it has fewer GPUs than their quotas."""

    PROPORTIONAL = "proportional"
    ORDERED = "ordered"


@dataclass(frozen=True, slots=True)
class Promise:
    """The quota of a pool in whole GPUs, and its weight. `platforms`: those whose nodes it may use; None: all."""

    pool: str
    quota: int
    weight: float = 1
    platforms: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class HeldPromise:
    """A promise and the part of it that can be had now."""

    pool: str
    quota: int
    held: int

    @property
    def missing(self) -> int:
        """The GPUs of the quota that cannot be had now."""
        return self.quota - self.held


@dataclass(frozen=True, slots=True)
class DegradedCluster:
    """A cluster with fewer usable GPUs than the quotas of its pools together. `usable`: those of nodes that take work,
    and those that work holds on the others; `gpus`: those of all its nodes, `drained` of them on drained ones."""

    backend: str
    rule: DegradedRule
    usable: int
    gpus: int
    pools: tuple[HeldPromise, ...]
    drained: int = 0

    @property
    def quota(self) -> int:
        """The quotas together."""
        return sum(each.quota for each in self.pools)

    @property
    def missing(self) -> int:
        """The GPUs that are missing for all quotas."""
        return sum(each.missing for each in self.pools)

    def short_of(self, pools: Collection[str] | None = None) -> list[HeldPromise]:
        """The pools (of these names, None for all) that cannot have their quota, most missing GPUs first."""
        short = (each for each in self.pools if each.missing and (pools is None or each.pool in pools))
        return sorted(short, key=lambda each: (-each.missing, each.pool))


SHOWN_POOLS = 3


def shares_message(short: Sequence[HeldPromise]) -> str:
    """What the pools that cannot have their quota can have now; empty without any."""
    if not short:
        return ""
    named = [f"{each.pool} can have {each.held} of its {each.quota}" for each in short[:SHOWN_POOLS]]
    more = len(short) - SHOWN_POOLS
    return f"Now {', '.join(named)}{f', and {more} more pools have less than their quota' if more > 0 else ''}."


def degraded_message(found: DegradedCluster, pools: Collection[str] | None) -> str:
    """The warning for a reader of these pools; None for a reader of the whole installation, who sees the sums."""
    shares = shares_message(found.short_of(pools))
    if pools is not None:
        if found.usable >= found.quota:
            return f"Cluster {found.backend} has too few usable GPUs on the platforms of its pools. {shares}"
        why = ", while nodes are drained" if found.drained else ""
        return f"Cluster {found.backend} has fewer usable GPUs than the quotas of its pools together{why}. {shares}"
    lost = f"{found.usable} of its {found.gpus} GPUs" if found.usable < found.gpus else f"{found.gpus} GPUs"
    by_platform = " on the platforms of some pools" if found.usable >= found.quota else ""
    if found.drained:
        lost += f" ({found.drained} are on drained nodes)"
    return (
        f"Cluster {found.backend} can use {lost} now, and the quotas of its pools are {found.quota} together: "
        f"{found.missing} GPUs are missing{by_platform}. {shares}"
    )


def excess_message(backend: str, gpus: int) -> str:
    """The warning about nodes that are smaller than what their work holds."""
    more = "1 GPU" if gpus == 1 else f"{gpus} GPUs"
    return f"On cluster {backend} work holds {more} more than its nodes have: it stays until it ends."


def hold_promises(
    promises: Sequence[Promise], capacity: int | Mapping[str, int], rule: DegradedRule
) -> tuple[HeldPromise, ...]:
    """How the capacity is divided among the promises, in their order. `capacity`: in GPUs, or those of each platform,
    of which a pool may use only its own.

    Nobody has more than their quota, and together they have the whole capacity, or all their quotas where it is enough.
    `proportional`: each the same part of its quota, in whole GPUs; the GPUs that rounding leaves go to the largest
    remainders, equal ones by name. `ordered`: one after the other, the largest weight first, equal ones by name, each
    its whole quota as long as the capacity lasts.
    """
    if not isinstance(capacity, int):
        gpus = {name: max(0, count) for name, count in capacity.items()}
        if any(each.platforms is not None and not gpus.keys() <= each.platforms for each in promises):
            return _by_platform(promises, gpus, rule)
        capacity = sum(gpus.values())
    total, capacity = sum(each.quota for each in promises), max(0, capacity)
    if capacity >= total:
        return tuple(HeldPromise(each.pool, each.quota, each.quota) for each in promises)
    held = _in_order(promises, capacity) if rule is DegradedRule.ORDERED else _in_proportion(promises, capacity, total)
    return tuple(HeldPromise(each.pool, each.quota, held[n]) for n, each in enumerate(promises))


def _by_platform(promises: Sequence[Promise], gpus: Mapping[str, int], rule: DegradedRule) -> tuple[HeldPromise, ...]:
    quotas = [each.quota for each in promises]
    usable: list[Collection[str]] = [
        gpus.keys() if each.platforms is None else each.platforms & gpus.keys() for each in promises
    ]
    if rule is DegradedRule.ORDERED:
        held = shares_in_order(quotas, usable, gpus, _ranked(promises))
    else:
        held = shares_in_proportion(quotas, usable, gpus, [each.pool for each in promises])
    return tuple(HeldPromise(each.pool, each.quota, held[n]) for n, each in enumerate(promises))


def _ranked(promises: Sequence[Promise]) -> list[int]:
    return sorted(range(len(promises)), key=lambda n: (-promises[n].weight, promises[n].pool))


def _in_order(promises: Sequence[Promise], capacity: int) -> dict[int, int]:
    held, left = {}, capacity
    for n in _ranked(promises):
        held[n] = min(promises[n].quota, left)
        left -= held[n]
    return held


def _in_proportion(promises: Sequence[Promise], capacity: int, total: int) -> dict[int, int]:
    held = {n: capacity * each.quota // total for n, each in enumerate(promises)}
    left = capacity - sum(held.values())
    by_remainder = sorted(held, key=lambda n: (-(capacity * promises[n].quota % total), promises[n].pool))
    for n in by_remainder[:left]:
        held[n] += 1
    return held
