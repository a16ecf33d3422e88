"""The rows of the month: workflows with their gangs and attempts, what they hold, decisions, and waits, up to now."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from pools.models import Backend, Pool, Reservation, User
from scheduling.demo.month_file import ClusterMonth, MonthEviction, MonthJob, MonthStep
from scheduling.domain.deadlines import gang_deadlines
from scheduling.domain.decision_messages import DecisionFacts, anonymous_decision_message, decision_message
from scheduling.domain.engine.steps import StepAction
from scheduling.domain.judgement.plan_units import VICTIM_ACTIONS
from scheduling.domain.receipts.lost import checkpoint_interval, lost_gpu_ms, lost_since
from scheduling.domain.statuses import EXIT_CODES, TaskStatus, WorkflowStatus
from scheduling.history.forecast.chance import SPREAD
from scheduling.models import (
    Decision,
    Group,
    Interruption,
    Receipt,
    SchedulingCycle,
    StartForecast,
    Task,
    WaitCauseChange,
    WaitSpan,
    Workflow,
)
from scheduling.services.decisions import DecisionRows, build_decision

_MESSAGES: Final[Mapping[str, str]] = {
    TaskStatus.FAILED: "The lead task ended with exit code 1.",
    TaskStatus.FAILED_BACKEND_ERROR: "Its node was lost.",
    TaskStatus.FAILED_EXEC_TIMEOUT: "It ran longer than its exec_timeout.",
    TaskStatus.FAILED_QUEUE_TIMEOUT: "It waited longer than its queue_timeout.",
}


@dataclass(slots=True)
class MonthRows:
    """Rows to insert, by table."""

    workflows: list[Workflow] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    waits: list[WaitSpan] = field(default_factory=list)
    causes: list[WaitCauseChange] = field(default_factory=list)
    cycles: list[SchedulingCycle] = field(default_factory=list)
    forecasts: list[StartForecast] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    """Those of evictions, each with its interruption, which has no id yet."""

    @property
    def names(self) -> dict[str, int]:
        """The highest number of each name of a file."""
        found: dict[str, int] = {}
        for workflow in self.workflows:
            found[workflow.spec_name] = max(found.get(workflow.spec_name, 0), int(workflow.name.rpartition("-")[2]))
        return found


class RowBuilder:
    """Builds the rows of a cluster's month up to `now`."""

    def __init__(self, backend: Backend, month: ClusterMonth, monday: datetime, now: datetime) -> None:
        self.rows = MonthRows()
        self._backend, self._month, self._monday, self._now = backend, month, monday, now
        self._until = (now - monday).total_seconds()
        pools = {pool.name: pool for pool in Pool.objects.filter(backend=backend)}
        leaves = Pool.objects.filter(parent__backend=backend).select_related("parent")
        self._pools = pools | {leaf.name: leaf for leaf in leaves}
        self._users = dict(User.objects.values_list("username", "pk"))
        self._dice = random.Random(backend.name)  # noqa: S311  (ids that are the same every time)
        self._groups: dict[int, Group] = {}
        self._evicted: dict[tuple[int, float, str, int], list[Task]] = {}
        """The attempts that ended together for one reason: job, time, cause and beneficiary."""

    def build(self) -> MonthRows:
        """All rows."""
        steps: dict[int, list[MonthStep]] = defaultdict(list)
        for step in self._month.steps:
            if step.time <= self._until:
                steps[step.job].append(step)
        for number, job in enumerate(self._month.jobs):
            if job.submit <= self._until:
                self._add_job(number, job, steps[number])
        self._add_decisions()
        self._add_receipts()
        self._add_cycles()
        self._add_forecasts()
        self.rows.causes += [
            WaitCauseChange(group_id=self._groups[each.job].pk, since=self._at(each.time), cause=each.cause)
            for each in self._month.causes
            if each.time <= self._until
        ]
        return self.rows

    def _at(self, seconds: float) -> datetime:
        return self._monday + timedelta(seconds=seconds)

    def _id(self) -> UUID:
        return UUID(int=self._dice.getrandbits(128), version=4)

    def _add_job(self, number: int, job: MonthJob, steps: list[MonthStep]) -> None:
        leaf = self._pools[job.leaf]
        end, ended_as = self._month.ends.get(number, (None, ""))
        if end is not None and end > self._until:
            end = None
        submitted, ended = self._at(job.submit), None if end is None else self._at(end)
        spec_name = job.name.rpartition("-")[0]
        workflow = Workflow(
            uuid=self._id(), name=job.name, spec_name=spec_name, pool=leaf, root_pool=leaf.root,
            submitted_by_id=self._users[job.user], priority=job.priority, submit_time=submitted, end_time=ended,
            simulated_runtime=timedelta(seconds=job.runtime), spec=_spec(spec_name, job, leaf),
            labels={"osmo/simulated-runtime": f"{job.runtime // 60}m"},
            exec_timeout=timedelta(seconds=job.exec_timeout) if job.exec_timeout else None,
            queue_timeout=timedelta(seconds=job.queue_timeout) if job.queue_timeout else None,
        )  # fmt: skip
        group = Group(
            uuid=self._id(), workflow=workflow, name="main", position=0, gpus=job.all_gpus, ready_at=submitted,
            end_time=ended,
        )  # fmt: skip
        self._groups[number] = group
        tasks = self._attempts(group, job, steps)
        if ended is not None:
            status = TaskStatus(ended_as)
            self._end(workflow, group, [task for task in tasks if task.end_time is None], status)
        else:
            group.status = TaskStatus.RUNNING if group.start_time else TaskStatus.SCHEDULING
            workflow.status = WorkflowStatus.RUNNING if group.start_time else WorkflowStatus.PENDING
            due = gang_deadlines(
                TaskStatus(group.status), ready_at=group.ready_at, ends_at=group.ends_at,
                workflow_started=workflow.start_time, exec_timeout=workflow.exec_timeout,
                queue_timeout=workflow.queue_timeout,
            )  # fmt: skip
            group.due_at = due.earliest
            self.rows.reservations.append(
                Reservation(
                    workflow=workflow.pk, workflow_name=workflow.name, pool=leaf, owner=job.user, priority=job.priority,
                    held_gpus=job.all_gpus if group.start_time else 0, needed_gpus=job.all_gpus, created_at=submitted,
                    held_since=group.start_time,
                )
            )  # fmt: skip
        self.rows.workflows.append(workflow)
        self.rows.groups.append(group)
        self.rows.tasks += tasks

    def _attempts(self, group: Group, job: MonthJob, steps: list[MonthStep]) -> list[Task]:
        """The attempts of all tasks; those that have no end wait or run."""
        workflow = group.workflow
        open_tasks = {number: self._task(group, job, number, 0) for number in range(job.workers)}
        tasks = list(open_tasks.values())
        for step in steps:
            at = self._at(step.time)
            if step.action != StepAction.START:
                for number in step.tasks or range(job.workers):
                    task = open_tasks[number]
                    task.status, task.end_time = TaskStatus.FAILED_PREEMPTED, at
                    task.exit_code = EXIT_CODES[TaskStatus.FAILED_PREEMPTED]
                    task.failure_message = self._message(step)
                    self._evicted.setdefault(_eviction_key(step), []).append(task)
                    open_tasks[number] = self._task(group, job, number, task.retry_id + 1)
                    tasks.append(open_tasks[number])
                if step.action != StepAction.MOVE:
                    group.start_time, group.ends_at, group.ready_at = None, None, at
            if step.action in {StepAction.START, StepAction.MOVE}:
                workflow.start_time = workflow.start_time or at
                if group.start_time is None:
                    self._add_wait(group, at, started=True)
                # Work that moves begins again, also where only some of its tasks moved.
                if group.start_time is None or step.action == StepAction.MOVE:
                    group.start_time = group.start_time or at
                    group.ends_at = at + timedelta(seconds=job.runtime)
                for number, node in zip(step.tasks or range(job.workers), step.nodes, strict=True):
                    task = open_tasks[number]
                    task.status, task.start_time, task.node_name = TaskStatus.RUNNING, at, node
        return tasks

    def _task(self, group: Group, job: MonthJob, position: int, retry: int) -> Task:
        return Task(
            uuid=self._id(), group=group, name=f"worker-{position}", retry_id=retry, position=position,
            lead=position == 0, gpu_count=job.gpus, cpu_count=job.cpus, memory_bytes=job.memory,
            storage_bytes=job.storage,
        )  # fmt: skip

    def _end(self, workflow: Workflow, group: Group, tasks: list[Task], status: TaskStatus) -> None:
        message = _MESSAGES.get(status, "")
        if status == TaskStatus.FAILED_CANCELED:
            workflow.cancelled_by = next(name for name, pk in self._users.items() if pk == workflow.submitted_by_id)
            message = f"Cancelled by {workflow.cancelled_by}."
        group.status, group.failure_message = status, message
        for task in tasks:
            task.status, task.end_time, task.failure_message = status, workflow.end_time, message
            task.exit_code = EXIT_CODES.get(status)
        workflow.status, workflow.failure_message = WorkflowStatus(status.value), message
        if group.start_time is None:
            assert workflow.end_time is not None
            self._add_wait(group, workflow.end_time, started=False)

    def _add_wait(self, group: Group, until: datetime, *, started: bool) -> None:
        assert group.ready_at is not None
        self.rows.waits.append(
            WaitSpan(
                group_id=group.pk, workflow_id=group.workflow_id, gpus=group.gpus, started=started,
                since=group.ready_at, until=until,
            )
        )  # fmt: skip

    # -- decisions -------------------------------------------------------------------------------------------------

    def _add_decisions(self) -> None:
        held: dict[int, dict[int, str]] = {}
        for step in self._month.steps:
            if step.time > self._until:
                continue
            job, leaf = self._month.jobs[step.job], self._pools[self._month.jobs[step.job].leaf]
            numbers = list(step.tasks or range(job.workers))
            if step.nodes:
                held.setdefault(step.job, {}).update(zip(numbers, step.nodes, strict=True))
            nodes = [held[step.job][number] for number in numbers]
            beneficiary = None if step.beneficiary < 0 else self._groups[step.beneficiary].workflow_id
            rows = DecisionRows(
                self._backend.pk, leaf.root.pk, leaf.pk, self._groups[step.job].workflow_id,
                self._groups[step.job].pk, beneficiary,
            )  # fmt: skip
            tasks = [f"worker-{number}" for number in numbers]
            facts = self._facts(step)
            self.rows.decisions.append(build_decision(facts, rows, time=self._at(step.time), tasks=tasks, nodes=nodes))

    def _add_receipts(self) -> None:
        """As the engine writes them: one interruption for the attempts that a gang lost for one reason."""
        for step in self._month.steps:
            if step.why and step.time <= self._until and (tasks := self._evicted.pop(_eviction_key(step), None)):
                interruption = self._interruption(step, MonthEviction(*step.why))
                self.rows.receipts += [_receipt(interruption, task) for task in tasks]

    def _interruption(self, step: MonthStep, why: MonthEviction) -> Interruption:
        jobs, group = self._month.jobs, self._groups[step.job]
        leaf, numbers = self._pools[jobs[step.job].leaf], {"loser": _numbers(jobs[step.job].leaf, why.loser)}
        if why.taker:
            numbers["taker"] = _numbers(jobs[step.beneficiary].leaf, why.taker)
        spared = [
            {"workflow": str(self._groups[job].workflow_id), "gang": jobs[job].name, "gpus": gpus, "by": by}
            for job, gpus, by in why.spared
        ]
        lowered = {} if why.quota_at_start is None else {"quota_at_start": why.quota_at_start}
        return Interruption(
            time=self._at(step.time), cause=why.cause, backend=self._backend, root_pool=leaf.root, pool=leaf,
            workflow=group.workflow, group=group, numbers={**numbers, **lowered}, spared=spared,
            for_workflow=None if step.beneficiary < 0 else self._groups[step.beneficiary].workflow,
            has_more_spared=why.has_more_spared,
        )  # fmt: skip

    def _add_cycles(self) -> None:
        """The cycles had seen all changes until their time, and did all that they had planned."""
        units = Counter(
            step.time for step in self._month.steps if step.time <= self._until and step.action not in VICTIM_ACTIONS
        )
        for seconds, number in sorted(units.items()):
            at = self._at(seconds)
            self.rows.cycles.append(SchedulingCycle(backend=self._backend, time=at, judged_at=at, units=number))

    def _add_forecasts(self) -> None:
        """With their scores, as far as the work has started or ended."""
        starts: dict[int, list[int]] = defaultdict(list)
        for step in self._month.steps:
            if step.action == StepAction.START and step.time <= self._until:
                starts[step.job].append(step.time)
        for each in self._month.forecasts:
            if each.time > self._until:
                continue
            job, made = self._month.jobs[each.job], self._at(each.time)
            start = next((time for time in starts[each.job] if time >= each.time), None)
            end, _ = self._month.ends.get(each.job, (math.inf, ""))
            over = start if start is not None else end if end <= self._until else None
            # Of waiting work the background makes a new one within a minute; the old one would say a time that is over.
            early, middle, late = (None if over is None else made + timedelta(seconds=wait) for wait in each.waits)
            self.rows.forecasts.append(
                StartForecast(
                    group_id=self._groups[each.job].pk, backend_id=self._backend.pk, made_at=made, p10=early,
                    p50=middle, p90=late, samples=SPREAD, first_made_at=made, first_middle=each.shape[0],
                    first_spread=each.shape[1], first_waits=list(each.waits), first_leaf_id=self._pools[job.leaf].pk,
                    first_gpus=job.all_gpus, first_gpus_before=each.before,
                    wait=None if start is None else start - each.time,
                    scored_at=None if over is None else self._at(over),
                )
            )  # fmt: skip

    def _facts(self, step: MonthStep) -> DecisionFacts:
        job = self._month.jobs[step.job]
        other = None if step.beneficiary < 0 else self._month.jobs[step.beneficiary]
        return DecisionFacts(
            StepAction(step.action), job.name, job.leaf, job.gpus * len(step.tasks or range(job.workers)), step.nodes,
            beneficiary="" if other is None else other.name, beneficiary_leaf="" if other is None else other.leaf,
        )  # fmt: skip

    def _message(self, step: MonthStep) -> str:
        """For the owner of the work: the beneficiary is named if both are in one pool."""
        roots = {self._month.jobs[job].leaf.partition("--")[0] for job in (step.job, step.beneficiary) if job >= 0}
        facts = self._facts(step)
        return decision_message(facts) if len(roots) == 1 else anonymous_decision_message(facts)


