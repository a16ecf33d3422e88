"""The quotas of a backend's pools against the GPUs of its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pools.domain.shortage.degraded import DegradedRule, Promise

DRAIN_TAINT: Final = "osmo-admin/drained"
"""The taint of a simulated node that is drained."""


@dataclass(frozen=True, slots=True)
class BackendCapacity:
    """`quota` is the sum of the finite quotas of its pools, `gpus` the sum over its nodes; None while no node is known,
    as on a cluster that was never connected. `tainted` are the GPUs of nodes whose taint keeps our pods away, which are
    not among them; `drained` are those of drained nodes, which are, because these come back. `parts` are what nodes
    that share their GPUs advertise in the place of whole ones, and not among them. `promises` are the finite quotas,
    and `rule` divides too few GPUs among them; there are none while the cluster is offline, which is a problem of its
    own."""

    backend: str
    quota: int
    gpus: int | None
    tainted: int = 0
    rule: DegradedRule = DegradedRule.PROPORTIONAL
    promises: tuple[Promise, ...] = ()
    drained: int = 0
    parts: int = 0

    @property
    def excess(self) -> int:
        """The GPUs of quota that no node has."""
        return 0 if self.gpus is None else max(0, self.quota - self.gpus)

    @property
    def is_oversubscribed(self) -> bool:
        """Whether the quotas are more than the nodes have."""
        return self.excess > 0

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
    """The warning about an oversubscribed backend."""
    return (
        f"Cluster {capacity.backend} has {capacity.gpus} GPUs{capacity.uncounted_note}, and the quotas of its pools "
        f"are {capacity.quota} together, {capacity.excess} more: guaranteed work may wait for a node although its "
        "quota is free. Lower a quota, or add nodes."
    )
