"""The data of the pages on GPU quota: meters of each namespace, its workers, its use over time.

Only for namespaces that the reader may see; the number of queries does not depend on their number.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
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
from pools.models import AuditEntry, GpuAllocation, GpuQuota, GpuUsage, GpuUsageSample, Pool
from pools.representations.charts import Chart, ChartSeries, number_text
from pools.selectors.gpu_namespace import GpuNamespace, read_namespaces, read_spec, totals_from_counters

HISTORY_PERIOD = timedelta(days=7)
MIN_CHART_STEP = timedelta(seconds=1)
"""The shortest time that the newest value is drawn."""

MAX_POINTS = 400

_WHOLE_PART = re.compile(r"^\d{4,}")
_UNITS = {"tflops": (1000, "TFLOPS"), "vram": (1000 * 2**30, "GiB"), "": (1, "workers")}
"""The size of one unit of a chart in the exact numbers, and its name, by resource."""


@dataclass(frozen=True, slots=True)
class GpuMeter:
    """One amount and its cap, ready for a page. Amounts are readable texts, empty for none; `percent` of the cap is in
    use, None without a cap to compare with. `committed`, `assumed` and `left` are lengths of the parts of the bar, at
    most 1000. `is_in_alert`: usage is above the alert threshold; `is_exceeded`: usage is above the cap."""

    key: str
    label: str
    used: str
    reserved: str
    cap: str
    available: str
    percent: int | None
    free: str
    per_gpu: str
    default: str
    committed: int
    assumed: int
    left: int
    is_in_alert: bool
    is_exceeded: bool
    exact: tuple[float, float | None]
    """What is used and the cap as numbers, in TFLOPS, bytes or workers."""

    @property
    def short_label(self) -> str:
        """The label where a row has little place: what is requested is not said."""
        return self.label.removesuffix(" requested")

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

    @property
    def is_noted(self) -> bool:
        """Whether a note at the head of its page says the status."""
        return self.status == "EXCEEDED" or (self.status == "ALERT" and self.alert_since is not None)

    @property
    def in_short(self) -> set[str]:
        """The keys of one amount of each resource: of its request, or of its limit where that is closer to its cap."""
        found: dict[str, GpuMeter] = {}
        for meter in self.meters:
            resource = meter.key.rpartition(".")[2]
            other = found.setdefault(resource, meter)
            if (meter.percent or 0) > (other.percent or 0):
                found[resource] = meter
        return {meter.key for meter in found.values()}


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


def _exact_number(thousandths: int, key: str) -> float:
    """An amount without its unit; workers are counted whole."""
    number = thousandths / 1000 if "." in key else thousandths
    return int(number) if number == int(number) else number


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
            available="" if cap is None else gauge.short_text,
            percent=gauge.used * 100 // cap if cap else None,
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
            exact=(_exact_number(gauge.used, gauge.key), None if cap is None else _exact_number(cap, gauge.key)),
        )


@dataclass(frozen=True, slots=True)
class ChangedGauge:
    """One amount of a namespace at a change of its caps: its use after the change, and the cap before and after,
    as readable texts; a missing cap is empty. `available` is a percentage of the cap after the change, and `meter` has
    the bar of that time."""

    label: str
    used: str
    cap_before: str
    cap_after: str
    available: str
    is_exceeded: bool
    meter: GpuMeter


def changed_gauges(before: GpuNamespace, after: GpuNamespace) -> list[ChangedGauge]:
    """The amounts with a cap before or after a change."""
    found = []
    meters = {meter.key: meter for meter in _meters(after)}
    for old, new in zip(*(usage_gauges(each.spec, each.committed) for each in (before, after)), strict=True):
        was, becomes = (_gauge_cap(each, gauge) for each, gauge in ((before, old), (after, new)))
        if was or becomes:
            meter = meters[new.key]
            found.append(ChangedGauge(meter.label, meter.used, was, becomes, new.short_text, new.is_exceeded, meter))
    return found


def _gauge_cap(facts: GpuNamespace, gauge: UsageGauge) -> str:
    return "" if gauge.total is None else _cap_text(facts.spec, gauge.key)


def _text(held: WorkerTotals, key: str) -> str:
    side, _, resource = key.partition(".")
    return apart(held.side(side).of(resource) if resource else held.workers)


def _cap_text(spec: GpuQuotaSpec, key: str) -> str:
    side, _, resource = key.partition(".")
    return apart(spec.total_caps(side).of(resource) if resource else spec.max_workers)


def _cap(spec: GpuQuotaSpec, key: str) -> int | None:
    """The cap in the unit of the numbers; None without one."""
    side, _, resource = key.partition(".")
    if not resource:
        return spec.max_workers
    amount = spec.total_caps(side).of(resource)
    return None if amount is None else amount.milli


def _per_gpu(spec: GpuQuotaSpec, side: str, resource: str) -> str:
    cap = (spec.max_requests if side == "requests" else spec.max_limits).of(resource)
    return "" if cap is None or not cap.milli else apart(cap)


def _default(spec: GpuQuotaSpec, side: str, resource: str) -> str:
    amounts: GpuAmounts = spec.default_requests if side == "requests" else spec.default_limits
    return apart(amounts.of(resource)) if amounts.of(resource).milli else ""


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
    """Use of each amount over the last week, or since its first sample, and its cap at that time; no chart for an
    amount without samples."""
    now = timezone.now()
    since = now - HISTORY_PERIOD
    recent = GpuUsageSample.objects.filter(namespace=facts.name, at__gte=since)
    samples = list(recent.order_by("-at")[:MAX_POINTS])[::-1]
    if not samples:
        return []
    changes = _changes_of_caps(facts.name, since)
    uses = [(sample.at, totals_from_counters(sample)) for sample in samples] + [(now, facts.committed)]
    times = sorted({since, *(at for at, _ in uses), *(at for at, _ in changes)})
    held = [_last_before(uses, at) for at in times]
    specs = [_next_after(changes, at, facts.spec) for at in times]
    charts = []
    for key in GAUGE_KEYS:
        values = [None if each is None else _number(each, key) for each in held]
        if not any(values):
            continue
        family = _family(facts.committed, key)
        texts = ["–" if value is None else _number_text(value, key, family) for value in values]
        most = _number_text(max(value for value in values if value is not None), key, family)
        size, unit = _UNITS[key.partition(".")[2]]
        drawn = [ChartSeries("Used", "plain", [None if value is None else value / size for value in values], texts)]
        caps = [_cap(spec, key) for spec in specs]
        if any(caps):
            said = ["–" if cap is None else _cap_text(spec, key) for cap, spec in zip(caps, specs, strict=True)]
            lines = [None if cap is None else cap / size for cap in caps]
            drawn.append(ChartSeries("Cap", "quota", lines, said, is_line=True))
        charts.append(
            Chart(
                key=f"gpu-{key.replace('.', '-')}",
                title=GPU_QUOTA_NUMBERS[key].label,
                unit=unit,
                summary=f"At most {most} in the last week, now {_text(facts.committed, key)}.",
                times=times,
                end=now + MIN_CHART_STEP,
                series=drawn,
                axis=(since, now),
            )
        )
    return charts


def _changes_of_caps(namespace: str, since: datetime) -> list[tuple[datetime, GpuQuotaSpec]]:
    """The times since then at which caps changed, with the caps before, the oldest first."""
    entries = AuditEntry.objects.filter(object=f"gpu_quota/{namespace}", time__gte=since)
    rows = entries.order_by("-id").values_list("time", "before__spec", "after__spec")[:MAX_POINTS]
    changed = [(at, before) for at, before, after in rows if before != after]
    return [(at, GpuQuotaSpec() if spec is None else read_spec(spec)) for at, spec in reversed(changed)]


def _last_before(uses: Sequence[tuple[datetime, WorkerTotals]], at: datetime) -> WorkerTotals | None:
    place = bisect_right(uses, at, key=itemgetter(0))
    return uses[place - 1][1] if place else None


def _next_after(changes: Sequence[tuple[datetime, GpuQuotaSpec]], at: datetime, now: GpuQuotaSpec) -> GpuQuotaSpec:
    """The caps in force at a time: those before the next change."""
    place = bisect_right(changes, at, key=itemgetter(0))
    return changes[place][1] if place < len(changes) else now


def _number(held: WorkerTotals, key: str) -> int:
    side, _, resource = key.partition(".")
    return held.side(side).of(resource).milli if resource else held.workers


def _family(held: WorkerTotals, key: str) -> QuantityFormat:
    side, _, resource = key.partition(".")
    return held.side(side).of(resource).format if resource else QuantityFormat.DECIMAL


def _number_text(value: int, key: str, family: QuantityFormat) -> str:
    if key == WORKERS:
        return apart(value)
    is_binary = key.endswith("vram") and family is QuantityFormat.DECIMAL
    return apart(Quantity(value, QuantityFormat.BINARY if is_binary else family))


def apart(amount: object) -> str:
    """An amount with the thousands of its whole part apart; a unit stays."""
    return _WHOLE_PART.sub(lambda digits: number_text(int(digits[0])), str(amount))


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
