"""How a namespace stands against its quota: percent still available, three conditions, and an alert once per crossing.

Percent is exact and only rounded when printed. The condition follows the numbers strictly; the alert, which wakes
people, is raised when the threshold is passed and only raised again after use has gone back by `CALM` points.
Source: tensorfusion-quota.md, section 8; decision D14.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import Any

from pools.domain.gpu_quota.checks import GpuQuotaSpec
from pools.domain.gpu_quota.workers import RESOURCES, SIDES, WorkerTotals

READY, EXCEEDED, ALERT = "Ready", "Exceeded", "AlertThresholdReached"
WORKERS = "workers"
GAUGE_KEYS = (*(f"{side}.{resource}" for side in SIDES for resource in RESOURCES), WORKERS)
ALERT_HYSTERESIS = 5
"""Points of percent that use has to fall below the threshold before the next crossing is an alert again."""

_HUNDRED = Fraction(100)


@dataclass(frozen=True, slots=True)
class UsageGauge:
    """One of the five amounts against its cap, in thousandths (workers: whole). Without a cap all of it is available,
    as with a cap of zero, which has no percent."""

    key: str
    used: int
    total: int | None

    @property
    def available_percent(self) -> Fraction:
        """Percent that is left, 0 to 100, exactly."""
        if not self.total:
            return _HUNDRED
        return min(_HUNDRED, max(Fraction(0), Fraction(self.total - self.used, self.total) * 100))

    @property
    def is_exceeded(self) -> bool:
        """Whether more is used than the cap, strictly."""
        return self.total is not None and self.used > self.total

    @property
    def available_text(self) -> str:
        """`"50.00"`; `"100"` where there is nothing to measure against."""
        return percent_text(self.available_percent) if self.total else "100"


@dataclass(frozen=True, slots=True)
class GpuQuotaCondition:
    """One condition as Kubernetes has them. `since` is when its status last changed."""

    type: str
    status: bool
    reason: str
    message: str
    since: datetime

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the time stays a time."""
        return {
            "type": self.type,
            "status": str(self.status),
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": self.since,
        }


def percent_text(percent: Fraction) -> str:
    """Two decimals, halves to the even one."""
    exact = Decimal(percent.numerator) / Decimal(percent.denominator)
    return str(exact.quantize(Decimal("0.01"), rounding=ROUND_HALF_EVEN))


def usage_gauges(spec: GpuQuotaSpec, used: WorkerTotals) -> list[UsageGauge]:
    """The five, in the order of the status."""
    found = []
    for side in SIDES:
        for resource in RESOURCES:
            cap = spec.total_caps(side).of(resource)
            held = used.side(side).of(resource).milli
            found.append(UsageGauge(f"{side}.{resource}", held, None if cap is None else cap.milli))
    return [*found, UsageGauge(WORKERS, used.workers, spec.max_workers)]


def gauges_in_alert(spec: GpuQuotaSpec, used: WorkerTotals) -> list[UsageGauge]:
    """Those with strictly less available than the threshold leaves."""
    return [gauge for gauge in usage_gauges(spec, used) if gauge.available_percent < 100 - spec.threshold]


def alerts_after_change(spec: GpuQuotaSpec, used: WorkerTotals, raised: Collection[str]) -> list[str]:
    """The amounts whose alert stands now, given those whose alert stood before: what goes up and down around the
    threshold is one crossing, and of each amount by itself."""
    left = 100 - spec.threshold
    calm = min(100, left + ALERT_HYSTERESIS)
    return [
        gauge.key
        for gauge in usage_gauges(spec, used)
        if gauge.available_percent < (calm if gauge.key in raised else left) or gauge.available_percent < left
    ]


def compute_conditions(
    spec: GpuQuotaSpec,
    used: WorkerTotals,
    before: Sequence[GpuQuotaCondition],
    now: datetime,
    *,
    faults: Sequence[str] = (),
) -> list[GpuQuotaCondition]:
    """Ready, Exceeded and AlertThresholdReached as they are now; one whose status stays keeps its time.

    `faults` are sentences about a newer spec that could not be taken; the old one is then still in force.
    """
    since = {condition.type: condition for condition in before}
    return [_kept(condition, since, now) for condition in _conditions(spec, used, now, faults)]


def _kept(condition: GpuQuotaCondition, before: Mapping[str, GpuQuotaCondition], now: datetime) -> GpuQuotaCondition:
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
    over = [gauge.key for gauge in usage_gauges(spec, used) if gauge.is_exceeded]
    if over:
        yield GpuQuotaCondition(EXCEEDED, True, "QuotaExceeded", f"More is used than allowed: {', '.join(over)}.", now)
    else:
        yield GpuQuotaCondition(EXCEEDED, False, "QuotaNotExceeded", "Nothing is used beyond its total.", now)
    near = [f"{gauge.key} {gauge.available_text}" for gauge in gauges_in_alert(spec, used)]
    left = 100 - spec.threshold
    if near:
        said = f"Less than {left} percent is available: {', '.join(near)}."
        yield GpuQuotaCondition(ALERT, True, "AlertThresholdReached", said, now)
    else:
        yield GpuQuotaCondition(
            ALERT, False, "AlertThresholdNotReached", f"At least {left} percent of each is available.", now
        )
