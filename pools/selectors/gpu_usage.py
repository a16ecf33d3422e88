"""The data of the pages on GPU quota: meters of each namespace, its workers, its use over time.

Only for namespaces that the reader may see; the number of queries does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from pools.domain.gpu_quota.checks import GpuQuotaSpec
from pools.domain.gpu_quota.pool_settings import GPU_NAMESPACE
from pools.domain.gpu_quota.spec import SPEC_FIELDS
from pools.domain.gpu_quota.status import GAUGE_KEYS, WORKERS, GpuQuotaCondition, UsageGauge, usage_gauges
from pools.domain.gpu_quota.workers import RESOURCES, GpuAmounts, WorkerTotals
from pools.domain.numbers import GPU_QUOTA_NUMBERS
from pools.domain.values.quantities import Quantity, QuantityFormat
from pools.models import GpuAllocation, GpuQuota, GpuUsage, GpuUsageSample, Pool
from pools.representations.charts import Chart, ChartSeries
from pools.selectors.gpu_namespace import GpuNamespace, read_namespaces, totals_from_counters

HISTORY_PERIOD = timedelta(days=7)
MIN_CHART_STEP = timedelta(seconds=1)
"""The shortest time that the newest value is drawn."""

MAX_POINTS = 400

_UNITS = {"tflops": (1000, "TFLOPS"), "vram": (1000 * 2**30, "GiB"), "": (1, "workers")}
"""The size of one unit of a chart in the exact numbers, and its name, by resource."""


@dataclass(frozen=True, slots=True)
class GpuMeter:
    """One amount and its cap, ready for a page. Amounts are readable texts, empty for none; `committed`, `assumed` and
    `left` are lengths of the parts of the bar, at most 1000. `is_in_alert`: usage is above the alert threshold;
    `is_exceeded`: usage is above the cap."""

    key: str
    label: str
    used: str
    reserved: str
    cap: str
    available: str
    free: str
    per_gpu: str
    default: str
    committed: int
    assumed: int
    left: int
    is_in_alert: bool
    is_exceeded: bool

    @property
    def has_cap(self) -> bool:
        """Whether there is a bar to draw."""
        return bool(self.cap)


@dataclass(frozen=True, slots=True)
class NamespaceRow:
    """A namespace in the list or on its page. `status` is one word; it is UNLIMITED without a quota."""

    name: str
    status: str
    meters: tuple[GpuMeter, ...]
    workers: int
    source: str
    alert_since: datetime | None
    version: int | None


def namespace_rows(names: set[str] | None) -> list[NamespaceRow]:
    """Namespaces with a quota or with workers, by name; with `names` None all of them."""
    quotas, usage = GpuQuota.objects.all(), GpuUsage.objects.filter(workers__gt=0)
    if names is not None:
        quotas, usage = quotas.filter(namespace__in=names), usage.filter(namespace__in=names)
    known = {*quotas.values_list("namespace", flat=True), *usage.values_list("namespace", flat=True)}
    return [namespace_row(facts) for _, facts in sorted(read_namespaces(known).items())]


def namespace_row(facts: GpuNamespace) -> NamespaceRow:
    """One namespace, ready for a page."""
    return NamespaceRow(
        facts.name,
        namespace_status(facts),
        tuple(_meters(facts)),
        facts.committed.workers,
        "" if facts.quota is None else facts.quota.source,
        facts.quota.alert_since if facts.quota else None,
        facts.quota.version if facts.quota else None,
    )


def namespace_status(facts: GpuNamespace) -> str:
    """The status of a namespace in one word: the worst of its conditions."""
    if facts.quota is None:
        return "UNLIMITED"
    true = {condition.type for condition in facts.conditions(timezone.now()) if condition.status}
    if "Ready" not in true:
        return "INVALID"
    return "EXCEEDED" if "Exceeded" in true else "ALERT" if "AlertThresholdReached" in true else "OK"


def _meters(facts: GpuNamespace) -> Iterator[GpuMeter]:
    spec = facts.spec
    reserved = {gauge.key: gauge.used for gauge in usage_gauges(spec, facts.assumed)}
    for gauge in usage_gauges(spec, facts.committed):
        side, _, resource = gauge.key.partition(".")
        cap = gauge.total
        whole = max(cap or 0, gauge.used + reserved[gauge.key], 1)
        committed = min(1000, gauge.used * 1000 // whole)
        assumed = min(1000 - committed, reserved[gauge.key] * 1000 // whole)
        yield GpuMeter(
            key=gauge.key,
            label=GPU_QUOTA_NUMBERS[gauge.key].label,
            used=_text(facts.committed, gauge.key),
            reserved=_text(facts.assumed, gauge.key) if reserved[gauge.key] else "",
            cap="" if cap is None else _cap_text(spec, gauge.key),
            available="" if cap is None else gauge.available_text,
            free=""
            if cap is None
            else _number_text(max(0, cap - gauge.used), gauge.key, _family(facts.committed, gauge.key)),
            per_gpu="" if not resource else _per_gpu(spec, side, resource),
            default="" if not resource else _default(spec, side, resource),
            committed=committed,
            assumed=assumed,
            left=0 if cap is None else max(0, 1000 - committed - assumed),
            is_in_alert=gauge.available_percent < 100 - spec.alert_threshold,
            is_exceeded=gauge.is_exceeded,
        )


@dataclass(frozen=True, slots=True)
class ChangedGauge:
    """One amount of a namespace at a change of its caps: its use after the change, and the cap before and after,
    as readable texts; a missing cap is empty. `available` is a percentage of the cap after the change."""

    label: str
    used: str
    cap_before: str
    cap_after: str
    available: str
    is_exceeded: bool


def changed_gauges(before: GpuNamespace, after: GpuNamespace) -> list[ChangedGauge]:
    """The amounts with a cap before or after a change."""
    found = []
    for old, new in zip(*(usage_gauges(each.spec, each.committed) for each in (before, after)), strict=True):
        was, becomes = (_gauge_cap(each, gauge) for each, gauge in ((before, old), (after, new)))
        if was or becomes:
            used = _text(after.committed, new.key)
            found.append(
                ChangedGauge(GPU_QUOTA_NUMBERS[new.key].label, used, was, becomes, new.available_text, new.is_exceeded)
            )
    return found


def _gauge_cap(facts: GpuNamespace, gauge: UsageGauge) -> str:
    return "" if gauge.total is None else _cap_text(facts.spec, gauge.key)


def _text(held: WorkerTotals, key: str) -> str:
    side, _, resource = key.partition(".")
    return str(held.side(side).of(resource)) if resource else str(held.workers)


def _cap_text(spec: GpuQuotaSpec, key: str) -> str:
    side, _, resource = key.partition(".")
    return str(spec.total_caps(side).of(resource)) if resource else str(spec.max_workers)


def _cap(spec: GpuQuotaSpec, key: str) -> int | None:
    """The cap in the unit of the numbers; None without one."""
    side, _, resource = key.partition(".")
    if not resource:
        return spec.max_workers
    amount = spec.total_caps(side).of(resource)
    return None if amount is None else amount.milli


def _per_gpu(spec: GpuQuotaSpec, side: str, resource: str) -> str:
    cap = (spec.max_requests if side == "requests" else spec.max_limits).of(resource)
    return "" if cap is None or not cap.milli else str(cap)


def _default(spec: GpuQuotaSpec, side: str, resource: str) -> str:
    amounts: GpuAmounts = spec.default_requests if side == "requests" else spec.default_limits
    return str(amounts.of(resource)) if amounts.of(resource).milli else ""


def current_conditions(facts: GpuNamespace) -> list[GpuQuotaCondition]:
    """The conditions of a namespace with a quota."""
    return facts.conditions(timezone.now())


def allocations_in(namespace: str, *, include_released: bool) -> QuerySet[GpuAllocation]:
    """The workers of a namespace, the newest first."""
    rows = GpuAllocation.objects.filter(namespace=namespace).select_related("backend").order_by("-id")
    return rows if include_released else rows.exclude(state=GpuAllocation.State.RELEASED)


def pools_using_namespace(namespace: str, visible: QuerySet[Pool]) -> list[str]:
    """Names of the given pools whose work counts in the namespace."""
    rows = visible.filter(parent=None, archived=False, **{f"config__{GPU_NAMESPACE}": namespace})
    return list(rows.order_by("name").values_list("name", flat=True))


def usage_history(facts: GpuNamespace) -> list[Chart]:
    """Use of each amount over the last week, or since its first sample; no chart for an amount without samples."""
    now = timezone.now()
    recent = GpuUsageSample.objects.filter(namespace=facts.name, at__gte=now - HISTORY_PERIOD)
    samples = list(recent.order_by("-at")[:MAX_POINTS])[::-1]
    if not samples:
        return []
    held = [(sample.at, totals_from_counters(sample)) for sample in samples] + [(now, facts.committed)]
    since = now - HISTORY_PERIOD
    charts = []
    for key in GAUGE_KEYS:
        values = [_number(each, key) for _, each in held]
        if not any(values):
            continue
        family = _family(facts.committed, key)
        texts = ["–", *(_number_text(value, key, family) for value in values)]
        most = _number_text(max(values), key, family)
        size, unit = _UNITS[key.partition(".")[2]]
        drawn = [ChartSeries("Used", "plain", [None, *(value / size for value in values)], texts)]
        if cap := _cap(facts.spec, key):
            said = _cap_text(facts.spec, key)
            drawn.append(ChartSeries("Cap now", "quota", [cap / size] * len(texts), [said] * len(texts), is_line=True))
        charts.append(
            Chart(
                key=f"gpu-{key.replace('.', '-')}",
                title=GPU_QUOTA_NUMBERS[key].label,
                unit=unit,
                summary=f"At most {most} in the last week, now {_text(facts.committed, key)}.",
                times=[min(since, held[0][0]), *(at for at, _ in held)],
                end=now + MIN_CHART_STEP,
                series=drawn,
                axis=(since, now),
            )
        )
    return charts


def _number(held: WorkerTotals, key: str) -> int:
    side, _, resource = key.partition(".")
    return held.side(side).of(resource).milli if resource else held.workers


def _family(held: WorkerTotals, key: str) -> QuantityFormat:
    side, _, resource = key.partition(".")
    return held.side(side).of(resource).format if resource else QuantityFormat.DECIMAL


def _number_text(value: int, key: str, family: QuantityFormat) -> str:
    if key == WORKERS:
        return str(value)
    return str(
        Quantity(value, QuantityFormat.BINARY if key.endswith("vram") and family is QuantityFormat.DECIMAL else family)
    )


def spec_form_values(spec: GpuQuotaSpec) -> dict[str, Any]:
    """A spec as the texts of a form, by field."""
    found: dict[str, Any] = {}
    for each in SPEC_FIELDS:
        value = getattr(spec, each.input)
        if each.looks == "number":
            found[each.input] = value
            continue
        for resource in RESOURCES:
            amount = value.of(resource)
            is_said = amount is not None and (amount.milli or not isinstance(value, GpuAmounts))
            found[f"{each.input}_{resource}"] = str(amount) if is_said else ""
    return found
