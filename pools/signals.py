"""What the ledger tells those above it, without knowing who listens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from django.db import connection, transaction
from django.dispatch import Signal

from pools.domain.gpu_quota.pool_settings import GPU_NAMESPACE

ledger_changed = Signal()
"""Sent after commit with `backend_ids`: promises or capacity moved there. A hint; nobody may depend on hearing it."""

backend_dirtied = Signal()
"""Sent inside the transaction of every change but a submission, with `backend_id`: what is written then stands and
falls with the change."""

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

_hinted: ContextVar[set[int] | None] = ContextVar("osmo_hinted", default=None)


def backend_changed(backend_id: int | None, *, only_new_work: bool = False) -> None:
    """Say on commit that something moved on a backend; `start_new_work`: that work was submitted, and nothing else."""
    if backend_id is None:
        return
    if not only_new_work:
        backend_dirtied.send(sender=None, backend_id=backend_id)
    if (hinted := _hinted.get()) is not None:
        hinted.add(backend_id)
    transaction.on_commit(lambda: ledger_changed.send(sender=None, backend_ids=[backend_id]), robust=True)


@contextmanager
def collect_changed_backends() -> Iterator[set[int]]:
    """Fill a set with the backends that are hinted at inside: those that a trial would have moved something on."""
    noted: set[int] = set()
    token = _hinted.set(noted)
    try:
        yield noted
    finally:
        _hinted.reset(token)


_BACKENDS = """
    SELECT DISTINCT backend_id FROM pools_pool
    WHERE parent_id IS NULL AND NOT archived AND backend_id IS NOT NULL AND config ->> %s = ANY(%s) ORDER BY 1
"""


def notify_gpu_headroom(namespaces: Collection[str]) -> None:
    """On commit, hint to the backends whose pools use these namespaces."""

    def tell() -> None:
        with connection.cursor() as cursor:
            cursor.execute(_BACKENDS, [GPU_NAMESPACE, list(namespaces)])
            found = [backend_id for (backend_id,) in cursor.fetchall()]
        if found:
            ledger_changed.send(sender=None, backend_ids=found)

    if namespaces:
        transaction.on_commit(tell, robust=True)
