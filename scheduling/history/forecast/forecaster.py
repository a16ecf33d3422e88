"""Forecasts along a clock: each job that cannot start when it arrives gets one, and each is scored when it starts.

Several jobs share one set of sampled futures: a job that comes later reads the waits of the work that had as many GPUs
before it in its own queue when the set was made. A set is made anew when it is old, or when the job is far behind all
work in it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from scheduling.domain.engine.facts import GangFacts
from scheduling.domain.priorities import Priority
from scheduling.history.forecast.arrivals import REMEMBERED, Arrival, RecentArrivals
from scheduling.history.forecast.baseline import RecentWaits, size_class
from scheduling.history.forecast.calibration import Calibration, Place, Shape, hour_of
from scheduling.history.forecast.chance import SPREAD
from scheduling.history.forecast.futures import GangInfo, Present, sample_waits
from scheduling.history.forecast.lines import Line, is_within, is_young
from scheduling.history.forecast.runtimes import Attempt, RunTimes, WorkKind
from scheduling.history.forecast.scoring import DEPTHS, ScoredForecast, scores_of
from scheduling.history.replay.clock import EndReason, LiveJob, ReplayClock, ReplayObserver, gang_name
from scheduling.history.replay.jobs import SECOND, Job

FUTURES = SPREAD

Queue = tuple[str, Priority]
Key = tuple[str, Priority, int]
"""A queue and a size class."""
FIRST_ID = 900_000_000
"""Sampled jobs have rows after those of a trace,"""
LATER = 10**18
"""and come after all of them."""


def kind_of(job: Job) -> WorkKind:
    """What is known of a job before it runs."""
    return WorkKind(job.team, job.gpus, job.user, job.name, None if job.limit is None else job.limit / SECOND)


@dataclass(slots=True)
class FutureSet:
    """Sampled futures, read for one queue and size class."""

    made: int
    lines: list[Line]
    middle: float

    def is_good_for(self, now: int, before: int) -> bool:
        """Whether a job that comes now with these GPUs before it may read it."""
        age = (now - self.made) / SECOND
        most = max((line.before[-1] for line in self.lines), default=-1)
        return is_young(age, self.middle) and is_within(before, most)


@dataclass(slots=True)
class Open:
    """A forecast whose work waits. `counts`: it is part of the scores; every forecast widens or narrows later ones."""

    place: Place
    corrected: Shape
    quantiles: Sequence[float]
    baseline: Sequence[float]
    counts: bool


class Forecaster(ReplayObserver):
    """Forecasts and their scores. It sees what happened, and the duration of a job only at its end."""

    def __init__(
        self, *, futures: int = FUTURES, score_since: int = 0, stopwatch: Callable[[], float] = time.perf_counter
    ) -> None:
        """`score_since`: forecasts of jobs submitted before this instant of the clock do not count in the scores."""
        self._futures, self._score_since, self._stopwatch = futures, score_since, stopwatch
        self._run_times, self._recent = RunTimes(), RecentWaits()
        self._arrived: deque[Job] = deque(maxlen=REMEMBERED)
        self._attempts: dict[str, Attempt] = {}
        self._longest: dict[str, float] = {}
        self._waiting: dict[Queue, int] = {}
        self._sets: dict[Key, FutureSet] = {}
        self._open: dict[str, Open] = {}
        self.calibration = Calibration()
        self.made_for_scores = self.sets_made = 0
        self.scored: list[ScoredForecast] = []
        self._made = 0
        self._seconds = 0.0

    # -- what happens ------------------------------------------------------------------------------------------------

    def arrived(self, live: LiveJob) -> None:
        self._arrived.append(live.job)
        self._count(live.job, 1)

    def started(self, live: LiveJob) -> None:
        job, now = live.job, live.start or 0
        self._count(job, -1)
        self._attempts[live.name] = self._run_times.started(kind_of(job), now / SECOND, f"{live.name} {live.attempt}")
        if live.attempt > 1:
            return
        wait = (now - job.submit) / SECOND
        self._recent.started(job.team, job.gpus, wait)
        forecast = self._open.pop(live.name, None)
        if forecast is None:
            return
        self.calibration.scored(forecast.corrected, forecast.place, wait, forecast.quantiles[-1])
        if forecast.counts:
            place = forecast.place
            self.scored.append(ScoredForecast(forecast.quantiles, wait, place.depth, place.burst, forecast.baseline))

    def ended(self, live: LiveJob, now: int, reason: EndReason, lost: int) -> None:
        attempt = self._attempts.pop(live.name)
        RunTimes.ended(attempt, now / SECOND, is_whole=reason is EndReason.FINISHED)
        if reason is EndReason.PREEMPTED:
            self._count(live.job, 1)
            self._longest[live.name] = max(self._longest.get(live.name, 0.0), attempt.ran or 0.0)
        else:
            self._longest.pop(live.name, None)

    def _count(self, job: Job, sign: int) -> None:
        queue = job.team, job.priority
        self._waiting[queue] = self._waiting.get(queue, 0) + sign * job.gpus

    # -- forecasts ---------------------------------------------------------------------------------------------------

    def waits(self, clock: ReplayClock, live: LiveJob) -> None:
        began = self._stopwatch()
        job = live.job
        before = self._gpus_before(job)
        place = Place(job.team, hour_of(clock.now / SECOND), job.gpus, before)
        shape = Shape.of(self._sampled_waits(clock, live, before), before + job.gpus)
        corrected = self.calibration.corrected(shape)
        quantiles = self.calibration.quantiles(corrected, place)
        self._seconds += self._stopwatch() - began
        counts = job.submit >= self._score_since
        self._made += 1
        self.made_for_scores += counts
        self._open[live.name] = Open(place, corrected, quantiles, self._recent.forecast(job.team, job.gpus), counts)

    def _gpus_before(self, job: Job) -> int:
        """The GPUs of the waiting work before a job, which waits itself, in its queue."""
        return sum(gpus for queue, gpus in self._waiting.items() if _is_before(queue, job)) - job.gpus

    def _sampled_waits(self, clock: ReplayClock, live: LiveJob, before: int) -> list[float]:
        job = live.job
        known = self._sets.get(_key(job))
        if known is None or not known.is_good_for(clock.now, before):
            known = self._make(clock, live)
        return [line.wait(before, job.gpus) for line in known.lines]

    def _make(self, clock: ReplayClock, live: LiveJob) -> FutureSet:
        """New futures, until the newest waiting work of every queue and size class has started; a set for each."""
        self.sets_made += 1
        waiting = sorted(
            (other.job for other in clock.live.values() if other.start is None), key=lambda job: (job.submit, job.id)
        )
        newest = {_key(job): job for job in waiting}
        newest[_key(live.job)] = live.job
        wanted = {gang_name(job.id) for job in newest.values()}
        futures = sample_waits(self._present(clock), wanted, range(self._futures))
        for key, job in newest.items():
            self._sets[key] = _read(clock.now, futures, job, waiting)
        return self._sets[_key(live.job)]

    def _present(self, clock: ReplayClock) -> Present:
        """What is known now. The clock knows the true durations; none of them is read here."""
        gangs = {
            name: GangInfo(
                kind_of(live.job),
                None if live.start is None else live.start / SECOND,
                self._longest.get(name, 0.0),
            )
            for name, live in clock.live.items()
        }
        arrivals = RecentArrivals()
        for job in self._arrived:
            arrivals.add(Arrival(job.submit / SECOND, kind_of(job), job.team, partial(_later, clock, job)))
        return Present(clock.now / SECOND, clock.state.facts(), gangs, self._run_times, arrivals)

    # -- the answer --------------------------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """The scores of the forecasts (docs/forecast.md)."""
        errors = sorted(abs(each.quantiles[1] - each.wait) for each in self.scored)
        return {
            "asked": self.made_for_scores,
            **scores_of(self.scored),
            "by_depth": [scores_of([each for each in self.scored if each.depth == depth]) for depth in range(DEPTHS)],
            "median_abs_error_s": errors[len(errors) // 2] if errors else None,
            "ms_per_forecast": self._seconds * 1000 / self._made if self._made else None,
        }


def _later(clock: ReplayClock, job: Job) -> GangFacts:
    return clock.gang_of(replace(job, id=job.id + FIRST_ID, submit=job.submit + LATER))


def _is_before(queue: Queue, job: Job) -> bool:
    """Whether older work of this team and priority comes before the job in its queue."""
    team, priority = queue
    return team == job.team and priority.priority_class_value >= job.priority.priority_class_value


def _key(job: Job) -> Key:
    return job.team, job.priority, size_class(job.gpus)


def _read(made: int, futures: Sequence[Mapping[str, float]], last: Job, waiting: Sequence[Job]) -> FutureSet:
    """The waits of the work like `last`, which is the last of it. `waiting`: all work that waits, in the order of its
    submission."""
    queue = [other for other in waiting if _is_before((other.team, other.priority), last)]
    size, lines = size_class(last.gpus), []
    for waits in futures:
        line, before = Line([], []), 0
        for other in queue:
            wait = waits.get(gang_name(other.id))
            if wait is not None and size_class(other.gpus) == size:
                line.add(before, wait)
            before += other.gpus
        lines.append(line)
    middles = sorted(waits[gang_name(last.id)] for waits in futures)
    return FutureSet(made, lines, middles[len(middles) // 2])
