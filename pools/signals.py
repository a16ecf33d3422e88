"""What the ledger tells those above it, without knowing who listens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.dispatch import Signal

changes_committed = Signal()
"""Sent after the commit of :func:`pools.transactions.change` with `changes`, if triggers noted any: work may start
there. A hint that only saves time; a receiver may miss it."""

workflows_on_nodes_requested = Signal()
"""Asked inside a transaction with `backend` and `nodes` (names): receivers answer with the names of what runs there."""

impact_requested = Signal()
"""Asked inside a trial with `actor` and `backend_ids`, where the change is made and not yet taken back: receivers read
what they need and answer with an `ImpactReader`, which is called after the locks are gone."""


@dataclass(frozen=True, slots=True)
class AffectedWorkflows:
    """Workflows that a change would concern: the names that the asker may see, and how many others."""

    names: tuple[str, ...] = ()
    hidden_count: int = 0


@dataclass(frozen=True, slots=True)
class Impact:
    """What the next scheduling would do after a change and not without it: LOW work that loses its place (`taken`),
    waiting work that starts (`starts`), and waiting work that no longer does, or no longer ever can (`stays`)."""

    reclaimed: AffectedWorkflows = AffectedWorkflows()
    starting: AffectedWorkflows = AffectedWorkflows()
    blocked: AffectedWorkflows = AffectedWorkflows()


ImpactReader = Callable[[], Impact]
