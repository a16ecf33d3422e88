"""Pools with their subpools, and cohorts → KAI's Queues (v2).

A cohort is a queue above others, with its own GPUs and those of all below it as its quota. CPU and memory are
unlimited. The topmost queues have no parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pools.domain.values.counting import counted
from scheduling.moving_out.quotas import (
    ExportedCohort,
    ExportedPool,
    ExportedQuota,
    ExportedTree,
    ForeignExport,
    lose_other_keys,
)

QUEUES_FILE: Final = "queues.yaml"
UNLIMITED: Final = -1
_FREE: Final = {"quota": UNLIMITED, "limit": UNLIMITED, "overQuotaWeight": 1}


def export_kai(tree: ExportedTree, export: ForeignExport) -> None:
    """Add the Queues."""
    totals = {cohort.name: _sum(cohort.flavors.values()) or 0 for cohort in tree.cohorts}
    parents = {cohort.name: cohort.parent for cohort in tree.cohorts}
    for pool in tree.pools:
        above = pool.cohort
        while above:
            totals[above] += _sum(pool.flavors.values()) or 0
            above = parents[above]
    for cohort in tree.cohorts:
        above = cohort.parent
        while above:
            totals[above] += _sum(cohort.flavors.values()) or 0
            above = parents[above]
    for cohort in tree.cohorts:
        _export_cohort(cohort, totals[cohort.name], export)
    for pool in tree.pools:
        _export_pool(pool, export)


def _export_cohort(cohort: ExportedCohort, total: int, export: ForeignExport) -> None:
    borrowing = [quota.borrowing for quota in cohort.flavors.values()]
    limit = total + sum(each or 0 for each in borrowing) if borrowing and None not in borrowing else UNLIMITED
    _lose_flavors(f"cohorts.{cohort.name}", cohort.flavors, export)
    _lose_lending(f"cohorts.{cohort.name}", cohort.flavors, export)
    export.add(QUEUES_FILE, _queue(cohort.name, cohort.parent, total, limit, cohort.weight))


def _export_pool(pool: ExportedPool, export: ForeignExport) -> None:
    lose_other_keys(pool, (), export, "KAI")
    _lose_flavors(f"pools.{pool.name}", pool.flavors, export)
    quota, bounds = _sum(pool.flavors.values()), [each.bound for each in pool.flavors.values()]
    limit = UNLIMITED if None in bounds else sum(each or 0 for each in bounds)
    if limit == 0:
        export.lose(f"pools.{pool.name}", "its limit is 0, so nothing runs in it.")
    _lose_lending(f"pools.{pool.name}", pool.flavors, export)
    total = UNLIMITED if quota is None else quota
    export.add(QUEUES_FILE, _queue(pool.name, pool.cohort, total, limit, pool.weight))
    for short, quotas in pool.subpools.items():
        name = pool.full_name(short)
        export.add(QUEUES_FILE, _queue(name, pool.name, sum(quotas.values()), UNLIMITED, 1))
    if pool.subpools:
        left = sum(pool.remainder(flavor) for flavor in pool.flavors)
        export.lose(
            f"pools.{pool.name}",
            f"work runs in queues without others below: what no subpool has ({counted(left, 'GPU')}) is shared by its "
            "subpools, and work of the pool itself needs a queue of its own.",
        )


def _lose_flavors(place: str, flavors: Any, export: ForeignExport) -> None:
    if len(flavors) > 1:
        export.lose(place, f"a queue of KAI has one number of GPUs: those of {', '.join(flavors)} are added.")


def _lose_lending(place: str, flavors: Mapping[str, ExportedQuota], export: ForeignExport) -> None:
    known = [quota.lending for quota in flavors.values() if quota.lending is not None]
    if known:
        export.lose(
            place,
            f"the lending limit {sum(known)}: a queue of KAI lends all that is idle, and the API server refuses an "
            "unknown value.",
        )


def _sum(flavors: Any) -> int | None:
    """The GPUs of all flavors; None for unlimited."""
    quotas: list[ExportedQuota] = list(flavors)
    return None if any(each.quota is None for each in quotas) else sum(each.quota or 0 for each in quotas)


def _queue(name: str, parent: str, quota: int, limit: int, weight: float) -> dict[str, Any]:
    spec: dict[str, Any] = {"parentQueue": parent} if parent else {}
    spec["resources"] = {
        "gpu": {"quota": quota, "limit": limit, "overQuotaWeight": weight},
        "cpu": dict(_FREE),
        "memory": dict(_FREE),
    }
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}
