"""The clock of a replay: jobs arrive and end on a kept state, and the engine judges each instant.

At one instant attempts end first, then jobs arrive, then the engine runs until nothing moves. An attempt is one run of
a job from its start to its end, its preemption or its move to other nodes; work that the engine starts and takes back
within one instant has not run. A preempted job waits with its old time of submission and begins again, at its last
multiple of the checkpoint interval if there is one. A job that the engine does not start even on the empty cluster
could never start and takes no part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from heapq import heappop, heappush

from pools.domain.values.amounts import DEFAULT_FLAVOR, Number, amount_text, flavor_of, gpu_key, gpus_in
from scheduling.domain.engine.facts import ClusterFacts, GangFacts, TaskFacts
from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.engine.steps import Step, StepAction
from scheduling.domain.priorities import Priority
from scheduling.history.replay.jobs import SECOND, Job, seconds


class EndReason(StrEnum):
    """Why an attempt ended. A move to other nodes is a preemption too."""

    FINISHED = "finished"
    PREEMPTED = "preempted"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class ReplayRules:
    """`gpus_per_task`: a larger job is a gang of tasks of this size and one for the rest. `checkpoint`: microseconds
    between two checkpoints of a job that says nothing; 0: it begins from the start after a preemption."""

    gpus_per_task: int = 8
    checkpoint: int = 0

    def checkpoint_of(self, job: Job) -> int:
        """Microseconds between two checkpoints of a job; 0: it has none."""
        return self.checkpoint if job.checkpoint is None else job.checkpoint


@dataclass(slots=True)
class LiveJob:
    """A job that waits or runs. `kept`: microseconds of its work that no preemption can take away any more. Of the
    running attempt: `attempt` (its number, from 1), `start`, `nodes` (GPUs by node), `flavor`, and `end` with its
    reason, which the clock knows and the scheduler does not; `start` is None while the job waits, since
    `waits_since`."""

    job: Job
    waits_since: int
    attempt: int = 0
    kept: int = 0
    start: int | None = None
    end: int = 0
    end_reason: EndReason = EndReason.FINISHED
    nodes: tuple[tuple[str, int], ...] = ()
    flavor: str = DEFAULT_FLAVOR
    first_start: int | None = None

    @property
    def name(self) -> str:
        """Its name in the engine, which orders jobs of one instant by their rows."""
        return gang_name(self.job.id)


class ReplayObserver:
    """It hears what happens; a subclass overrides what it needs. Times are microseconds since instant 0."""

    def never(self, job: Job) -> None:
        """The job arrived and could never start."""

    def arrived(self, live: LiveJob) -> None:
        """The job arrived; the engine has not judged it yet."""

    def ended(self, live: LiveJob, now: int, reason: EndReason, lost: int) -> None:
        """The attempt of the job ended, which still has its start and nodes; `lost`: microseconds of its work that it
        has to do again. The job is gone, or waits again if it was preempted."""

    def started(self, live: LiveJob) -> None:
        """The next attempt of the job started."""

    def waits(self, clock: ReplayClock, live: LiveJob) -> None:
        """The job could not start at the instant of its arrival, which is over; `clock.fork()` is a copy of the known
        state."""

    def instant_over(self, now: int) -> None:
        """This instant is complete."""


class ArrivalCount(ReplayObserver):
    """Counts the jobs that arrived, those that could never start included."""

    def __init__(self) -> None:
        self.count = 0

    def arrived(self, live: LiveJob) -> None:
        self.count += 1

    def never(self, job: Job) -> None:
        self.count += 1


def gang_name(row: int) -> str:
    """The name of a job in the engine: names in their order are rows in their order."""
    return f"j{row:09}"


class StuckReplay(Exception):
    """Jobs wait on the empty cluster although each of them could start there: a defect of the scheduler."""

    def __init__(self, jobs: int, now: Number) -> None:
        which = "1 job still waits" if jobs == 1 else f"{jobs} jobs still wait"
        super().__init__(
            f"{which} {amount_text(now)} s after the first submission, although nothing runs and each could start. "
            "This is a defect of the scheduler, not of the files: please report it with both files."
        )


class ReplayClock:
    """A cluster from instant to instant."""

    def __init__(
        self, facts: ClusterFacts, rules: ReplayRules, observers: Sequence[ReplayObserver] = (), *, now: int = 0
    ) -> None:
        """`facts`: the cluster without work."""
        self.rules, self.now = rules, now
        self.live: dict[str, LiveJob] = {}
        """Every job that waits or runs, by its name in the engine."""
        self.instants = self.passes = self.happenings = 0
        """The numbers of instants, passes of the engine, and arrivals and ends."""
        self._observers = tuple(observers)
        if facts.policy is not None:
            facts = replace(facts, policy=replace(facts.policy, submitted_per_second=SECOND))
        self._state = KeptState(facts)
        self._shapes = _GangShapes(facts, rules)
        self._ends: list[tuple[int, str, int]] = []
        """When attempts end: time, job, number of the attempt. Entries of attempts that ended before are stale."""

    def fork(self) -> ReplayClock:
        """A copy with the same jobs at the same time; what happens to one does not change the other. Its cost grows
        with the number of live jobs."""
        other = ReplayClock.__new__(ReplayClock)
        other.rules, other.now, other._shapes = self.rules, self.now, self._shapes
        other.live = {name: replace(live) for name, live in self.live.items()}
        other.instants, other.passes, other.happenings = self.instants, self.passes, self.happenings
        other._observers = ()
        other._state = KeptState(self._state.facts())
        other._ends = list(self._ends)
        return other

    @property
    def state(self) -> KeptState:
        """The state of the engine, for readers."""
        return self._state

    def gang_of(self, job: Job) -> GangFacts:
        """The job as the engine sees it when it arrives."""
        return self._shapes.gang(job)

    def could_ever_start(self, job: Job) -> bool:
        """Whether the job starts on the empty cluster."""
        return self._shapes.could_ever_start(job)

    def run(self, jobs: Iterable[Job]) -> Iterator[int]:
        """Let these jobs, in the order of their submission, arrive at their times; run until all is done. Yields the
        time after each instant. Raises `StuckReplay`."""
        source = iter(jobs)
        following = next(source, None)
        while True:
            end = self.next_end()
            if following is None and end is None:
                if self.live:
                    raise StuckReplay(len(self.live), seconds(self.now))
                return
            now = min(time for time in (end, None if following is None else following.submit) if time is not None)
            arrivals = []
            while following is not None and following.submit == now:
                arrivals.append(following)
                following = next(source, None)
            self.advance(now, arrivals)
            yield now

    def next_end(self) -> int | None:
        """When the next attempt ends; None if nothing runs."""
        ends = self._ends
        while ends:
            end, name, attempt = ends[0]
            live = self.live.get(name)
            if live is not None and live.start is not None and (live.attempt, live.end) == (attempt, end):
                return end
            heappop(ends)
        return None

    def advance(self, now: int, arrivals: Iterable[Job] = ()) -> None:
        """Live through one instant: the ends due by now, then these arrivals, then the engine. `now` is not after the
        next end."""
        if now < self.now:
            raise ValueError("time does not run backwards")
        self.now = now
        self.instants += 1
        while (end := self.next_end()) is not None and end <= now:
            _end, name, _attempt = heappop(self._ends)
            done = self.live.pop(name)
            self._state.ended(name)
            self._tell_end(done, done.end_reason, 0)
            self.happenings += 1
        new = [live for job in arrivals if (live := self._arrive(job)) is not None]
        result = self._state.run(seconds(now))
        self.passes += result.passes
        self._follow(result.steps)
        for live in new:
            if live.start is None:
                for observer in self._observers:
                    observer.waits(self, live)
        for observer in self._observers:
            observer.instant_over(now)

    def _arrive(self, job: Job) -> LiveJob | None:
        self.happenings += 1
        if not self.could_ever_start(job):
            for observer in self._observers:
                observer.never(job)
            return None
        live = LiveJob(job, job.submit)
        self.live[live.name] = live
        self._state.arrived(self._shapes.gang(job))
        for observer in self._observers:
            observer.arrived(live)
        return live

    def _follow(self, steps: Sequence[Step]) -> None:
        """The attempts that these steps of one instant end and begin."""
        taken: dict[str, None] = {}
        begun: dict[str, None] = {}
        for step in steps:
            if step.action is not StepAction.START:
                taken[step.gang] = None
            begun.pop(step.gang, None)
            begun[step.gang] = None
        for name in taken:
            if (live := self.live[name]).start is not None:
                self._preempt(live)
        for name in begun:
            live = self.live[name]
            if live.start is None and self._state.is_running(name):
                self._begin(live)

    def _preempt(self, live: LiveJob) -> None:
        assert live.start is not None
        done = live.kept + self.now - live.start
        interval = self.rules.checkpoint_of(live.job)
        kept = done - done % interval if interval else 0
        self._tell_end(live, EndReason.PREEMPTED, done - kept)
        live.kept, live.start, live.waits_since, live.nodes = kept, None, self.now, ()

    def _begin(self, live: LiveJob) -> None:
        left = live.job.duration - live.kept
        limit = live.job.limit
        is_cut = limit is not None and limit < left
        live.end = self.now + (limit if is_cut and limit is not None else left)
        live.end_reason = EndReason.TIMEOUT if is_cut else EndReason.FINISHED
        live.attempt, live.start, live.nodes = live.attempt + 1, self.now, self._nodes_of(live)
        if live.job.flavors:
            live.flavor = flavor_of(next(iter(self._state.fact_of(live.name).tasks[0].request)))
        if live.first_start is None:
            live.first_start = self.now
        heappush(self._ends, (live.end, live.name, live.attempt))
        for observer in self._observers:
            observer.started(live)

    def _nodes_of(self, live: LiveJob) -> tuple[tuple[str, int], ...]:
        held: dict[str, int] = {}
        for node, gpus in zip(self._state.nodes_of(live.name), self._shapes.sizes(live.job.gpus), strict=True):
            if node is not None:
                held[node] = held.get(node, 0) + gpus
        return tuple(sorted(held.items()))

    def _tell_end(self, live: LiveJob, reason: EndReason, lost: int) -> None:
        for observer in self._observers:
            observer.ended(live, self.now, reason, lost)


class _GangShapes:
    """Gangs of jobs, and which of them start on the empty cluster; jobs that differ in nothing else share one trial."""

    def __init__(self, facts: ClusterFacts, rules: ReplayRules) -> None:
        self._per_task, self._rules = rules.gpus_per_task, rules
        self._requests: dict[tuple[str, int], dict[str, int]] = {}
        self._empty: KeptState | None = None
        self._facts = facts
        self._all_gpus = None if facts.nodes is None else sum(gpus_in(node.resources) for node in facts.nodes)
        self._known: dict[tuple[str, Priority, int, tuple[str, ...]], bool] = {}

    def gang(self, job: Job) -> GangFacts:
        """The gang of a job: all its tasks start together or not at all, in one of its flavors."""
        name = gang_name(job.id)
        first, *others = (
            tuple(TaskFacts(f"{name}-{i}", self._request(flavor, size)) for i, size in enumerate(self.sizes(job.gpus)))
            for flavor in job.flavors or (DEFAULT_FLAVOR,)
        )
        priority, every = job.priority, self._rules.checkpoint_of(job)
        return GangFacts(
            name, job.team, first, priority.priority_class_value, priority.is_preemptible, job.submit,
            alternatives=tuple(others),
            waiting_since=seconds(job.submit), time_limit=None if job.limit is None else seconds(job.limit),
            checkpoint_every=seconds(every) if every else None,
        )  # fmt: skip

    def sizes(self, gpus: int) -> list[int]:
        """The GPUs of each task of a job."""
        full, rest = divmod(gpus, self._per_task)
        return [self._per_task] * full + [rest] * bool(rest)

    def _request(self, flavor: str, gpus: int) -> dict[str, int]:
        return self._requests.setdefault((flavor, gpus), {gpu_key(flavor): gpus})

    def could_ever_start(self, job: Job) -> bool:
        if self._all_gpus is not None and job.gpus > self._all_gpus:
            return False
        key = (job.team, job.priority, job.gpus, job.flavors)
        known = self._known.get(key)
        if known is None:
            if self._empty is None:
                self._empty = KeptState(self._facts)
            gang = self.gang(replace(job, id=0, submit=0))
            self._empty.arrived(gang)
            self._empty.run()
            known = self._known[key] = self._empty.is_running(gang.name)
            self._empty.ended(gang.name)
        return known
