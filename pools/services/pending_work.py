"""The command to cancel pending workflows: `delete_subpool` sends it and the scheduling app executes it.

The ledger does not import the scheduling app, so that app registers the implementation when it starts. A command whose
implementation is missing raises; it is never skipped.
"""

from __future__ import annotations

from typing import Protocol

from pools.domain.roles import Actor
from pools.models import Pool


class CancelPending(Protocol):
    """Cancel the workflows of a leaf that have not started, inside the transaction of the caller."""

    def __call__(self, *, actor: Actor, leaf: Pool) -> None: ...


class PendingWorkPort:
    """Holds the implementation that the scheduling app registers."""

    def __init__(self) -> None:
        self._implementation: CancelPending | None = None

    def register(self, implementation: CancelPending) -> None:
        """Set the implementation. Called once, by `AppConfig.ready`."""
        self._implementation = implementation

    def cancel(self, *, actor: Actor, leaf: Pool) -> None:
        """Cancel the pending workflows of a leaf. Raises RuntimeError if no implementation is registered."""
        if self._implementation is None:
            raise RuntimeError("No app has registered how to cancel pending workflows.")
        self._implementation(actor=actor, leaf=leaf)


pending_work = PendingWorkPort()
