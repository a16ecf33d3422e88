"""The forecasts of the month: one for each gang that could not start when it came, as the background would have made it
then. Nothing later than that instant is read; what became of each follows from the steps of the month."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

from scheduling.demo.month_file import DAY, MonthForecast, MonthJob
from scheduling.domain.engine.facts import ClusterFacts
from scheduling.domain.priorities import Priority
from scheduling.history.forecast.arrivals import Arrival, RecentArrivals
from scheduling.history.forecast.calibration import Calibration, Place, Shape, hour_of
from scheduling.history.forecast.chance import SPREAD
from scheduling.history.forecast.futures import GangInfo, Present, sample_waits
from scheduling.history.forecast.lines import gang_gpus
from scheduling.history.forecast.runtimes import Attempt, RunTimes, WorkKind
from scheduling.history.starts.background import sum_up
from scheduling.history.starts.forecast_facts import later_gang

FUTURES: Final = SPREAD
SINCE = 24 * DAY
"""Work that came before has none. The month ends a week later at the earliest."""


@dataclass(slots=True)
class _Open:
    """A forecast whose work waits."""

    made: int
    place: Place
    corrected: Shape
    late: float


@dataclass(slots=True)
class MonthForecasts:
    """What is known on one cluster, and the forecasts made of it. Jobs are numbers, times seconds of the month."""

    jobs: Sequence[MonthJob]
    queues: Mapping[str, str]
    """By the name of the leaf."""
    monday: datetime
    made: list[MonthForecast] = field(default_factory=list)
    _run_times: RunTimes = field(default_factory=RunTimes)
    _calibration: Calibration = field(default_factory=Calibration)
    _arrived: list[tuple[int, int]] = field(default_factory=list)
    _attempts: dict[int, Attempt] = field(default_factory=dict)
    _started: dict[int, int] = field(default_factory=dict)
    _new: list[int] = field(default_factory=list)
    _open: dict[int, _Open] = field(default_factory=dict)

    def arrived(self, job: int, at: int) -> None:
        """It came, and may wait."""
        self._arrived.append((job, at))
        self._new.append(job)

    def runs(self, job: int, at: int, since: int | None) -> None:
        """It has its GPUs since that time; None: it waits."""
        if self._started.get(job) == since:
            return
        if job in self._attempts:
            RunTimes.ended(self._attempts.pop(job), at, is_whole=False)
            del self._started[job]
        if since is None:
            return
        self._started[job] = since
        self._attempts[job] = self._run_times.started(self._kind(job), since, f"{self.jobs[job].name} {since}")
        forecast = self._open.pop(job, None)
        if forecast is not None:
            self._calibration.scored(forecast.corrected, forecast.place, since - forecast.made, forecast.late)

    def ended(self, job: int, at: int) -> None:
        """It is over."""
        self._open.pop(job, None)
        self._started.pop(job, None)
        if job in self._attempts:
            RunTimes.ended(self._attempts.pop(job), at, is_whole=True)

    def forecast(self, at: int, facts: ClusterFacts, waiting: Mapping[str, int]) -> None:
        """Forecast the starts of the work that came since the last time and waits. `waiting`: all that waits."""
        new = {name: number for name, number in waiting.items() if number in self._new}
        self._new.clear()
        if not new or at < SINCE:
            return
        numbers = {job.name: number for number, job in enumerate(self.jobs)}
        gangs = {
            gang.name: GangInfo(self._kind(number := numbers[gang.name]), self._started.get(number))
            for gang in facts.gangs
        }
        present = Present(at, facts, gangs, self._run_times, self._recent_arrivals(at, facts))
        futures, places = sample_waits(present, new, range(FUTURES)), self._places(at, facts, waiting)
        for name, number in new.items():
            place = places[name]
            found = sum_up([each[name] for each in futures], place, self._calibration)
            if found.corrected is None or None in found.waits:
                continue
            waits = [round(wait, 1) for wait in found.waits if wait is not None]
            self._open[number] = _Open(at, place, found.corrected, waits[-1])
            shape = [round(found.corrected.middle, 4), round(found.corrected.spread, 4)]
            self.made.append(MonthForecast(at, number, waits, shape, place.before))

    def _kind(self, number: int) -> WorkKind:
        job = self.jobs[number]
        return WorkKind(
            job.leaf, job.all_gpus, job.user, job.name.rpartition("-")[0], job.exec_timeout or None,
        )  # fmt: skip

    def _recent_arrivals(self, at: int, facts: ClusterFacts) -> RecentArrivals:
        found, latest = RecentArrivals(), max((gang.submitted for gang in facts.gangs), default=0)
        for number, came in self._arrived:
            if came >= at - DAY:
                job = self.jobs[number]
                queue = self.queues[job.leaf]
                make = partial(later_gang, queue, job.all_gpus, job.workers, Priority(job.priority), latest + 1)
                found.add(Arrival(came, self._kind(number), queue, make))
        return found

    def _places(self, at: int, facts: ClusterFacts, waiting: Mapping[str, int]) -> dict[str, Place]:
        """Where each waiting gang stands in its queue."""
        hour, total, found = hour_of(self.monday.timestamp() + at), Counter[str](), {}
        gangs = [gang for gang in facts.gangs if gang.name in waiting]
        for gang in sorted(gangs, key=lambda gang: (-gang.priority, gang.submitted, gang.name)):
            gpus = gang_gpus(gang)
            found[gang.name] = Place(self.jobs[waiting[gang.name]].leaf, hour, gpus, total[gang.queue])
            total[gang.queue] += gpus
        return found
