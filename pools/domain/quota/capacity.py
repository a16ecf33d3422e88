"""The quotas of a backend's pools against the GPUs of its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pools.domain.shortage.degraded import DegradedRule, Promise
from pools.domain.values.amounts import DEFAULT_FLAVOR, gpu_words
from pools.domain.values.counting import counted

DRAIN_TAINT: Final = "osmo-admin/drained"
"""The taint of a simulated node that is drained."""


@dataclass(frozen=True, slots=True)
class FlavorCapacity:
    """The finite quotas of one flavor together, and the GPUs of the nodes of it that count; of nodes that share their
    GPUs if it `is_of_parts`, whose numbers are parts of GPUs."""

    quota: int
    gpus: int
    is_of_parts: bool = False

    @property
    def excess(self) -> int:
        """The GPUs of quota that no node has."""
        return max(0, self.quota - self.gpus)


@dataclass(frozen=True, slots=True)
class BackendCapacity:
    """`quota` is the sum of the finite quotas of its pools, `gpus` the sum over its nodes; None while no node is known,
    as on a cluster that was never connected. `tainted` are the GPUs of nodes whose taint keeps our pods away, which are
    not among them; `drained` are those of drained nodes, which are, because these come back. `parts` are what nodes
    that share their GPUs advertise in the place of whole ones, and not among them. `promises` are the finite quotas,
    and `rule` divides too few GPUs among them; there are none while the cluster is offline, which is a problem of its
    own. `flavors` has quota and GPUs of each flavor; empty where the backend names none. What counts parts of GPUs is
    only there: every other number is one of whole GPUs."""

    backend: str
    quota: int
    gpus: int | None
    tainted: int = 0
    rule: DegradedRule = DegradedRule.PROPORTIONAL
    promises: tuple[Promise, ...] = ()
    drained: int = 0
    parts: int = 0
    flavors: Mapping[str, FlavorCapacity] = field(default_factory=dict)

    @property
    def by_flavor(self) -> Mapping[str, FlavorCapacity]:
        """Quota and GPUs of each flavor; of `default` alone where the backend names none."""
        return self.flavors or {DEFAULT_FLAVOR: FlavorCapacity(self.quota, self.gpus or 0)}

    @property
    def part_flavors(self) -> frozenset[str]:
        """The flavors that count parts of GPUs."""
        return frozenset(flavor for flavor, each in self.flavors.items() if each.is_of_parts)

    @property
    def excess(self) -> int:
        """The whole GPUs of quota that no node has; GPUs of one flavor do not serve quotas of another."""
        return 0 if self.gpus is None else sum(each.excess for each in self.by_flavor.values() if not each.is_of_parts)

    def promises_more_than(self, other: BackendCapacity) -> bool:
        """Whether the quotas of some flavor grew from `other`."""
        before = other.by_flavor
        return any(
            each.quota > (before[flavor].quota if flavor in before else 0) for flavor, each in self.by_flavor.items()
        )

    @property
    def is_oversubscribed(self) -> bool:
        """Whether the quotas are more than the nodes have."""
        return self.gpus is not None and any(each.excess for each in self.by_flavor.values())

    @property
    def uncounted_note(self) -> str:
        """What else the nodes have, after the number of GPUs; mostly nothing."""
        amounts = (
            (self.tainted, f"{self.tainted} on nodes whose taint keeps our pods away"),
            (self.parts, f"{self.parts} parts of GPUs on nodes that share them"),
        )
        found = [words for amount, words in amounts if amount]
        return f" (and {' and '.join(found)})" if found else ""


def oversubscription_notice(capacity: BackendCapacity) -> str:
    """The warning for readers who may not see all pools of the backend: without their sums."""
    return (
        f"Cluster {capacity.backend} has fewer GPUs than the quotas of its pools together: guaranteed work may wait "
        "for a node although its quota is free. Ask an osmo-admin to lower a quota or to add nodes."
    )


def oversubscription_message(capacity: BackendCapacity) -> str:
    """The warning about an oversubscribed backend: with flavors about each that has too few GPUs."""
    return (
        f"Cluster {capacity.backend} has {'; and '.join(_excesses(capacity))}: guaranteed work may wait for a node "
        "although its quota is free. Lower a quota, or add nodes."
    )


def _excesses(capacity: BackendCapacity) -> Iterator[str]:
    note = capacity.uncounted_note
    for flavor, each in capacity.by_flavor.items():
        if each.excess:
            kind = f"{flavor} " if capacity.flavors else ""
            one, many = gpu_words(flavor, capacity.part_flavors, is_named=False)
            yield (
                f"{counted(each.gpus, kind + one, kind + many)}{note}, and the quotas of its pools are {each.quota} "
                f"together, {each.excess} more"
            )
            note = ""
