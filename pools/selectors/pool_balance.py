"""Rows of the ledger as the facts its rules are asked with, and as the shapes doors show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Count, QuerySet

from pools.domain import names
from pools.domain.amounts import encode_gpus
from pools.domain.quota.pool_balance import PoolBalance, Subpool, UsageCounts
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import LeafUsage, Pool, User


def read_balances(roots: Iterable[Pool]) -> dict[int, PoolBalance]:
    """The balance of each tree by the id of its top-level pool; two queries however many there are."""
    wanted = {root.pk: root for root in roots}
    slices: dict[int, list[Subpool]] = {pk: [] for pk in wanted}
    usage = {row.pool_id: row.as_usage() for row in LeafUsage.objects.filter(pool__in=wanted)}
    rows = Pool.objects.filter(parent__in=wanted).select_related("usage").order_by("subpool_name")
    for row in rows:
        assert row.parent_id is not None
        slices[row.parent_id].append(subpool_from_row(row))
    return {
        pk: PoolBalance(
            root.name, root.effective_guarantee, root.effective_maximum, tuple(slices[pk]), usage.get(pk, UsageCounts())
        )
        for pk, root in wanted.items()
    }


def read_balance(root: Pool) -> PoolBalance:
    """The balance of one tree."""
    return read_balances([root])[root.pk]


def subpool_from_row(row: Pool) -> Subpool:
    """A subpool's row, with its usage, as the arithmetic sees it."""
    assert row.subpool_name
    assert row.subpool_state
    assert row.last_quota is not None
    return Subpool(row.subpool_name, SubpoolState(row.subpool_state), row.last_quota, row.usage.as_usage())


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
    """A pool with its shared leaf and its slices as the API shows it (api.md, "Subpools")."""
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


def list_accounts() -> QuerySet[User]:
    """Everybody's account by name, closed ones too, with the roles at hand and `token_count`."""
    return User.objects.order_by("username").prefetch_related("groups").annotate(token_count=Count("tokens"))
