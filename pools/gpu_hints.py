"""Saying that room may have appeared in a namespace: work that waits for it can be looked at again."""

from __future__ import annotations

from collections.abc import Collection

from django.db import transaction

from pools.domain.gpu_config import GPU_NAMESPACE
from pools.models import Pool
from pools.signals import ledger_changed


def hint_room(namespaces: Collection[str]) -> None:
    """On commit, hint to the backends whose pools use these namespaces."""

    def tell() -> None:
        rows = Pool.objects.roots().filter(**{f"config__{GPU_NAMESPACE}__in": list(namespaces)}, archived=False)
        if found := sorted(set(rows.values_list("backend_id", flat=True)) - {None}):
            ledger_changed.send(sender=None, backend_ids=found)

    if namespaces:
        transaction.on_commit(tell, robust=True)
