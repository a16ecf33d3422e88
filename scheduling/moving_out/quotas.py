"""The pools and cohorts of one cluster as an export needs them, from the forms of our files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pools.domain.configuration.ownership import OwnedKind
from pools.domain.names import canonical_name
from pools.domain.quota.tree import LIMIT_KEYS
from pools.domain.values.amounts import DEFAULT_FLAVOR, NO_LIMIT
from scheduling.configuration.bodies import SECTION_BY_KIND, SUBPOOLS, SUBPOOLS_OWNER
from scheduling.configuration.texts import Objects

GPU: Final = "gpu"
QUOTA_KEYS: Final = frozenset({"backend", "cohort", "resources", *LIMIT_KEYS, SUBPOOLS, SUBPOOLS_OWNER})
"""The keys of a pool that every export reads."""
_ELSEWHERE: Final[Mapping[OwnedKind, str]] = {
    OwnedKind.ROLE: "people get their rights there from the access rules of the cluster.",
    OwnedKind.GPU_QUOTA: "a GPU quota of a namespace counts parts of GPUs, which queues do not.",
    OwnedKind.SETTINGS: "settings of OSMO Admin itself.",
}


@dataclass(frozen=True, slots=True)
class ExportedQuota:
    """The GPUs of one flavor. `maximum`, `borrowing`, `lending` None: no limit; `quota` None: unlimited."""

    quota: int | None
    maximum: int | None = None
    borrowing: int | None = None
    lending: int | None = None

    @property
    def bound(self) -> int | None:
        """The most GPUs at one time, None without a limit."""
        limits = [] if self.maximum is None else [self.maximum]
        if self.borrowing is not None and self.quota is not None:
            limits.append(self.quota + self.borrowing)
        return min(limits, default=None)


@dataclass(frozen=True, slots=True)
class ExportedPool:
    """A pool. `subpools` have GPUs by flavor, by short name."""

    name: str
    cohort: str
    weight: int | float
    flavors: Mapping[str, ExportedQuota]
    subpools: Mapping[str, Mapping[str, int]]
    body: Mapping[str, Any]

    def full_name(self, short: str) -> str:
        """The name of a subpool among all pools."""
        return canonical_name(self.name, short)

    def remainder(self, flavor: str) -> int:
        """The GPUs of a flavor that no subpool has."""
        return (self.flavors[flavor].quota or 0) - sum(each.get(flavor, 0) for each in self.subpools.values())


@dataclass(frozen=True, slots=True)
class ExportedCohort:
    """A cohort with its own GPUs by flavor."""

    name: str
    parent: str
    weight: int | float
    flavors: Mapping[str, ExportedQuota]


@dataclass(slots=True)
class ForeignExport:
    """The objects of an export by file, and a sentence for each part without a counterpart."""

    documents: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)

    def add(self, file: str, document: dict[str, Any]) -> None:
        """Add an object to a file."""
        self.documents.setdefault(file, []).append(document)

    def lose(self, place: str, why: str) -> None:
        """Name a part that has no counterpart."""
        self.lost.append(f"{place}: {why}")


@dataclass(frozen=True, slots=True)
class ExportedTree:
    """What an export begins with: the pools of one cluster, the cohorts above them (parents first), and the labels of
    the cluster's flavors."""

    pools: tuple[ExportedPool, ...]
    cohorts: tuple[ExportedCohort, ...]
    flavors: Mapping[str, Mapping[str, str]]


def read_tree(objects: Objects, backend: str, export: ForeignExport) -> ExportedTree:
    """The pools of the cluster with the cohorts above them. What no export has is named once."""
    pools, bodies = [], {}
    for (kind, name), body in sorted(objects.items(), key=lambda each: each[0]):
        place = SECTION_BY_KIND[kind].key if SECTION_BY_KIND[kind].is_single else f"{SECTION_BY_KIND[kind].key}.{name}"
        if kind in _ELSEWHERE:
            export.lose(place, _ELSEWHERE[kind])
        elif kind is OwnedKind.COHORT:
            bodies[name] = body
        elif kind is OwnedKind.POOL and body["backend"] == backend:
            pools.append(_read_pool(name, body))
        elif kind is OwnedKind.POOL:
            export.lose(place, f"is on another cluster, {body['backend']}.")
    above = list(dict.fromkeys(cohort for pool in pools for cohort in _chain(pool.cohort, bodies)))
    for name in sorted(set(bodies) - set(above)):
        export.lose(f"cohorts.{name}", f"has no pool on {backend}.")
    cohorts = tuple(_read_cohort(name, bodies.get(name, {}), export) for name in sorted(above))
    found = objects.get((OwnedKind.BACKEND, backend), {})
    flavors = {each["name"]: dict(each["node_labels"]) for each in found.get("flavors", [])}
    return ExportedTree(tuple(pools), cohorts, flavors)


def lose_other_keys(pool: ExportedPool, read: Iterable[str], export: ForeignExport, where: str) -> None:
    """Name the keys of a pool, other than its quotas, that this export does not have."""
    for key in pool.body:
        if key not in QUOTA_KEYS and key not in read:
            export.lose(f"pools.{pool.name}.{key}", f"{where} has no such value.")


def _chain(cohort: str, bodies: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A cohort and those above it."""
    found: list[str] = []
    while cohort and cohort not in found:
        found.append(cohort)
        cohort = bodies.get(cohort, {}).get("parent", "")
    return found


def _read_pool(name: str, body: Mapping[str, Any]) -> ExportedPool:
    resources = body.get("resources") or {}
    gpu, named = resources.get("gpu") or {}, resources.get("flavors")
    if named:
        flavors = {flavor: _read_amounts(row, row.get("guarantee")) for flavor, row in named.items()}
    else:
        flavors = {DEFAULT_FLAVOR: _read_amounts({**body, **gpu}, gpu.get("guarantee", NO_LIMIT))}
    only = next(iter(flavors))
    subpools = {
        short: dict(quota) if isinstance(quota, Mapping) else {only: quota}
        for short, quota in body.get(SUBPOOLS, {}).items()
    }
    return ExportedPool(name, body.get("cohort", ""), gpu.get("weight", 1), flavors, subpools, body)


def _read_cohort(name: str, body: Mapping[str, Any], export: ForeignExport) -> ExportedCohort:
    flavors = {}
    for row in body.get("quotas", []):
        flavor = row.get("flavor", DEFAULT_FLAVOR)
        if row["resource"] == GPU:
            flavors[flavor] = _read_amounts(row, row.get("nominal", 0))
        else:
            export.lose(f"cohorts.{name}.quotas.{flavor}/{row['resource']}", "only quotas of GPUs are exported.")
    return ExportedCohort(name, body.get("parent", ""), body.get("weight", 1), flavors)


def _read_amounts(row: Mapping[str, Any], quota: int | None) -> ExportedQuota:
    maximum = row.get("maximum")
    borrowing, lending = (row.get(key) for key in LIMIT_KEYS)
    return ExportedQuota(
        None if quota == NO_LIMIT else quota, None if maximum == NO_LIMIT else maximum, borrowing, lending
    )
