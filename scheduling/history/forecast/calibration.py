"""Corrects forecasts by the errors of earlier ones that are scored by now.

The logarithm of a wait has the middle of the sampled ones, and quantiles at a factor times their spread below and above
it. After each score both factors move a little to the side on which the true wait was, by the gradient of the pinball
loss (Gibbs and Candès 2021, adaptive conformal inference), within bounds. Work that comes together waits alike, so the
errors of one hour's forecasts count as those of few: together they move a factor by a bounded amount. Otherwise one
large burst would decide how wide the forecasts of all later ones are. The middle goes a part of the way to the mean
of the waits that are scored, since a small sample says too little of a wait that is far from all others; and it is
later by a part of the spread, since sampled futures leave out work that passes. It does not follow the single errors:
the waits that are scored first are the short ones, so that it would be wrong for the long ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scheduling.history.forecast.scoring import LEVELS

GRAIN = 10.0
"""Seconds that are added to each wait before its logarithm."""
LEAST_SPREAD, MOST_SPREAD = 0.55, 1.2
FIRST_FACTOR, LEAST_FACTOR, MOST_FACTOR = 1.3, 1.0, 5.0
PACE, MOST_STEP = 0.3, 0.1
"""The step by which the errors of all forecasts of one hour move a factor, and the largest step for one forecast."""
TO_MEAN = 0.2
"""The part of the way from the sampled middle to the mean of the waits that are scored."""
LATER = 0.2
"""The spreads by which the middle is later than the sampled one."""
MEMORY = 0.003
"""The weight of the newest wait in that mean."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The middle and the spread of the logarithms of sampled waits."""

    middle: float
    spread: float

    @classmethod
    def of(cls, waits: Sequence[float]) -> Shape:
        """The shape of at least one sampled wait, in seconds."""
        logs = sorted(math.log(wait + GRAIN) for wait in waits)
        count = len(logs)
        middle = (logs[(count - 1) // 2] + logs[count // 2]) / 2
        mean = sum(logs) / count
        variance = sum((log - mean) ** 2 for log in logs) / max(1, count - 1)
        return cls(middle, min(MOST_SPREAD, math.sqrt(variance + LEAST_SPREAD**2)))


def hour_of(made: float) -> int:
    """The hour in which a forecast was made, from seconds."""
    return int(made // 3600)


class Calibration:
    """The factors of the lowest and the highest quantile, and the mean of the logarithms of waits, which follow the
    scores. `mean`: None before the first score."""

    def __init__(self) -> None:
        self.below = self.above = FIRST_FACTOR
        self.mean: float | None = None
        self._count = 0

    def _logs(self, shape: Shape) -> tuple[float, float, float]:
        middle = shape.middle + LATER * shape.spread
        if self.mean is not None:
            middle += TO_MEAN * (self.mean - shape.middle)
        return middle - self.below * shape.spread, middle, middle + self.above * shape.spread

    def quantiles(self, shape: Shape) -> tuple[float, ...]:
        """The quantiles of `LEVELS`, in seconds, ascending."""
        return tuple(max(0.0, math.exp(log) - GRAIN) for log in self._logs(shape))

    def scored(self, shape: Shape, wait: float, together: int = 1) -> None:
        """The true wait of a forecast of this shape is known now. `together`: the forecasts of its hour."""
        log = math.log(wait + GRAIN)
        low, _middle, high = self._logs(shape)
        step = min(MOST_STEP, PACE / together)
        self.below = _bounded(self.below - step * (LEVELS[0] - (log <= low)))
        self.above = _bounded(self.above + step * (LEVELS[-1] - (log <= high)))
        self._count += 1
        mean = log if self.mean is None else self.mean
        self.mean = mean + max(MEMORY, 1 / self._count) * (log - mean)


def _bounded(factor: float) -> float:
    return min(MOST_FACTOR, max(LEAST_FACTOR, factor))
