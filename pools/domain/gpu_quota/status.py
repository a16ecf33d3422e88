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
from pools.domain.gpu_quota.workers import RESOURCES, SIDES, Held

READY, EXCEEDED, ALERT = "Ready", "Exceeded", "AlertThresholdReached"
WORKERS = "workers"
KEYS = (*(f"{side}.{resource}" for side in SIDES for resource in RESOURCES), WORKERS)
CALM = 5
"""Points of percent that use has to fall below the threshold before the next crossing is an alert again."""

_HUNDRED = Fraction(100)


@dataclass(frozen=True, slots=True)
class Gauge:
    """One of the five amounts against its cap, in thousandths (workers: whole). Without a cap all of it is available,
    as with a cap of zero, which has no percent."""

    key: str
    used: int
    total: int | None

    @property
    def available(self) -> Fraction:
        """Percent that is left, 0 to 100, exactly."""
        if not self.total:
            return _HUNDRED
        return min(_HUNDRED, max(Fraction(0), Fraction(self.total - self.used, self.total) * 100))

    @property
    def is_exceeded(self) -> bool:
        """Whether more is used than the cap, strictly."""
        return self.total is not None and self.used > self.total

    @property
    def printed(self) -> str:
        """`"50.00"`; `"100"` where there is nothing to measure against."""
        return percent_text(self.available) if self.total else "100"


@dataclass(frozen=True, slots=True)
class Condition:
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


def gauges(spec: GpuQuotaSpec, used: Held) -> list[Gauge]:
    """The five, in the order of the status."""
    found = []
    for side in SIDES:
        for resource in RESOURCES:
            cap = spec.total(side).of(resource)
            held = used.side(side).of(resource).milli
            found.append(Gauge(f"{side}.{resource}", held, None if cap is None else cap.milli))
    return [*found, Gauge(WORKERS, used.workers, spec.max_workers)]


def in_alert(spec: GpuQuotaSpec, used: Held) -> list[Gauge]:
    """Those with strictly less available than the threshold leaves."""
    return [gauge for gauge in gauges(spec, used) if gauge.available < 100 - spec.threshold]


def alerts_after(spec: GpuQuotaSpec, used: Held, raised: Collection[str]) -> list[str]:
    """The amounts whose alert stands now, given those whose alert stood before: what goes up and down around the
    threshold is one crossing, and of each amount by itself."""
    left = 100 - spec.threshold
    calm = min(100, left + CALM)
    return [
        gauge.key
        for gauge in gauges(spec, used)
        if gauge.available < (calm if gauge.key in raised else left) or gauge.available < left
    ]


def conditions(
    spec: GpuQuotaSpec, used: Held, before: Sequence[Condition], now: datetime, *, faults: Sequence[str] = ()
) -> list[Condition]:
    """Ready, Exceeded and AlertThresholdReached as they are now; one whose status stays keeps its time.

    `faults` are sentences about a newer spec that could not be taken; the old one is then still in force.
    """
    since = {condition.type: condition for condition in before}
    return [_kept(condition, since, now) for condition in _conditions(spec, used, now, faults)]


def _kept(condition: Condition, before: Mapping[str, Condition], now: datetime) -> Condition:
    old = before.get(condition.type)
    since = old.since if old is not None and old.status == condition.status else now
    return Condition(condition.type, condition.status, condition.reason, condition.message, since)


def _conditions(spec: GpuQuotaSpec, used: Held, now: datetime, faults: Sequence[str]) -> Iterator[Condition]:
    if faults:
        said = "The newest spec is not valid and the one before it is in force: " + " ".join(faults)
        yield Condition(READY, False, "InvalidSpec", said, now)
    else:
        yield Condition(READY, True, "QuotaReady", "The quota is valid and enforced.", now)
    over = [gauge.key for gauge in gauges(spec, used) if gauge.is_exceeded]
    if over:
        yield Condition(EXCEEDED, True, "QuotaExceeded", f"More is used than allowed: {', '.join(over)}.", now)
    else:
        yield Condition(EXCEEDED, False, "QuotaNotExceeded", "Nothing is used beyond its total.", now)
    near = [f"{gauge.key} {gauge.printed}" for gauge in in_alert(spec, used)]
    left = 100 - spec.threshold
    if near:
        said = f"Less than {left} percent is available: {', '.join(near)}."
        yield Condition(ALERT, True, "AlertThresholdReached", said, now)
    else:
        yield Condition(ALERT, False, "AlertThresholdNotReached", f"At least {left} percent of each is available.", now)
