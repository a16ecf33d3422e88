"""Subpools, and a pool with its subpools, as the API shows them (api.md, "Subpools")."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from typing import Any

from pools.domain import names
from pools.domain.amounts import encode_gpus
from pools.domain.quota.pool_balance import Subpool
from pools.models import Pool
from pools.selectors.pool_balance import read_balance


def subpool_body(
    row: Pool, part: Subpool, *, warnings: Iterable[str] = (), reactivated: bool = False
) -> dict[str, Any]:
    """One subpool as the API shows it (api.md, "Subpools")."""
    return {
        "name": row.name,
        "parent_pool": row.root.name,
        "subpool_name": row.subpool_name,
        "subpool_state": str(part.state),
        "quota": part.quota,
        "last_quota": part.last_quota,
        "quota_until": part.until and part.until.astimezone(UTC).replace(tzinfo=None),
        "quota_after": part.quota_after,
        "drain_by": row.drain_by and row.drain_by.astimezone(UTC).replace(tzinfo=None),
        "scheduling_quota": part.scheduling_quota,
        "used": part.usage.used,
        "available": part.available,
        "total_usage": part.usage.total_usage,
        "live_workflows": part.usage.live_workflows,
        "queue": row.queue,
        "k8s_queue": row.k8s_queue,
        "warnings": list(warnings),
        "version": row.version,
        "reactivated": reactivated,
    }


def pool_tree_body(root: Pool, *, include_archived: bool = False) -> dict[str, Any]:
    """A pool with its shared leaf and its subpools as the API shows it (api.md, "Subpools")."""
    facts = read_balance(root)
    parts = {part.name: part for part in facts.subpools}
    rows = Pool.objects.filter(parent=root).select_related("parent__backend", "usage").order_by("subpool_name")
    if not include_archived:
        rows = rows.not_archived()
    return {
        "pool": root.name,
        "quota": encode_gpus(facts.guarantee),
        "scheduling_quota": encode_gpus(facts.scheduling_quota),
        "unallocated": encode_gpus(facts.unallocated),
        "shared": {
            "queue": root.queue,
            "k8s_queue": root.k8s_queue,
            "quota": encode_gpus(facts.unallocated),
            "scheduling_quota": encode_gpus(facts.shared_scheduling_quota),
            "used": facts.shared_usage.used,
            "total_usage": facts.shared_usage.total_usage,
            "live_workflows": facts.shared_usage.live_workflows,
            "available": encode_gpus(facts.shared_available),
        },
        "container_queue": names.queue_name(root.namespace, root.name, None),
        "version": root.version,
        "subpools": [subpool_body(row, parts[row.subpool_name]) for row in rows if row.subpool_name],
    }
