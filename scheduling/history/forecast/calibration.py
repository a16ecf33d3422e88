"""Corrects forecasts by the errors of earlier ones that are scored by now, apart for each class of depth.

The logarithm of a wait has the middle of the sampled ones, and a spread. The 10 and the 90 % quantile are at as many
spreads from the middle as the true waits of earlier forecasts were: those of the class of the same depth in the queue
(`depth_class`), of the last bursts. A burst is the work of one queue that was forecast within an hour; it counts once,
however large it is, because its work waits alike. Before a class has scores, a few bursts of normal errors stand in.

The least spread is smaller the more GPUs must become free before the start: deep waits are sums of many ends, while at
the head one or two ends decide. The middle goes a part of the way to the mean of the waits that are scored, since a
small sample says too little of a wait that is far from all others; and it is later by a part of the spread, since
sampled futures leave out work that passes. It does not follow the single errors: the waits that are scored first are
the short ones, so that it would be wrong for the long ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from scheduling.domain.start_words import MOST_LIKE
from scheduling.history.forecast.baseline import size_class
from scheduling.history.forecast.scoring import LEVELS

GRAIN = 10.0
"""Seconds that are added to each wait before its logarithm."""
LEAST_SPREAD, AT_THE_HEAD = 0.25, 0.6
"""The least spread where very much work comes first, and what one GPU adds to it; n GPUs add this over their root."""
BURSTS = 60
"""The last bursts of a class."""
NORMAL_BURSTS = 8
"""The weight of the normal errors, in bursts."""
TO_MEAN = 0.2
"""The part of the way from the sampled middle to the mean of the waits that are scored."""
LATER = 0.2
"""The spreads by which the middle is later than the sampled one."""
MEMORY = 0.003
"""The weight of the newest wait in that mean."""

_NORMAL_ERRORS = tuple(NormalDist().inv_cdf((number + 0.5) / 10) for number in range(10))


def depth_class(before: int) -> int:
    """0, 1-7, 8-63 or more GPUs before the work in its queue, as a number from 0."""
    return 0 if before <= 0 else 1 if before < 8 else 2 if before < 64 else 3


Burst = tuple[str | int | None, int]
"""A queue and an hour."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where forecast work stood: its queue, the hour, its GPUs, and those of the work before it in its queue. `grows`:
    the quota there grows by itself so far that it has room for them, which sampled futures do not know."""

    queue: str | int | None
    hour: int
    gpus: int
    before: int
    grows: bool = False

    @property
    def depth(self) -> int:
        """Its class of depth."""
        return depth_class(self.before)

    @property
    def burst(self) -> Burst:
        """The burst that it belongs to."""
        return self.queue, self.hour


@dataclass(frozen=True, slots=True)
class Shape:
    """The middle and the spread of the logarithms of waits."""

    middle: float
    spread: float

    @classmethod
    def of(cls, waits: Sequence[float], gpus: int) -> Shape:
        """The shape of at least one sampled wait, in seconds. `gpus`: as many must become free before the start."""
        logs = sorted(math.log(wait + GRAIN) for wait in waits)
        count = len(logs)
        middle = (logs[(count - 1) // 2] + logs[count // 2]) / 2
        mean = sum(logs) / count
        variance = sum((log - mean) ** 2 for log in logs) / max(1, count - 1)
        least = LEAST_SPREAD + AT_THE_HEAD / math.sqrt(1 + gpus)
        return cls(middle, math.hypot(math.sqrt(variance), least))


def hour_of(made: float) -> int:
    """The hour in which a forecast was made, from seconds."""
    return int(made // 3600)


@dataclass(frozen=True, slots=True)
class Record:
    """Of the last forecasts like one, `like` could be scored, and the work of `in_time` had started by their 90 %
    quantile."""

    like: int = 0
    in_time: int = 0


class Calibration:
    """The errors of scored forecasts by class and burst, and the mean of the logarithms of waits. `mean`: None before
    the first score."""

    def __init__(self) -> None:
        self.mean: float | None = None
        self._count = 0
        self._errors: dict[int, dict[Burst, list[float]]] = {}
        """By depth and burst; the burst with the newest score is the last."""
        self._factors: dict[int, tuple[float, float]] = {}
        self._in_time: dict[tuple[int, int], list[bool]] = {}

    def corrected(self, shape: Shape) -> Shape:
        """The shape with the middle that is forecast; its scores are measured from there."""
        middle = shape.middle + LATER * shape.spread
        if self.mean is not None:
            middle += TO_MEAN * (self.mean - shape.middle)
        return Shape(middle, shape.spread)

    def quantiles(self, corrected: Shape, place: Place) -> tuple[float, ...]:
        """The quantiles of `LEVELS`, in seconds, ascending."""
        low, high = self.factors(place.depth)
        return tuple(
            max(0.0, math.exp(corrected.middle + factor * corrected.spread) - GRAIN)
            for factor in (min(low, 0.0), 0.0, max(high, 0.0))
        )

    def factors(self, depth: int) -> tuple[float, float]:
        """The spreads from the middle to the lowest and to the highest quantile, for a class of depth."""
        found = self._factors.get(depth)
        if found is None:
            weighed = [(error, NORMAL_BURSTS / len(_NORMAL_ERRORS)) for error in _NORMAL_ERRORS]
            for errors in self._errors.get(depth, {}).values():
                weighed += [(error, 1 / len(errors)) for error in errors]
            weighed.sort()
            found = self._factors[depth] = _weighted(weighed, LEVELS[0]), _weighted(weighed, LEVELS[-1])
        return found

    def scored(self, corrected: Shape, place: Place, wait: float, late: float) -> None:
        """The true wait of a forecast is known now; `late` was its highest quantile, in seconds."""
        log = math.log(wait + GRAIN)
        bursts = self._errors.setdefault(place.depth, {})
        errors = bursts.pop(place.burst, [])
        errors.append((log - corrected.middle) / corrected.spread)
        bursts[place.burst] = errors
        while len(bursts) > BURSTS:
            del bursts[next(iter(bursts))]
        self._factors.pop(place.depth, None)
        in_time = self._in_time.setdefault((place.depth, size_class(place.gpus)), [])
        in_time.append(wait <= late)
        del in_time[:-MOST_LIKE]
        self._count += 1
        mean = log if self.mean is None else self.mean
        self.mean = mean + max(MEMORY, 1 / self._count) * (log - mean)

    def record(self, place: Place) -> Record:
        """How the last forecasts of the same depth and size came true."""
        in_time = self._in_time.get((place.depth, size_class(place.gpus)), [])
        return Record(len(in_time), sum(in_time))


def _weighted(ordered: Sequence[tuple[float, float]], level: float) -> float:
    """A quantile of sorted values with weights, linear between the middles of two neighbours."""
    target = level * sum(weight for _value, weight in ordered)
    total = 0.0
    before: tuple[float, float] | None = None
    for value, weight in ordered:
        at = total + weight / 2
        if at >= target:
            if before is None:
                return value
            return before[0] + (value - before[0]) * (target - before[1]) / (at - before[1])
        before = value, at
        total += weight
    return ordered[-1][0]