def _eviction_key(step: MonthStep) -> tuple[int, float, str, int]:
    return step.job, step.time, str(step.why[0]) if step.why else "", step.beneficiary


def _numbers(leaf: str, listed: Sequence[int | float | str | None]) -> dict[str, Any]:
    quota, used, share = listed
    return {"pool": leaf, "quota": quota, "used": used, "share": share}


def _receipt(interruption: Interruption, task: Task) -> Receipt:
    start, end = task.start_time, task.end_time
    assert start is not None and end is not None, "evicted attempts ran"  # noqa: PT018
    since = lost_since(start, end, checkpoint_interval(interruption.workflow.labels))
    return Receipt(
        task=task, interruption=interruption, gpus=task.gpu_count, lost_since=since,
        lost_gpu_ms=lost_gpu_ms(task.gpu_count, since, end),
    )  # fmt: skip


def _spec(name: str, job: MonthJob, leaf: Pool) -> str:
    tasks = "".join(
        f"    - {{name: worker-{number}, image: 'registry/{leaf.root.name}:latest', command: [python, train.py],"
        f" resource: gpu, lead: {'true' if number == 0 else 'false'}}}\n"
        for number in range(job.workers)
    )
    timeouts = {"exec_timeout": job.exec_timeout, "queue_timeout": job.queue_timeout}
    given = "".join(f"    {key}: {seconds}s\n" for key, seconds in timeouts.items() if seconds)
    return (
        f"workflow:\n  name: {name}\n  labels: {{osmo/simulated-runtime: {job.runtime // 60}m}}\n"
        + (f"  timeout:\n{given}" if given else "")
        + f"  resources:\n    gpu: {{gpu: {job.gpus}, cpu: {job.cpus}, memory: {job.gpus * 64}Gi, storage: 100Gi}}\n"
        f"  groups:\n  - name: main\n    tasks:\n{tasks}"
    )


def every_row(rows: MonthRows) -> Iterator[tuple[type, list]]:  # type: ignore[type-arg]
    """The rows in the order in which the tables refer to each other, without the decisions: those of all clusters are
    one record, the newest last."""
    yield Workflow, rows.workflows
    yield Group, rows.groups
    yield Task, rows.tasks
    yield Reservation, rows.reservations
    yield WaitSpan, rows.waits
    yield WaitCauseChange, rows.causes
    yield SchedulingCycle, rows.cycles
    yield StartForecast, rows.forecasts
