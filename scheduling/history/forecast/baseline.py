"""The forecast without a simulation: the quantiles of recent waits (docs/forecast.md)."""

from __future__ import annotations

from collections import deque

from scheduling.history.forecast.scoring import LEVELS, quantile

RECENT = 200
TOO_FEW = 20


def size_class(gpus: int) -> int:
    """1, 2-4, 5-8 or more GPUs, as a number from 0."""
    return 0 if gpus <= 1 else 1 if gpus <= 4 else 2 if gpus <= 8 else 3


class RecentWaits:
    """The waits of the last `RECENT` started jobs, by team and size class; of all teams where fewer than `TOO_FEW` of
    the team's are known."""

    def __init__(self) -> None:
        self._own: dict[tuple[str, int], deque[float]] = {}
        self._all: dict[int, deque[float]] = {}
        self._any: deque[float] = deque(maxlen=RECENT)

    def started(self, team: str, gpus: int, wait: float) -> None:
        """A job started for the first time after this number of seconds."""
        size = size_class(gpus)
        self._own.setdefault((team, size), deque(maxlen=RECENT)).append(wait)
        self._all.setdefault(size, deque(maxlen=RECENT)).append(wait)
        self._any.append(wait)

    def forecast(self, team: str, gpus: int) -> tuple[float, ...]:
        """The quantiles of `LEVELS`, in seconds; zeros before any job started."""
        size = size_class(gpus)
        waits = self._own.get((team, size), ())
        if len(waits) < TOO_FEW:
            waits = self._all.get(size, ())
        if len(waits) < TOO_FEW:
            waits = self._any
        ordered = sorted(waits)
        return tuple(quantile(ordered, level) for level in LEVELS) if ordered else (0.0,) * len(LEVELS)
