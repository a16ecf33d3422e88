"""Samples of the remaining run times of work, drawn from the run times of the work most like it.

The run times of one kind of work are estimated from its last started attempts (Kaplan and Meier 1958): an attempt that
still runs, or that was preempted, says that it lasts at least that long. Without that the quick ends of the newest
attempts would make all work look short. Beyond the longest run that is known, work that ran for t seconds runs for
another t with probability one half. Times are seconds.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from scheduling.history.forecast.baseline import size_class
from scheduling.history.forecast.chance import exponential, spread_chance

REMEMBERED = 1500
"""Attempts of one kind that are remembered."""
WINDOWS = (15, 30, 60, 120, 250)
"""A future sees the last attempts of each kind until this number of them have ended by themselves: which of them are
like the next ones is not known either."""
ENOUGH = 8
"""Attempts that ended by themselves, which are enough to draw from a kind."""
LONGEST = 60 * 86_400.0
SHORTEST = 1.0
UNKNOWN = 300.0
"""The median of new work that no known work is like."""
GUESS_SPREAD = 2
"""The power of the spread where nothing is known at all: one in ten such runs is 100 times as long as it has run."""

_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class WorkKind:
    """What is known of work before it runs."""

    team: str
    gpus: int
    user: str = ""
    name: str = ""
    limit: float | None = None

    def like(self) -> tuple[Hashable, ...]:
        """The kinds of work that it is like, the most like it first."""
        size = size_class(self.gpus)
        found: list[Hashable] = []
        if self.name:
            found.append(("name", self.team, self.user, _NUMBERS.sub("", self.name), size))
        if self.user:
            found.append(("user", self.team, self.user, size))
        return (*found, ("team", self.team, size), ("size", size), ("all",))


@dataclass(slots=True)
class Attempt:
    """One run: its own name, when it started, and how long it ran if it is over; `is_whole`: it ended by itself."""

    start: float
    name: str = ""
    ran: float | None = None
    is_whole: bool = False


class RunTimes:
    """The last attempts of every kind of work."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, deque[Attempt]] = {}

    def started(self, kind: WorkKind, now: float, name: str = "") -> Attempt:
        """An attempt started; its end gives the answer."""
        attempt = Attempt(now, name)
        for key in kind.like():
            self._kinds.setdefault(key, deque(maxlen=REMEMBERED)).append(attempt)
        return attempt

    @staticmethod
    def ended(attempt: Attempt, now: float, *, is_whole: bool) -> None:
        """The attempt ended by itself, or was taken away."""
        attempt.ran, attempt.is_whole = now - attempt.start, is_whole

    def recent(self, key: Hashable, whole: int) -> list[Attempt]:
        """The last attempts of a kind, the newest first, until enough of them ended by themselves; no attempts if
        fewer than `ENOUGH` did."""
        found = []
        left = whole
        for attempt in reversed(self._kinds.get(key, ())):
            found.append(attempt)
            left -= attempt.is_whole
            if not left:
                break
        return found if whole - left >= min(ENOUGH, whole) else []


class RunTimeDraws:
    """The run times of one sampled future, as known at `now`."""

    def __init__(self, known: RunTimes, now: float, future: int) -> None:
        self._known, self._now, self._future = known, now, future
        self._window = WINDOWS[future % len(WINDOWS)]
        self._curves: dict[Hashable, Survival | None] = {}

    def run_time(self, name: str, kind: WorkKind, elapsed: float = 0.0) -> float:
        """How long the attempt of a gang runs in all, that has run for `elapsed` seconds."""
        drawn, share = None, spread_chance(self._future, "run", name)
        for key in kind.like():
            curve = self._curve(key)
            if curve is not None:
                drawn = curve.draw(elapsed, share)
                if drawn is not None:
                    break
        if drawn is None:
            # Half of such work runs as long again as it has run. Where nothing is known at all half of it runs for four
            # times as long, and one in ten for a hundred times: a forecast that follows from it has to show that.
            is_guess = all(self._curves[key] is None for key in kind.like())
            drawn = max(elapsed, UNKNOWN / 2) / max(1 - share, 1e-4) ** (GUESS_SPREAD if is_guess else 1)
        if kind.limit is not None:
            drawn = min(drawn, kind.limit)
        return min(max(drawn, elapsed + SHORTEST, SHORTEST), max(LONGEST, elapsed + SHORTEST))

    def _curve(self, key: Hashable) -> Survival | None:
        if key not in self._curves:
            attempts = self._known.recent(key, self._window)
            weighted = [(attempt, exponential(self._future, "weight", attempt.name)) for attempt in attempts]
            self._curves[key] = Survival.of(weighted, self._now) if weighted else None
        return self._curves[key]


class Survival:
    """A survival curve: `times` ascending and the share of work that runs longer than each of them."""

    def __init__(self, times: Sequence[float], shares: Sequence[float]) -> None:
        self._times, self._shares = times, shares
        self._falling = [-share for share in shares]

    @classmethod
    def of(cls, attempts: Sequence[tuple[Attempt, float]], now: float) -> Survival:
        """The curve of these attempts, each with a weight. In a future the weights are random (Rubin 1981), so that
        futures differ as much as so few attempts leave open."""
        ordered = sorted(
            ((now - a.start if a.ran is None else a.ran), not a.is_whole, weight) for a, weight in attempts
        )
        at_risk = sum(weight for _time, _censored, weight in ordered)
        times, shares, share = [], [], 1.0
        for time, is_censored, weight in ordered:
            if not is_censored:
                share *= max(0.0, 1 - weight / at_risk) if at_risk > weight else 0.0
                times.append(time)
                shares.append(share)
            at_risk -= weight
        return cls(times, shares)

    def draw(self, elapsed: float, share: float) -> float | None:
        """The run time that this share of the work does not reach that runs longer than `elapsed`; None if nobody is
        known to have run that long."""
        at = bisect_right(self._times, elapsed)
        left = 1.0 if at == 0 else self._shares[at - 1]
        if at == len(self._times) or left <= 0:
            return None
        target = left * (1 - share)
        found = bisect_right(self._falling, -target, at)
        if found < len(self._times):
            return self._times[found]
        longest = max(self._times[-1], elapsed)
        return longest * self._shares[-1] / max(target, 1e-4 * left) if self._shares[-1] > 0 else longest
