"""Makes the month of the demo: the engine of the simulated clusters runs the submissions through the configurations
that the audit trail of a new demo has. The result is what a replay without changes finds again.

`scripts/make-demo-month` writes the file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from pools.domain.names import SHARED_QUEUE, queue_name
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.models import Backend, Pool
from scheduling.demo.acts import DRAINED, LOST, LOST_NODE
from scheduling.demo.installation import CLUSTERS
from scheduling.demo.month_file import DAY, LENGTH, ClusterMonth, Month, MonthCause, MonthJob, MonthStep
from scheduling.domain.engine.cycle import new_world
from scheduling.domain.engine.reasons.by_choice import reasons_by_name
from scheduling.domain.engine.reasons.explain import Explainer
from scheduling.domain.engine.steps import Step, StepAction
from scheduling.domain.priorities import Priority
from scheduling.domain.reason_codes import ReasonCode, WaitCause, wait_cause
from scheduling.domain.statuses import TaskStatus
from scheduling.history.own.own_history import read_history
from scheduling.history.replay.history import Ending, RecordedHistory, RecordedJob, RecordedTask
from scheduling.history.replay.history_clock import HistoryClock, PastJob
from scheduling.history.replay.jobs import SECOND
from scheduling.selectors.queue.live_facts import MAX_GROUPS, LiveTask, SharedObjects, microseconds
from scripts.demo_month.eviction_notes import EvictionNotes
from scripts.demo_month.month_forecasts import MonthForecasts
from scripts.demo_month.submissions import submissions

JUDGED_EVERY: Final = 1200
JUDGED_AT_MOST_EVERY: Final = 120
"""Causes of waiting are noted after this number of seconds if something new waits, else after the number above."""


def make_month(monday: datetime, *, days: float = LENGTH, clusters: Collection[str] = CLUSTERS) -> Month:
    """The month on the clusters of the demo whose configuration is in the database, from this Monday on."""
    drained: dict[str, int] = {}
    made = {}
    for backend in Backend.objects.filter(name__in=clusters).order_by("name"):
        clock = _MonthClock(backend, monday, days)
        clock.run()
        made[backend.name] = clock.month
        drained |= clock.drained()
    return Month(made, drained)


def recorded_job(job: MonthJob, queue: str, monday: int) -> RecordedJob:
    """A submission as the engine reads it."""
    submit = monday + job.submit * SECOND
    ending = Ending.EXEC_TIMEOUT if job.exec_timeout else Ending.WORKED
    if job.cancelled_after:
        ending = Ending.STOPPED
    return RecordedJob(
        job.name, job.name, job.user, queue, Priority(job.priority), submit * MAX_GROUPS, submit, submit,
        tuple(_tasks(job)), job.all_gpus,
        run_time=(job.fails_after or job.runtime) * SECOND, simulated=job.runtime * SECOND,
        exec_timeout=job.exec_timeout * SECOND or None, queue_timeout=job.queue_timeout * SECOND or None,
        ending=ending, fails=bool(job.fails_after),
        ended=submit + job.cancelled_after * SECOND if job.cancelled_after else None,
    )  # fmt: skip


_SHAPES = SharedObjects([])


def _tasks(job: MonthJob) -> list[RecordedTask]:
    return [
        RecordedTask(
            _SHAPES.task(
                LiveTask(
                    f"worker-{number}", "", TaskStatus.SCHEDULING.value, job.gpus, job.cpus, job.memory, job.storage,
                    "default", "[]", "",
                ),
                DEFAULT_FLAVOR,
            ),
            "default",
        )
        for number in range(job.workers)
    ]  # fmt: skip


class _MonthClock(HistoryClock):
    """The clock of a replay, which judges after each event and keeps what happened."""

    def __init__(self, backend: Backend, monday: datetime, days: float) -> None:
        until = monday + timedelta(days=days)
        recorded = read_history(backend, monday, until)
        names = dict(_queues_of_leaves(backend))
        jobs = [job for job in submissions(backend.name) if job.submit < days * DAY]
        begin = microseconds(monday)
        history = RecordedHistory(
            begin, microseconds(until), recorded.configurations,
            [recorded_job(job, names[job.leaf], begin) for job in jobs], [],
        )  # fmt: skip
        self.month = ClusterMonth(jobs)
        self._number = {job.name: number for number, job in enumerate(jobs)}
        self._begin_of_month = begin
        self._cause: dict[str, WaitCause] = {}
        self._seen: set[str] = set()
        self._causes_at = -JUDGED_EVERY
        self._evictions = EvictionNotes(jobs, names)
        self._forecasts = MonthForecasts(jobs, names, monday, self.month.forecasts)
        self._lost = {LOST_NODE} if backend.name == "dgx" else set[str]()
        super().__init__(history, lambda recorded: recorded)

    def drained(self) -> Mapping[str, int]:
        """When the last work of each subpool ended that was deleted and has no work any more."""
        found: dict[str, int] = {}
        for number, job in enumerate(self.month.jobs):
            if job.leaf in DRAINED and number in self.month.ends:
                found[job.leaf] = max(found.get(job.leaf, 0), self.month.ends[number][0])
        return found

    def _seconds(self, at: int) -> int:
        return round((at - self._begin_of_month) / SECOND)

    def _judge(self, now: int) -> Sequence[Step]:
        self._evictions.before_cycle(self._state.world)
        self._state.world.notes_spared = True
        return super()._judge(now)

    def _follow(self, now: int, steps: Sequence[Step]) -> None:
        super()._follow(now, steps)
        at = self._seconds(now)
        reasons = self._evictions.follow(steps, self._state.world, now, self._number)
        for step, why in zip(steps, reasons, strict=True):
            beneficiary = -1 if step.beneficiary is None else self._number[step.beneficiary]
            nodes = step.nodes if step.action in {StepAction.START, StepAction.MOVE} else ()
            job = self._number[step.gang]
            tasks = [int(name.rpartition("-")[2]) for name in step.tasks]
            some = [] if len(tasks) == self.month.jobs[job].workers else tasks
            self.month.steps.append(MonthStep(at, step.action.value, job, beneficiary, list(nodes), some, why))
        for number in {self._number[step.gang] for step in steps}:
            self._note_run(number, at)
        self._note_causes(at)
        self._forecasts.forecast(at, self._state.facts(), {name: self._number[name] for name in self._waiting()})

    def _note_run(self, number: int, at: int) -> None:
        start = self._past.jobs[self.month.jobs[number].name].start
        self._forecasts.runs(number, at, None if start is None else self._seconds(start))

    def _configure(self, now: int) -> None:
        super()._configure(now)
        if now == self._begin_of_month + LOST[0] * SECOND:
            for past in [past for past in self._past.jobs.values() if past.start is not None]:
                if self._lost.intersection(self._state.nodes_of(past.job.name)):
                    self._end(past, now, is_completed=False)
                    number = self._number[past.job.name]
                    self.month.ends[number] = self._seconds(now), TaskStatus.FAILED_BACKEND_ERROR.value
        if self._configuration.is_offline:
            for name in self._waiting():
                self._note(self._seconds(now), name, WaitCause.OFFLINE)
        else:
            self._seen.clear()

    def _arrive(self, past: PastJob, time: int) -> None:
        super()._arrive(past, time)
        self._forecasts.arrived(self._number[past.job.name], self._seconds(time))
        if self._configuration.is_offline:
            self._note(self._seconds(time), past.job.name, WaitCause.OFFLINE)

    def _end(self, past: PastJob, time: int, *, is_completed: bool) -> None:
        job, at = past.job, self._seconds(time)
        status = TaskStatus.COMPLETED if is_completed else TaskStatus.FAILED
        if not is_completed and job.ending is Ending.STOPPED and time == job.ended:
            status = TaskStatus.FAILED_CANCELED
        elif not is_completed and past.waits_since is not None and time == past.waits_since + (job.queue_timeout or 0):
            status = TaskStatus.FAILED_QUEUE_TIMEOUT
        elif not is_completed and job.exec_timeout is not None:
            status = TaskStatus.FAILED_EXEC_TIMEOUT
        self.month.ends[self._number[job.name]] = at, status.value
        self._evictions.ended(self._number[job.name])
        self._forecasts.ended(self._number[job.name], at)
        super()._end(past, time, is_completed=is_completed)

    def _wait(self, past: PastJob, now: int) -> None:
        super()._wait(past, now)
        self._cause.pop(past.job.name, None)

    # -- why work waits ---------------------------------------------------------------------------------------------

    def _waiting(self) -> list[str]:
        return [name for name, past in self._past.jobs.items() if past.waits_since is not None]

    def _note_causes(self, at: int) -> None:
        waiting = set(self._waiting())
        pace = JUDGED_AT_MOST_EVERY if waiting - self._seen else JUDGED_EVERY
        if at < self._causes_at + pace:
            return
        self._seen, self._causes_at = waiting, at
        queues = {name: self._past.jobs[name].job.queue for name in waiting}
        for name, reason in reasons_by_name(Explainer(new_world(self._state.facts())).explain_all()).items():
            if reason.code != ReasonCode.WAITING_FOR_GROUPS and name in waiting:
                self._note(at, name, wait_cause(reason.code, node=reason.queue, own_queue=queues[name]))

    def _note(self, at: int, name: str, cause: WaitCause) -> None:
        since = self._past.jobs[name].waits_since
        if since is not None and self._cause.get(name, WaitCause.ORDER) != cause:
            self._cause[name] = cause
            self.month.causes.append(MonthCause(at, self._number[name], cause.value))


def _queues_of_leaves(backend: Backend) -> list[tuple[str, str]]:
    rows = Pool.objects.filter(backend=backend) | Pool.objects.filter(parent__backend=backend)
    return [
        (
            row.name,
            queue_name(
                backend.namespace,
                row.name if row.parent is None else row.parent.name,
                SHARED_QUEUE if row.parent is None else row.subpool_name,
            ),
        )
        for row in rows.select_related("parent")
    ]
