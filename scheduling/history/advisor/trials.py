"""One allotment tried: the window of history replayed with it, compared with the replay of today's quotas.

What counts is the delay of the work that today's quotas let start: the GPU-time that it waits, and the GPU-time that it
has to do again because preemption threw it away. An allotment is allowed if no such job could never start with it, and
if no HIGH or NORMAL job waits longer than today: quotas exist for this work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from scheduling.domain.engine.facts import ClusterFacts
from scheduling.history.advisor.allotment import Allotment
from scheduling.history.advisor.idle_promises import IdlePromises
from scheduling.history.replay.clock import ArrivalCount, EndReason, LiveJob, ReplayClock, ReplayObserver, ReplayRules
from scheduling.history.replay.jobs import Job
from scheduling.history.replay.measures import Course, Measures, Summary


@dataclass(frozen=True, slots=True)
class Trial:
    """The effect of an allotment. `waiting` and `lost`: GPU-microseconds that the work waited, and lost to preemption,
    which today's quotas let start. `later`: by team, its HIGH and NORMAL jobs that wait longer than today. `never`:
    jobs that could never start, `never_again` those of them that start today. `unused`: by team, GPU-hours of quota
    that it did not use."""

    waiting: int
    lost: int
    never: int
    never_again: int
    later: Mapping[str, int]
    summary: Summary
    teams: dict[str, Summary]
    unused: Mapping[str, float]

    @property
    def course(self) -> Course:
        """The numbers of the cluster and its teams."""
        return {"summary": self.summary, "teams": self.teams}

    @property
    def cost(self) -> int:
        """The delay of the work, GPUs × time: a job ends later than it would if it started at once and ran
        through."""
        return self.waiting + self.lost

    @property
    def is_allowed(self) -> bool:
        """Whether nobody's guaranteed work waits longer, and all work starts that starts today."""
        return not self.later and not self.never_again


class Trials(Protocol):
    """A window of history that can be replayed with other allotments."""

    @property
    def today(self) -> Trial:
        """The replay of today's quotas."""

    @property
    def count(self) -> int:
        """The number of replays that were begun."""

    def run(self, allotment: Allotment, most: int | None = None) -> Trial | None:
        """Try one. With `most`, None as soon as it is not allowed or costs more than these GPU-microseconds."""


class TraceTrials:
    """Trials on the jobs of a trace and a cluster without work."""

    def __init__(
        self,
        facts: ClusterFacts,
        jobs: Iterable[Job],
        rules: ReplayRules,
        *,
        tell: Callable[[int, int, int], None] = lambda _replay, _jobs, _now: None,
    ) -> None:
        """`jobs` is read once for each replay. `tell`: called after each instant with the number of the replay, the
        number of jobs that arrived, and the time in microseconds."""
        self._facts, self._jobs, self._rules, self._tell = facts, jobs, rules, tell
        self._waits = _Waits(None, None)
        self.count = 0
        measures, idle = Measures(facts), IdlePromises(facts)
        self._replay(facts, (measures, idle, self._waits))
        self.idle_promises = idle.gpu_hours()
        self.today = self._waits.trial(measures)

    def run(self, allotment: Allotment, most: int | None = None) -> Trial | None:
        """See `Trials.run`."""
        facts = allotment.changed_facts(self._facts)
        measures, waits = Measures(facts), _Waits(self._waits, most)
        try:
            self._replay(facts, (measures, waits))
        except IsWorse:
            return None
        return waits.trial(measures)

    def _replay(self, facts: ClusterFacts, observers: tuple[ReplayObserver, ...]) -> None:
        self.count += 1
        arrived = ArrivalCount()
        for now in ReplayClock(facts, self._rules, (*observers, arrived)).run(self._jobs):
            self._tell(self.count, arrived.count, now)


class IsWorse(Exception):
    """Ends a replay that cannot be the best any more."""


@dataclass(slots=True)
class _Waits(ReplayObserver):
    """The waits of one replay, compared with those of today. `most` None: it never ends the replay."""

    today: _Waits | None
    most: int | None
    guaranteed: dict[int, int] = field(default_factory=dict)
    """By job that is not preemptible: how long it waited."""
    never_started: set[int] = field(default_factory=set)
    waiting: int = 0
    lost: int = 0
    never_again: int = 0
    later: Counter[str] = field(default_factory=Counter)

    def never(self, job: Job) -> None:
        self.never_started.add(job.id)
        if self.today is not None and job.id not in self.today.never_started:
            self.never_again += 1
            self._check()

    def started(self, live: LiveJob) -> None:
        job, start = live.job, live.start
        assert start is not None
        if self._counts(job):
            self.waiting += job.gpus * (start - live.waits_since)
        if live.attempt == 1 and not job.priority.is_preemptible:
            wait = start - job.submit
            self.guaranteed[job.id] = wait
            if self.today is not None and wait > self.today.guaranteed.get(job.id, wait):
                self.later[job.team] += 1
        self._check()

    def ended(self, live: LiveJob, now: int, reason: EndReason, lost: int) -> None:
        if lost and self._counts(live.job):
            self.lost += live.job.gpus * lost
            self._check()

    def _counts(self, job: Job) -> bool:
        return self.today is None or job.id not in self.today.never_started

    def _check(self) -> None:
        if self.most is not None and (self.later or self.never_again or self.waiting + self.lost > self.most):
            raise IsWorse

    def trial(self, measures: Measures) -> Trial:
        """The result at the end."""
        summary, teams = measures.summaries()
        unused = {name: team["idle_quota_gpu_h"] or 0.0 for name, team in teams.items()}
        return Trial(
            self.waiting, self.lost, len(self.never_started), self.never_again, dict(sorted(self.later.items())),
            summary, teams, unused,
        )  # fmt: skip
