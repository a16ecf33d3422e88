"""Each job before and after: its recorded wait, stops and end beside those of the replay, and the sums of all of them.

A job that ends later, counted with its GPUs, is the *delay*: it has the longer wait and the work done again after a
preemption in one number. Who has a delay got less than before, who has a negative one got more.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from scheduling.history.replay.clock import EndReason, LiveJob, ReplayObserver
from scheduling.history.replay.jobs import SECOND, Job
from scheduling.history.replay.measures import quantile
from scheduling.history.traces.records import JobRecord, RecordTable

SAME: Final = 60 * SECOND
"""Ends that differ by less are the same."""

SHARE_OF_USE: Final = 0.01
"""A team or a person got about the same where the delay is less than this share of the work."""

NOBODY: Final = "-"
"""The person of jobs for which the history names none."""

_NEVER: Final = -1


class JobVerdict(StrEnum):
    """What has become of a job in the replay."""

    SOONER = "sooner"
    SAME = "same"
    LATER = "later"
    NEVER = "never"


class ShareVerdict(StrEnum):
    """What a team or a person got: LESS also where a job could never start."""

    LESS = "less"
    SAME = "about the same"
    MORE = "more"


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """One job. Waits, ends and `later` are microseconds, ends on the clock of the replay; None: it never starts."""

    job: Job
    record: JobRecord
    wait_before: int
    wait_after: int | None
    end_before: int
    end_after: int | None
    stops_after: int

    @property
    def later(self) -> int | None:
        """How much later it ends than it did; negative: sooner."""
        return None if self.end_after is None else self.end_after - self.end_before

    @property
    def verdict(self) -> JobVerdict:
        """What has become of it."""
        later = self.later
        if later is None:
            return JobVerdict.NEVER
        if abs(later) < SAME:
            return JobVerdict.SAME
        return JobVerdict.LATER if later > 0 else JobVerdict.SOONER


class OutcomeObserver(ReplayObserver):
    """Notes what a replay does with each job, in little memory."""

    def __init__(self, begin: int, horizon: int) -> None:
        """`begin`: when the month begins; `horizon`: the last recorded end, on the clock of the replay. `used`: the
        GPU-microseconds between them, by flavor."""
        self.used: dict[str, int] = {}
        self._begin, self._horizon = begin, horizon
        self.places: dict[int, int] = {}
        self.first_start: array[int] = array("q")
        self.end: array[int] = array("q")
        self.stops: array[int] = array("l")
        self.lost: array[int] = array("q")

    def _place(self, job: Job) -> int:
        place = self.places.get(job.id)
        if place is None:
            place = self.places[job.id] = len(self.end)
            for column in (self.first_start, self.end):
                column.append(_NEVER)
            for column in (self.stops, self.lost):
                column.append(0)
        return place

    def never(self, job: Job) -> None:
        self._place(job)

    def started(self, live: LiveJob) -> None:
        assert live.start is not None
        place = self._place(live.job)
        if live.attempt == 1:
            self.first_start[place] = live.start

    def ended(self, live: LiveJob, now: int, reason: EndReason, lost: int) -> None:
        place = self._place(live.job)
        self.lost[place] += lost
        assert live.start is not None
        used = live.job.gpus * max(0, min(now, self._horizon) - max(live.start, self._begin))
        self.used[live.flavor] = self.used.get(live.flavor, 0) + used
        if reason is EndReason.PREEMPTED:
            self.stops[place] += 1
        else:
            self.end[place] = now

    def outcome(self, job: Job, record: JobRecord, start_of_clock: int) -> JobOutcome:
        """The job before and after."""
        place = self._place(job)
        started, end = self.first_start[place], self.end[place]
        is_never = end == _NEVER
        return JobOutcome(
            job, record, record.started - start_of_clock - job.submit, None if is_never else started - job.submit,
            record.ended - start_of_clock, None if is_never else end, self.stops[place],
        )  # fmt: skip


@dataclass(slots=True)
class Sums:
    """The jobs of a team, a person or all together. Times in microseconds, GPU-time in GPU-microseconds."""

    name: str = ""
    jobs: int = 0
    work: int = 0
    delay: int = 0
    stops_before: int = 0
    stops_after: int = 0
    lost_before: int = 0
    lost_after: int = 0
    waited_before: int = 0
    waited_after: int = 0
    verdicts: dict[JobVerdict, int] = field(default_factory=lambda: dict.fromkeys(JobVerdict, 0))
    waits_before: array[int] = field(default_factory=lambda: array("q"))
    waits_after: array[int] = field(default_factory=lambda: array("q"))

    def add(self, outcome: JobOutcome, lost_after: int) -> None:
        """Add a job. One that never starts has no wait, and counts as such."""
        job, record = outcome.job, outcome.record
        self.jobs += 1
        self.work += job.gpus * job.duration
        self.verdicts[outcome.verdict] += 1
        self.stops_before += record.stops
        self.lost_before += job.gpus * max(0, record.held - job.duration)
        self.waits_before.append(outcome.wait_before)
        self.waited_before += job.gpus * outcome.wait_before
        if outcome.later is None or outcome.wait_after is None:
            return
        self.delay += job.gpus * outcome.later
        self.stops_after += outcome.stops_after
        self.lost_after += job.gpus * lost_after
        self.waits_after.append(outcome.wait_after)
        self.waited_after += job.gpus * outcome.wait_after

    @property
    def verdict(self) -> ShareVerdict:
        """Whether they got less, about the same, or more."""
        if self.verdicts[JobVerdict.NEVER]:
            return ShareVerdict.LESS
        if abs(self.delay) < SHARE_OF_USE * self.work:
            return ShareVerdict.SAME
        return ShareVerdict.LESS if self.delay > 0 else ShareVerdict.MORE

    def wait(self, share: float, *, after: bool) -> float | None:
        """A quantile of the waits, in seconds."""
        waits = sorted(self.waits_after if after else self.waits_before)
        found = quantile(waits, share)
        return None if found is None else found / SECOND

    def mean_wait(self, *, after: bool) -> float | None:
        """The mean wait in seconds."""
        waits = self.waits_after if after else self.waits_before
        return sum(waits) / len(waits) / SECOND if waits else None


@dataclass(slots=True)
class NeverStarting:
    """Jobs of one team, priority and size that can never start: the first of them, their number and their work
    (GPU-microseconds)."""

    first: JobOutcome
    jobs: int = 0
    work: int = 0


@dataclass(slots=True)
class BeforeAndAfter:
    """All sums; `never` those that can never start, most work first; `worst` the others with the largest delay."""

    whole: Sums
    teams: dict[str, Sums]
    people: dict[str, Sums]
    never: list[NeverStarting]
    worst: list[JobOutcome]


def outcomes(
    jobs: Iterable[Job], records: RecordTable, observer: OutcomeObserver, start_of_clock: int
) -> Iterator[JobOutcome]:
    """Every job in the order of its submission."""
    for job in jobs:
        yield observer.outcome(job, records.of(job.id), start_of_clock)


def compare_outcomes(
    found: Iterator[JobOutcome], observer: OutcomeObserver, *, most: int, write: Callable[[JobOutcome], None]
) -> BeforeAndAfter:
    """Add up all jobs, and keep at most `most` of the worst. Each job is written as well."""
    whole, teams, people = Sums("all"), dict[str, Sums](), dict[str, Sums]()
    never: dict[tuple[str, str, int], NeverStarting] = {}
    worst: list[JobOutcome] = []
    for outcome in found:
        job = outcome.job
        lost = observer.lost[observer.places[job.id]]
        for sums in (
            whole,
            teams.setdefault(job.team, Sums(job.team)),
            people.setdefault(job.user or NOBODY, Sums(job.user or NOBODY)),
        ):
            sums.add(outcome, lost)
        write(outcome)
        if outcome.verdict is JobVerdict.NEVER:
            group = never.setdefault((job.team, job.priority, job.gpus), NeverStarting(outcome))
            group.jobs += 1
            group.work += job.gpus * job.duration
        elif outcome.verdict is JobVerdict.LATER:
            worst.append(outcome)
            if len(worst) > 4 * most:
                worst = sorted(worst, key=_badness)[:most]
    groups = sorted(never.values(), key=lambda group: (-group.work, group.first.job.id))[:most]
    return BeforeAndAfter(whole, teams, people, groups, sorted(worst, key=_badness)[:most])


def _badness(outcome: JobOutcome) -> tuple[int, int]:
    return -(outcome.later or 0) * outcome.job.gpus, outcome.job.id
