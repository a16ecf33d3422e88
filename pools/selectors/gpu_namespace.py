"""GPU namespaces as facts: the quota of a namespace and the usage of its workers. :mod:`pools.locking` reads the same
facts under a lock."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from django.db import connection

from pools.domain.gpu_quota.checks import GpuQuotaSpec
from pools.domain.gpu_quota.spec import parse_gpu_quota_spec
from pools.domain.gpu_quota.status import (
    GpuQuotaCondition,
    UncountedWorker,
    compute_conditions,
    uncounted_condition,
)
from pools.domain.gpu_quota.workers import GpuAmounts, GpuWorker, WorkerTotals
from pools.domain.values.quantities import Quantity, QuantityFormat
from pools.models import GpuAllocation, GpuQuota, GpuUsage, GpuUsageSample
from pools.models.gpu_quota import AMOUNTS, COUNTERS

USAGE_COLUMNS = [field.attname for field in GpuUsage._meta.concrete_fields]
_QUOTA = [field.attname for field in GpuQuota._meta.concrete_fields]
QUOTAS_SQL = f"SELECT {', '.join(_QUOTA)} FROM pools_gpuquota WHERE namespace = ANY(%s)"
_ALLOCATION = [field.attname for field in GpuAllocation._meta.concrete_fields]
_PLACE_OF_WRITTEN = _ALLOCATION.index("written")
NEWEST_ALLOCATION_SQL = (
    f"SELECT {', '.join(_ALLOCATION)} FROM pools_gpuallocation WHERE namespace = %s AND name = %s"
    " ORDER BY id DESC LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class GpuNamespace:
    """One namespace: the row of its quota, if any, and the amounts of its workers, committed and assumed. `uncounted`
    are workers whose pods say amounts that are not counted; it is only filled where the facts are read to be shown."""

    name: str
    quota: GpuQuota | None
    committed: WorkerTotals
    assumed: WorkerTotals
    changed_at: datetime | None = None
    revision: int = 0
    uncounted: tuple[UncountedWorker, ...] = ()

    @property
    def spec(self) -> GpuQuotaSpec:
        """The caps; without a quota there are none."""
        return GpuQuotaSpec() if self.quota is None else spec_from_row(self.quota)

    @property
    def committed_and_assumed(self) -> WorkerTotals:
        """Committed and assumed amounts together: the use that a check of a new worker starts from."""
        return self.committed + self.assumed

    def conditions(self, now: datetime) -> list[GpuQuotaCondition]:
        """The current conditions, with the stored times of their changes; none without a quota."""
        if self.quota is None:
            return []
        found = compute_conditions(
            self.spec, self.committed, stored_condition_times(self.quota), now, faults=self.quota.faults
        )
        return [*found, uncounted_condition(self.uncounted)] if self.uncounted else found


def spec_from_row(quota: GpuQuota) -> GpuQuotaSpec:
    """The caps of a row, which were validated when the row was written."""
    return read_spec(quota.spec)


def read_spec(spec: object) -> GpuQuotaSpec:
    """The caps that a valid spec says."""
    return _spec_of(json.dumps(spec))


@lru_cache(maxsize=1024)
def _spec_of(text: str) -> GpuQuotaSpec:
    """Reading a spec costs more than a check of its caps, and every allocation needs the one of its namespace."""
    return parse_gpu_quota_spec(json.loads(text))[0]


def stored_condition_times(quota: GpuQuota) -> list[GpuQuotaCondition]:
    """The stored status and time of each condition."""
    return [
        GpuQuotaCondition(kept["type"], kept["status"], "", "", datetime.fromisoformat(kept["since"]))
        for kept in quota.conditions
    ]


def quota_row(row: Sequence[Any]) -> GpuQuota:
    """A row as a model instance; a plain cursor returns JSON as text."""
    values = dict(zip(_QUOTA, row, strict=True))
    for name in ("spec", "faults", "conditions", "alerting"):
        values[name] = json.loads(values[name]) if isinstance(values[name], str) else values[name]
    return GpuQuota.from_db(connection.alias, _QUOTA, list(values.values()))


def allocation_row(row: Sequence[Any]) -> GpuAllocation:
    """A row as a model instance; a plain cursor returns JSON as text."""
    values = list(row)
    if isinstance(values[_PLACE_OF_WRITTEN], str):
        values[_PLACE_OF_WRITTEN] = json.loads(values[_PLACE_OF_WRITTEN])
    return GpuAllocation.from_db(connection.alias, _ALLOCATION, values)


def read_namespaces(names: Iterable[str]) -> dict[str, GpuNamespace]:
    """The same facts without a lock; they may be outdated as soon as they are read."""
    wanted = sorted(set(names))
    quotas = GpuQuota.objects.filter(namespace__in=wanted)
    found = namespace_facts(wanted, GpuUsage.objects.filter(namespace__in=wanted), quotas)
    rows = GpuAllocation.objects.filter(namespace__in=wanted).exclude(state=GpuAllocation.State.RELEASED)
    uncounted: dict[str, list[UncountedWorker]] = {}
    for row in rows.exclude(uncounted="").order_by("id"):
        worker = UncountedWorker(row.workload, row.uncounted, row.created_at)
        uncounted.setdefault(row.namespace, []).append(worker)
    for namespace, workers in uncounted.items():
        found[namespace] = replace(found[namespace], uncounted=tuple(workers))
    return found


def namespace_facts(
    names: Sequence[str], usage: Iterable[GpuUsage], limits: Iterable[GpuQuota]
) -> dict[str, GpuNamespace]:
    quotas = {row.namespace: row for row in limits}
    found = {name: GpuNamespace(name, quotas.get(name), WorkerTotals(), WorkerTotals()) for name in names}
    for row in usage:
        found[row.namespace] = GpuNamespace(
            row.namespace,
            quotas.get(row.namespace),
            totals_from_counters(row),
            totals_from_counters(row, "assumed_"),
            row.changed_at,
            row.revision,
        )
    return found


def totals_from_counters(row: GpuUsage | GpuUsageSample, prefix: str = "", families: str | None = None) -> WorkerTotals:
    """The counters of a row: the committed amounts, or with the prefix `assumed_` the reserved ones. A sample has no
    `families` of its own."""
    printed = families if families is not None else row.families if isinstance(row, GpuUsage) else "DDDD"
    sums = [
        quantity_from_decimal(getattr(row, f"{prefix}{name}"), printed[place])
        for place, name in enumerate(COUNTERS[:4])
    ]
    return WorkerTotals(GpuAmounts(sums[0], sums[1]), GpuAmounts(sums[2], sums[3]), getattr(row, f"{prefix}workers"))


def worker_from_row(row: GpuAllocation) -> GpuWorker:
    """The worker of an allocation, with the amounts as they were typed."""
    found = [
        quantity_from_decimal(amount, family, written)
        for amount, family, written in zip(
            (getattr(row, name) for name in AMOUNTS),
            row.families,
            row.written or ("",) * 4,
            strict=True,
        )
    ]
    return GpuWorker(GpuAmounts(found[0], found[1]), GpuAmounts(found[2], found[3]), row.count)


def allocation_columns(worker: GpuWorker) -> dict[str, Any]:
    """A worker as the columns of an allocation."""
    amounts = (worker.request.tflops, worker.request.vram, worker.limit.tflops, worker.limit.vram)
    return {
        **dict(zip(AMOUNTS, map(_decimal, amounts), strict=True)),
        "count": worker.count,
        "families": "".join(amount.format for amount in amounts),
        "written": [amount.written for amount in amounts],
    }


def quantity_from_decimal(amount: Decimal, family: str, written: str = "") -> Quantity:
    """A stored amount as a quantity. Exact at any length, where Decimal's own arithmetic would round."""
    numerator, denominator = amount.as_integer_ratio()
    return Quantity(numerator * 1000 // denominator, QuantityFormat(family), written)


def _decimal(amount: Quantity) -> Decimal:
    return Decimal(amount.milli).scaleb(-3)


def conditions_to_store(found: Iterable[GpuQuotaCondition]) -> list[Mapping[str, Any]]:
    """Conditions in the format of the row."""
    return [{"type": each.type, "status": each.status, "since": each.since.isoformat()} for each in found]
