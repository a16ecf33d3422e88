"""Saying that room may have appeared in a namespace: work that waits for it can be looked at again."""

from __future__ import annotations

from collections.abc import Collection

from django.db import connection, transaction

from pools.domain.gpu_config import GPU_NAMESPACE
from pools.signals import ledger_changed

_BACKENDS = """
    SELECT DISTINCT backend_id FROM pools_pool
    WHERE parent_id IS NULL AND NOT archived AND backend_id IS NOT NULL AND config ->> %s = ANY(%s) ORDER BY 1
"""


def hint_room(namespaces: Collection[str]) -> None:
    """On commit, hint to the backends whose pools use these namespaces."""

    def tell() -> None:
        with connection.cursor() as cursor:
            cursor.execute(_BACKENDS, [GPU_NAMESPACE, list(namespaces)])
            found = [backend_id for (backend_id,) in cursor.fetchall()]
        if found:
            ledger_changed.send(sender=None, backend_ids=found)

    if namespaces:
        transaction.on_commit(tell, robust=True)
