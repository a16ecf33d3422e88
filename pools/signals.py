"""What the ledger tells those above it, without knowing who listens."""

from __future__ import annotations

from django.db import transaction
from django.dispatch import Signal

ledger_changed = Signal()
"""Sent after commit with `backend_ids`: promises or capacity moved there. A hint; nobody may depend on hearing it."""

cancel_pending_work = Signal()
"""Sent inside a delete's transaction with `actor` and `pool`: end the pending workflows of that leaf now."""


work_on_nodes = Signal()
"""Asked inside a transaction with `backend` and `nodes` (names): receivers answer with the names of what runs there."""


def hint(backend_id: int | None) -> None:
    """Say on commit that something moved on a backend."""
    if backend_id is not None:
        transaction.on_commit(lambda: ledger_changed.send(sender=None, backend_ids=[backend_id]), robust=True)
