"""The status of a namespace's GPU quota: the available percentages, conditions, and alerts.

Percentages are exact and only rounded for output. A condition follows the numbers at once. An alert notifies people, so
there is one for each crossing of the threshold: the next one needs a usage that has fallen by `CALM` points in between.
Source: design, G6, D14.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import TypedDict

from pools.domain.gpu_quota.checks import GpuQuotaSpec
from pools.domain.gpu_quota.workers import RESOURCES, SIDES, WorkerTotals
from pools.domain.numbers import gpu_quota_labels

READY, EXCEEDED, ALERT = "Ready", "Exceeded", "AlertThresholdReached"
UNCOUNTED = "UncountedAmounts"
MAX_NAMED_WORKERS = 5
WORKERS = "workers"
GAUGE_KEYS = (*(f"{side}.{resource}" for side in SIDES for resource in RESOURCES), WORKERS)
ALERT_HYSTERESIS = 5
"""Points of percent that use has to fall below the threshold before the next crossing is an alert again."""

_HUNDRED = Fraction(100)


@dataclass(frozen=True, slots=True)
class UsageGauge:
    """One of the five amounts with its cap, in thousandths (workers: whole). Without a cap everything is available; the
    same holds for a cap of zero, which has no percentage."""

    key: str
    used: int
    total: int | None

    @property
    def available_percent(self) -> Fraction:
        """The available percentage, 0 to 100, exact."""
        if not self.total:
            return _HUNDRED
        return min(_HUNDRED, max(Fraction(0), Fraction(self.total - self.used, self.total) * 100))

    def has_less_than(self, percent: int) -> bool:
        """Whether less than this percentage (0 to 100) is available; in whole numbers, because each allocation asks."""
        return bool(self.total and percent and (self.total - self.used) * 100 < percent * self.total)

    @property
    def is_exceeded(self) -> bool:
        """Whether the usage is above the cap."""
        return self.total is not None and self.used > self.total

    @property
    def available_text(self) -> str:
        """`"50.00"`; `"100"` without a cap to compare with."""
        return percent_text(self.available_percent) if self.total else "100"

    @property
    def short_text(self) -> str:
        """The available percentage as people read it: `"54"`, and `"<1"` for little."""
        percent = self.available_percent
        return "<1" if 0 < percent < 1 else str(int(percent))


class ConditionBody(TypedDict):
    """A condition of the GPUResourceQuota object."""

    type: str
    status: str
    reason: str
    message: str
    lastTransitionTime: datetime


@dataclass(frozen=True, slots=True)
class GpuQuotaCondition:
    """One condition as in Kubernetes. `since` is the time of the last change of its status."""

    type: str
    status: bool
    reason: str
    message: str
    since: datetime

    def as_dict(self) -> ConditionBody:
        """The condition for JSON; the time stays a `datetime`."""
        return {
            "type": self.type,
            "status": str(self.status),
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": self.since,
        }


def percent_text(percent: Fraction) -> str:
    """The percentage with two decimals; halves are rounded to even."""
    exact = Decimal(percent.numerator) / Decimal(percent.denominator)
    return str(exact.quantize(Decimal("0.01"), rounding=ROUND_HALF_EVEN))


def usage_gauges(spec: GpuQuotaSpec, used: WorkerTotals) -> list[UsageGauge]:
    """The five gauges, in the order of the status."""
    found = []
    for side in SIDES:
        for resource in RESOURCES:
            cap = spec.total_caps(side).of(resource)
            held = used.side(side).of(resource).milli
            found.append(UsageGauge(f"{side}.{resource}", held, None if cap is None else cap.milli))
    return [*found, UsageGauge(WORKERS, used.workers, spec.max_workers)]


def gauges_in_alert(spec: GpuQuotaSpec, used: WorkerTotals) -> list[UsageGauge]:
    """The gauges with less available than the threshold requires."""
    return [gauge for gauge in usage_gauges(spec, used) if gauge.has_less_than(100 - spec.alert_threshold)]


def alerts_after_change(spec: GpuQuotaSpec, used: WorkerTotals, raised: Collection[str]) -> list[str]:
    """The amounts with an active alert, given those with an active alert before. An amount that moves up and down
    around the threshold counts as one crossing; each amount is judged separately."""
    left = 100 - spec.alert_threshold
    calm = min(100, left + ALERT_HYSTERESIS)
    return [
        gauge.key for gauge in usage_gauges(spec, used) if gauge.has_less_than(calm if gauge.key in raised else left)
    ]


def compute_conditions(
    spec: GpuQuotaSpec,
    used: WorkerTotals,
    before: Sequence[GpuQuotaCondition],
    now: datetime,
    *,
    faults: Sequence[str] = (),
) -> list[GpuQuotaCondition]:
    """Ready, Exceeded and AlertThresholdReached as they are now; a condition with an unchanged status keeps its time.
    `faults` are messages about a newer spec that is not valid; the old one is then still in force."""
    since = {condition.type: condition for condition in before}
    return [_with_previous_time(condition, since, now) for condition in _conditions(spec, used, now, faults)]


@dataclass(frozen=True, slots=True)
class UncountedWorker:
    """A worker whose pod says amounts that are not counted: in `annotations`, names with spaces between them."""

    workload: str
    annotations: str
    since: datetime


def uncounted_condition(workers: Sequence[UncountedWorker]) -> GpuQuotaCondition:
    """The condition about pods with amounts that are not counted (at least one); it exists only while there are such
    pods."""
    named = [f"{each.workload} ({each.annotations.replace(' ', ', ')})" for each in workers[:MAX_NAMED_WORKERS]]
    more = f" and {len(workers) - len(named)} more" if len(workers) > len(named) else ""
    count = "1 worker has" if len(workers) == 1 else f"{len(workers)} workers have"
    message = (
        f"{count} annotations that are not counted, because they cannot be read or are percentages of a GPU: "
        f"{', '.join(named)}{more}. Such an amount counts as the default of the namespace, without one as nothing, and "
        "such a number of GPUs as the GPUs that the pod has. Correct the annotations of these pods."
    )
    return GpuQuotaCondition(UNCOUNTED, True, "UnreadableAnnotations", message, min(each.since for each in workers))


def _with_previous_time(
    condition: GpuQuotaCondition, before: Mapping[str, GpuQuotaCondition], now: datetime
) -> GpuQuotaCondition:
    old = before.get(condition.type)
    since = old.since if old is not None and old.status == condition.status else now
    return GpuQuotaCondition(condition.type, condition.status, condition.reason, condition.message, since)


def _conditions(
    spec: GpuQuotaSpec, used: WorkerTotals, now: datetime, faults: Sequence[str]
) -> Iterator[GpuQuotaCondition]:
    if faults:
        said = "The newest spec is not valid and the one before it is in force: " + " ".join(faults)
        yield GpuQuotaCondition(READY, False, "InvalidSpec", said, now)
    else:
        yield GpuQuotaCondition(READY, True, "QuotaReady", "The quota is valid and enforced.", now)
    over = gpu_quota_labels(gauge.key for gauge in usage_gauges(spec, used) if gauge.is_exceeded)
    if over:
        yield GpuQuotaCondition(EXCEEDED, True, "QuotaExceeded", f"More is used than allowed: {', '.join(over)}.", now)
    else:
        yield GpuQuotaCondition(EXCEEDED, False, "QuotaNotExceeded", "Nothing is used beyond its total.", now)
    low = gauges_in_alert(spec, used)
    left = 100 - spec.alert_threshold
    if low:
        labels = gpu_quota_labels(gauge.key for gauge in low)
        near = [f"{label} {gauge.available_text}" for label, gauge in zip(labels, low, strict=True)]
        said = f"Less than {left} percent is available: {', '.join(near)}."
        yield GpuQuotaCondition(ALERT, True, "AlertThresholdReached", said, now)
    else:
        yield GpuQuotaCondition(
            ALERT, False, "AlertThresholdNotReached", f"At least {left} percent of each is available.", now
        )
