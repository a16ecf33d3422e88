"""Which part of their quotas the pools of a cluster can have while it has fewer GPUs than it has promised."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum


class DegradedRule(StrEnum):
    """How the pools of a cluster share what is left while it has fewer GPUs than their quotas."""

    PROPORTIONAL = "proportional"
    ORDERED = "ordered"


@dataclass(frozen=True, slots=True)
class Promise:
    """The quota of a pool in whole GPUs, and its weight."""

    pool: str
    quota: int
    weight: float = 1


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
        why = ", while nodes are drained" if found.drained else ""
        return f"Cluster {found.backend} has fewer usable GPUs than the quotas of its pools together{why}. {shares}"
    lost = f"{found.usable} of its {found.gpus} GPUs" if found.usable < found.gpus else f"{found.gpus} GPUs"
    if found.drained:
        lost += f" ({found.drained} are on drained nodes)"
    return (
        f"Cluster {found.backend} can use {lost} now, and the quotas of its pools are {found.quota} together: "
        f"{found.missing} GPUs are missing. {shares}"
    )


def excess_message(backend: str, gpus: int) -> str:
    """The warning about nodes that are smaller than what their work holds."""
    more = "1 GPU" if gpus == 1 else f"{gpus} GPUs"
    return f"On cluster {backend} work holds {more} more than its nodes have: it stays until it ends."


def hold_promises(promises: Sequence[Promise], capacity: int, rule: DegradedRule) -> tuple[HeldPromise, ...]:
    """How the capacity is divided among the promises, in their order.

    Nobody has more than their quota, and together they have the whole capacity, or all their quotas where it is enough.
    `proportional`: each the same part of its quota, in whole GPUs; the GPUs that rounding leaves go to the largest
    remainders, equal ones by name. `ordered`: one after the other, the largest weight first, equal ones by name, each
    its whole quota as long as the capacity lasts.
    """
    total, capacity = sum(each.quota for each in promises), max(0, capacity)
    if capacity >= total:
        return tuple(HeldPromise(each.pool, each.quota, each.quota) for each in promises)
    held = _in_order(promises, capacity) if rule is DegradedRule.ORDERED else _in_proportion(promises, capacity, total)
    return tuple(HeldPromise(each.pool, each.quota, held[n]) for n, each in enumerate(promises))


def _in_order(promises: Sequence[Promise], capacity: int) -> dict[int, int]:
    held, left = {}, capacity
    for n in sorted(range(len(promises)), key=lambda n: (-promises[n].weight, promises[n].pool)):
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
