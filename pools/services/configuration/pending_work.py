"""Commands and questions about pending workflows, which the ledger has and the scheduling app executes.

The ledger does not import the scheduling app, so that app registers the implementation when it starts. A command whose
implementation is missing raises; it is never skipped.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from pools.domain.people.roles import Actor
from pools.models import Pool


class PendingWork(Protocol):
    """What the ledger asks of pending workflows, inside its own transaction."""

    def cancel(self, *, actor: Actor, leaf: Pool) -> int:
        """Cancel the workflows of a leaf that have not started, and return their number."""

    def names_requiring(self, root: Pool, topology_keys: Collection[str]) -> list[str]:
        """The workflows of a pool and its subpools that have not started and require one of these topology keys."""


class PendingWorkPort:
    """Holds the implementation that the scheduling app registers."""

    def __init__(self) -> None:
        self._implementation: PendingWork | None = None

    def register(self, implementation: PendingWork) -> None:
        """Set the implementation. Called once, by `AppConfig.ready`."""
        self._implementation = implementation

    def cancel(self, *, actor: Actor, leaf: Pool) -> int:
        """Cancel the pending workflows of a leaf, and return their number. Raises RuntimeError if no implementation is
        registered."""
        return self._registered().cancel(actor=actor, leaf=leaf)

    def names_requiring(self, root: Pool, topology_keys: Collection[str]) -> list[str]:
        """The pending workflows below a top-level pool that require one of these topology keys, in the order of their
        submission. Raises RuntimeError if no implementation is registered."""
        return self._registered().names_requiring(root, topology_keys)

    def _registered(self) -> PendingWork:
        if self._implementation is None:
            raise RuntimeError("No app has registered how to answer for pending workflows.")
        return self._implementation


pending_work = PendingWorkPort()
