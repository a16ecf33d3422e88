"""Which part of their quotas the pools of a cluster can have while it has fewer GPUs than it has promised."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pools.domain.shortage.platform_shares import shares_in_order, shares_in_proportion
from pools.domain.values.amounts import DEFAULT_FLAVOR, MIXED_WORDS, gpu_words
from pools.domain.values.counting import counted

FlavorGpus = Mapping[str, Mapping[str, int]]
"""GPUs by flavor, and of each by platform."""


class DegradedRule(StrEnum):
    """How the pools of a cluster share what is left while it has fewer GPUs than their quotas."""

    PROPORTIONAL = "proportional"
    ORDERED = "ordered"


@dataclass(frozen=True, slots=True)
class Promise:
    """The quota of a pool in whole GPUs of a flavor, and its weight. `platforms`: those whose nodes it may use; None:
    all."""

    pool: str
    quota: int
    weight: float = 1
    platforms: frozenset[str] | None = None
    flavor: str = DEFAULT_FLAVOR


@dataclass(frozen=True, slots=True)
class HeldPromise:
    """A promise and the part of it that can be had now."""

    pool: str
    quota: int
    held: int
    flavor: str = DEFAULT_FLAVOR

    @property
    def missing(self) -> int:
        """The GPUs of the quota that cannot be had now."""
        return self.quota - self.held

    @property
    def text(self) -> str:
        """The part and the whole: `4 of its 8`, and of which flavor where there are some."""
        kind = "" if self.flavor == DEFAULT_FLAVOR else f" {self.flavor}"
        return f"{self.held} of its {self.quota}{kind}"


def by_missing(promises: Iterable[HeldPromise]) -> list[HeldPromise]:
    """The promises with most missing GPUs first, equal ones by pool and flavor."""
    return sorted(promises, key=lambda each: (-each.missing, each.pool, each.flavor))


@dataclass(frozen=True, slots=True)
class DegradedCluster:
    """A cluster with fewer usable GPUs than the quotas of its pools together. `usable`: those of nodes that take work,
    and those that work holds on the others; `gpus`: those of all its nodes, `drained` of them on drained ones. Sums are
    without the flavors `of_parts`, which count parts of GPUs."""

    backend: str
    rule: DegradedRule
    usable: int
    gpus: int
    pools: tuple[HeldPromise, ...]
    drained: int = 0
    of_parts: frozenset[str] = frozenset()

    @property
    def quota(self) -> int:
        """The quotas together."""
        return sum(each.quota for each in self.pools if each.flavor not in self.of_parts)

    @property
    def missing(self) -> int:
        """The GPUs that are missing for all quotas."""
        return sum(each.missing for each in self.pools if each.flavor not in self.of_parts)

    @property
    def missing_amounts(self) -> str:
        """What is missing: `3 GPUs and 8 t4 parts of GPUs`."""
        parts = dict.fromkeys(sorted(self.of_parts), 0)
        for each in self.pools:
            if each.flavor in parts:
                parts[each.flavor] += each.missing
        named = [counted(gpus, *gpu_words(flavor, parts)) for flavor, gpus in parts.items() if gpus]
        if self.missing or not named:
            named.insert(0, counted(self.missing, "GPU"))
        return " and ".join(named)

    def short_of(self, pools: Collection[str] | None = None) -> list[HeldPromise]:
        """The pools (of these names, None for all) that cannot have their quota, each with the flavors of which it
        cannot, most missing GPUs first."""
        return by_missing(each for each in self.pools if each.missing and (pools is None or each.pool in pools))

    @property
    def has_flavors(self) -> bool:
        """Whether some quota is one of a named flavor."""
        return any(each.flavor != DEFAULT_FLAVOR for each in self.pools)


SHOWN_POOLS = 3


def shares_message(short: Sequence[HeldPromise]) -> str:
    """What the pools that cannot have their quota can have now; empty without any."""
    if not short:
        return ""
    shown = short[:SHOWN_POOLS]
    named = [f"{each.pool} can have {each.text}" for each in shown]
    more = len({each.pool for each in short} - {each.pool for each in shown})
    return f"Now {', '.join(named)}{f', and {more} more pools have less than their quota' if more > 0 else ''}."


def degraded_message(found: DegradedCluster, pools: Collection[str] | None) -> str:
    """The warning for a reader of these pools; None for a reader of the whole installation, who sees the sums."""
    shares = shares_message(found.short_of(pools))
    if pools is not None:
        if found.usable >= found.quota:
            where = "of some flavors" if found.has_flavors else "on the platforms of its pools"
            what = "GPUs" if found.missing else "parts of GPUs"
            return f"Cluster {found.backend} has too few usable {what} {where}. {shares}"
        why = ", while nodes are drained" if found.drained else ""
        return f"Cluster {found.backend} has fewer usable GPUs than the quotas of its pools together{why}. {shares}"
    is_one = sum(each.missing for each in found.pools) == 1
    missing = f"{found.missing_amounts} {'is' if is_one else 'are'} missing"
    if not found.missing:
        return f"Cluster {found.backend} has too few usable parts of GPUs: {missing}. {shares}"
    lost = f"{found.usable} of its " * (found.usable < found.gpus) + counted(found.gpus, "GPU")
    where = " in some flavors" if found.has_flavors else " on the platforms of some pools"
    by_platform = where if found.usable >= found.quota else ""
    if found.drained:
        lost += f" ({found.drained} are on drained nodes)"
    return (
        f"Cluster {found.backend} can use {lost} now, and the quotas of its pools are {found.quota} together: "
        f"{missing}{by_platform}. {shares}"
    )


def excess_message(backend: str, gpus: int, parts: Collection[str] = ()) -> str:
    """The warning about nodes that are smaller than what their work holds, also where the flavors `parts` count parts
    of shared GPUs."""
    amount = counted(gpus, *(MIXED_WORDS if parts else ("GPU", "GPUs")))
    return f"On cluster {backend} work holds {amount} more than its nodes have: it stays until it ends."


def hold_by_flavor(promises: Sequence[Promise], gpus: FlavorGpus, rule: DegradedRule) -> tuple[HeldPromise, ...]:
    """How the GPUs of each flavor are divided among the promises of it, in the order of the promises."""
    found: dict[int, HeldPromise] = {}
    for flavor in dict.fromkeys(each.flavor for each in promises):
        places = [place for place, each in enumerate(promises) if each.flavor == flavor]
        found |= zip(places, hold_promises([promises[n] for n in places], gpus.get(flavor, {}), rule), strict=True)
    return tuple(found[place] for place in range(len(promises)))


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
        return tuple(HeldPromise(each.pool, each.quota, each.quota, each.flavor) for each in promises)
    held = _in_order(promises, capacity) if rule is DegradedRule.ORDERED else _in_proportion(promises, capacity, total)
    return tuple(HeldPromise(each.pool, each.quota, held[n], each.flavor) for n, each in enumerate(promises))


def _by_platform(promises: Sequence[Promise], gpus: Mapping[str, int], rule: DegradedRule) -> tuple[HeldPromise, ...]:
    quotas = [each.quota for each in promises]
    usable: list[Collection[str]] = [
        gpus.keys() if each.platforms is None else each.platforms & gpus.keys() for each in promises
    ]
    if rule is DegradedRule.ORDERED:
        held = shares_in_order(quotas, usable, gpus, _ranked(promises))
    else:
        held = shares_in_proportion(quotas, usable, gpus, [each.pool for each in promises])
    return tuple(HeldPromise(each.pool, each.quota, held[n], each.flavor) for n, each in enumerate(promises))


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
