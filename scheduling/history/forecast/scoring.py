"""Scores of forecasts: the share of starts inside the interval, and the pinball loss of the quantiles."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

LEVELS = (0.1, 0.5, 0.9)
"""The quantiles of a forecast."""


DEPTHS = 4
"""The classes of depth in a queue (`calibration.depth_class`)."""


def pinball(level: float, forecast: float, actual: float) -> float:
    """The pinball (quantile) loss of one quantile, in the unit of the values; 0 is best."""
    over = actual - forecast
    return level * over if over >= 0 else (level - 1) * over


def mean_pinball(forecast: Sequence[float], actual: float) -> float:
    """The mean loss of the three quantiles of `LEVELS`."""
    losses = [pinball(level, value, actual) for level, value in zip(LEVELS, forecast, strict=True)]
    return sum(losses) / len(losses)


@dataclass(frozen=True, slots=True)
class ScoredForecast:
    """The quantiles of `LEVELS` and the true wait, in seconds; the class of depth and the burst of the work, and the
    quantiles of the baseline."""

    quantiles: Sequence[float]
    wait: float
    depth: int = 0
    burst: Hashable = None
    baseline: Sequence[float] = ()

    @property
    def is_inside(self) -> bool:
        """Whether the true wait is between the lowest and the highest quantile."""
        return self.quantiles[0] <= self.wait <= self.quantiles[-1]


@dataclass(slots=True)
class Score:
    """The sums of forecasts that are scored. Times in seconds."""

    count: int = 0
    inside: int = 0
    loss: float = 0.0

    def add(self, forecast: Sequence[float], actual: float) -> None:
        """Score one forecast: its three quantiles, and the true value."""
        self.count += 1
        self.inside += forecast[0] <= actual <= forecast[-1]
        self.loss += mean_pinball(forecast, actual)

    @property
    def coverage(self) -> float | None:
        """The share of true values between the lowest and the highest quantile; None before the first."""
        return self.inside / self.count if self.count else None

    @property
    def pinball(self) -> float | None:
        """The mean loss; None before the first."""
        return self.loss / self.count if self.count else None


def burst_coverage(scored: Sequence[ScoredForecast]) -> float | None:
    """The mean over bursts of the share of true waits inside; None without any."""
    bursts: dict[Hashable, list[bool]] = {}
    for each in scored:
        bursts.setdefault(each.burst, []).append(each.is_inside)
    return sum(sum(inside) / len(inside) for inside in bursts.values()) / len(bursts) if bursts else None


def scores_of(scored: Sequence[ScoredForecast]) -> dict[str, float | int | None]:
    """The scores of these forecasts."""
    count = len(scored)
    return {
        "scored": count,
        "bursts": len({each.burst for each in scored}),
        "coverage_80": sum(each.is_inside for each in scored) / count if count else None,
        "coverage_80_of_bursts": burst_coverage(scored),
        "pinball": sum(mean_pinball(each.quantiles, each.wait) for each in scored) / count if count else None,
        "pinball_baseline": sum(mean_pinball(each.baseline, each.wait) for each in scored) / count if count else None,
    }


def quantile(ordered: Sequence[float], level: float) -> float:
    """A quantile of sorted values, which are at least one, linear between two neighbours."""
    at = (len(ordered) - 1) * level
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)
