"""Pools, cohorts and flavors → Kueue's ClusterQueues, Cohorts and ResourceFlavors (v1beta1).

A pool is a ClusterQueue. A pool with subpools is a Cohort with one for each subpool, and one for what they leave.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from pools.domain.configuration.pool_fields import IN_MAINTENANCE
from pools.domain.configuration.pool_flavors import NEXT, PREEMPT, SWITCHES
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.domain.values.counting import counted
from scheduling.moving_out.quotas import (
    ExportedCohort,
    ExportedPool,
    ExportedQuota,
    ExportedTree,
    ForeignExport,
    lose_other_keys,
)

RESOURCE: Final = "nvidia.com/gpu"
PLAIN_FLAVOR: Final = "default-flavor"
"""The ResourceFlavor of nodes without a flavor."""
MOST_FLAVORS: Final = 16
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
FLAVORS_FILE, COHORTS_FILE, QUEUES_FILE = "resourceflavors.yaml", "cohorts.yaml", "clusterqueues.yaml"
_KEYS: Final = frozenset({*SWITCHES, *IN_MAINTENANCE, "hold_after"})
_PREEMPTION: Final = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}


def export_kueue(tree: ExportedTree, export: ForeignExport) -> None:
    """Add the objects of Kueue."""
    used = {flavor: None for pool in tree.pools for flavor in pool.flavors}
    used |= {flavor: None for cohort in tree.cohorts for flavor in cohort.flavors}
    names = _flavor_names(used, export)
    for flavor in used:
        labels = tree.flavors.get(flavor)
        if labels is None and flavor != DEFAULT_FLAVOR:
            export.lose(f"flavor {flavor}", "the cluster has no such flavor, so its nodes have no labels.")
        spec = {"nodeLabels": dict(labels)} if labels else {}
        export.add(FLAVORS_FILE, _object("ResourceFlavor", names[flavor], spec))
    for cohort in tree.cohorts:
        export.add(COHORTS_FILE, _object("Cohort", cohort.name, _cohort_spec(cohort, names)))
    for pool in tree.pools:
        if any(quota.quota is None for quota in pool.flavors.values()):
            export.lose(f"pools.{pool.name}", "an unlimited quota has no counterpart in Kueue. Give it a number first.")
        else:
            _export_pool(pool, names, export)
    if tree.pools:
        export.lose("LocalQueues", "make one in each namespace whose people submit to a ClusterQueue.")


def _flavor_names(flavors: Iterable[str], export: ForeignExport) -> dict[str, str]:
    """The name of each flavor there: lower-case letters, digits, hyphens and points, each once."""
    found: dict[str, str] = {}
    for flavor in sorted(flavors, key=lambda each: (each != DEFAULT_FLAVOR, not _NAME.fullmatch(each), each)):
        plain = PLAIN_FLAVOR if flavor == DEFAULT_FLAVOR else re.sub(r"[^a-z0-9.]+", "-", flavor.lower())
        plain = plain if _NAME.fullmatch(plain) else re.sub(r"[^a-z0-9]+", "-", plain)
        name, number = plain, 2
        while name in found.values():
            name, number = f"{plain}-{number}", number + 1
        found[flavor] = name
        if flavor not in (name, DEFAULT_FLAVOR):
            export.lose(f"flavor {flavor}", f"it is called {name} there, where names are in lower case and different.")
    if len(found) > MOST_FLAVORS:
        export.lose("flavors", f"{len(found)} in one group of resources; older versions of Kueue take {MOST_FLAVORS}.")
    return found


def _export_pool(pool: ExportedPool, names: Mapping[str, str], export: ForeignExport) -> None:
    lose_other_keys(pool, _KEYS, export, "Kueue")
    if pool.body.get("hold_after"):
        export.lose(f"pools.{pool.name}.hold_after", "Kueue holds later work back for ever (StrictFIFO) or never.")
    for flavor, quota in pool.flavors.items():
        if not pool.cohort and quota.bound != quota.quota:
            most = "without limit" if quota.quota is None else f"at most {counted(quota.quota, 'GPU')}"
            export.lose(f"pools.{pool.name}", f"without a cohort nobody borrows in Kueue: {most} ({flavor}).")
        elif quota.maximum is not None:
            export.lose(f"pools.{pool.name}", f"the maximum {quota.maximum} ({flavor}) is a borrowingLimit there.")
    if not pool.subpools:
        export.add(QUEUES_FILE, _queue(pool, pool.name, pool.cohort, pool.flavors, names, weight=pool.weight))
        return
    limits = {
        flavor: ExportedQuota(0, borrowing=_borrowing(quota), lending=quota.lending)
        for flavor, quota in pool.flavors.items()
        if pool.cohort and (_borrowing(quota) is not None or quota.lending is not None)
    }
    cohort = ExportedCohort(pool.name, pool.cohort, pool.weight, limits)
    export.add(COHORTS_FILE, _object("Cohort", pool.name, _cohort_spec(cohort, names)))
    shares = {
        pool.name: {flavor: pool.remainder(flavor) for flavor in pool.flavors},
        **{pool.full_name(short): quotas for short, quotas in pool.subpools.items()},
    }
    for name, quotas in shares.items():
        amounts = {flavor: ExportedQuota(quotas.get(flavor, 0)) for flavor in pool.flavors}
        export.add(QUEUES_FILE, _queue(pool, name, pool.name, amounts, names, weight=1))


def _queue(
    pool: ExportedPool,
    name: str,
    cohort: str,
    flavors: Mapping[str, ExportedQuota],
    names: Mapping[str, str],
    *,
    weight: float,
) -> dict[str, Any]:
    spec: dict[str, Any] = {"namespaceSelector": {}, "preemption": dict(_PREEMPTION)}
    if cohort:
        spec["cohort"] = cohort
    if weight != 1:
        spec["fairSharing"] = {"weight": str(weight)}
    borrow, preempt = SWITCHES
    choices = {
        "whenCanBorrow": "TryNextFlavor" if pool.body.get(borrow) == NEXT else "",
        "whenCanPreempt": "Preempt" if pool.body.get(preempt) == PREEMPT else "",
    }
    if any(choices.values()):
        spec["flavorFungibility"] = {key: word for key, word in choices.items() if word}
    if IN_MAINTENANCE.items() <= pool.body.items():
        spec["stopPolicy"] = "Hold"
    if pool.body.get("hold_after") == 0:
        spec["queueingStrategy"] = "StrictFIFO"
    lent = {flavor: replace(each, lending=_lending(each)) for flavor, each in flavors.items()}
    spec["resourceGroups"] = _groups(lent, names, has_parent=bool(cohort))
    return _object("ClusterQueue", name, spec)


def _cohort_spec(cohort: ExportedCohort, names: Mapping[str, str]) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if cohort.parent:
        spec["parentName"] = cohort.parent
    if cohort.weight != 1:
        spec["fairSharing"] = {"weight": str(cohort.weight)}
    if cohort.flavors:
        spec["resourceGroups"] = _groups(cohort.flavors, names, has_parent=bool(cohort.parent))
    return spec


def _groups(
    flavors: Mapping[str, ExportedQuota], names: Mapping[str, str], *, has_parent: bool
) -> list[dict[str, Any]]:
    rows = []
    for flavor, quota in flavors.items():
        amounts: dict[str, Any] = {"name": RESOURCE, "nominalQuota": quota.quota or 0}
        if has_parent and (borrowing := _borrowing(quota)) is not None:
            amounts["borrowingLimit"] = borrowing
        if has_parent and quota.lending is not None:
            amounts["lendingLimit"] = quota.lending
        rows.append({"name": names[flavor], "resources": [amounts]})
    return [{"coveredResources": [RESOURCE], "flavors": rows}]


def _borrowing(quota: ExportedQuota) -> int | None:
    return None if quota.bound is None else max(0, quota.bound - (quota.quota or 0))


def _lending(quota: ExportedQuota) -> int | None:
    """The lending limit of a queue, which Kueue refuses above its quota."""
    return None if quota.lending is None else min(quota.lending, quota.quota or 0)


def _object(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name}}
    return {**found, "spec": dict(spec)} if spec else found
