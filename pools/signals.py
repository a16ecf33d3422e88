"""The signals of the ledger to the apps above it, which the ledger does not import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.dispatch import Signal

changes_committed = Signal()
"""Sent after the commit of :func:`pools.database.transactions.change` with `changes`, if triggers noted any: work may
start there. The signal only saves time, so a receiver may miss it."""

observation_ends = Signal()
"""Sent inside the transaction in which a cluster is no longer observed, or (`root`) a pool leaves it, with `backend`,
under the locks of its trees; receivers end the record of the work that was seen there and return its number."""

workflows_on_nodes_requested = Signal()
"""Sent inside a transaction with `backend` and `nodes` (names); receivers return the names of the workflows that run
on these nodes."""

overfull_nodes_requested = Signal()
"""Sent inside a transaction with `backend` and `nodes` (names); receivers return a text for each of these nodes whose
running work holds more than the node has."""

node_labels_requested = Signal()
"""Sent inside a transaction with `backend`; receivers return the labels that its cluster reports, by the id of a
node."""

usable_gpus_requested = Signal()
"""Sent to ask what the clusters can use now; receivers return by the id of a backend the GPUs on which its work runs or
could start, and the GPUs that work holds on nodes beyond their sizes. A backend without nodes is missing."""

impact_requested = Signal()
"""Sent in a dry run with `actor`, `backend_ids` and `tokens`, after the change and before its rollback. Receivers read
the changed state and return an `ImpactReader`, which is called after the rollback, when no lock is held. `tokens`: the
change tokens before the change, where a person sees the effect and may confirm it; None elsewhere."""

effect_confirmed = Signal()
"""Sent in the transaction of a change whose effect a person has seen, after the change, with `actor`, its `title`, the
`memos` of that effect (:class:`Impact`) and the change `tokens` without and with it."""


@dataclass(frozen=True, slots=True)
class AffectedWorkflows:
    """Workflows that a change would concern: the names that the actor may see, and the number of others."""

    names: tuple[str, ...] = ()
    hidden_count: int = 0


@dataclass(frozen=True, slots=True)
class Impact:
    """The differences that a change makes to the next scheduling cycle: LOW work that loses its GPUs (`reclaimed`),
    waiting work that starts (`starting`), and waiting work that no longer starts now or can never start (`blocked`).
    `memos`: what the receiver wants back when the change is confirmed, as JSON; nobody else reads it."""

    reclaimed: AffectedWorkflows = AffectedWorkflows()
    starting: AffectedWorkflows = AffectedWorkflows()
    blocked: AffectedWorkflows = AffectedWorkflows()
    memos: tuple[Mapping[str, Any], ...] = ()


ImpactReader = Callable[[], Impact]
