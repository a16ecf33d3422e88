"""Transitions of workflows under the lock of their tree: gangs start, are preempted and end, dependent gangs start or
fail, and everything is written at once.

This is the only entry point for such changes: for the reconciliation of a simulated backend, for a person who reports
an end, for the observation of a cluster. The number of statements does not depend on the number of workflows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from uuid import UUID

from django.conf import settings

from pools.database.driver import is_in_transaction
from pools.models import Backend, Pool
from pools.services.configuration.reservations import ReservationUpdate, release_reservations, update_reservations
from scheduling.domain.deadlines import GangDeadlines, gang_deadlines
from scheduling.domain.flavor_choices import (
    FlavorNeed,
    GangNeeds,
    PoolFlavors,
    TaskGpus,
    counts_by_flavor,
    sum_by_flavor,
)
from scheduling.domain.gang import tree_from_json
from scheduling.domain.receipts.causes import InterruptionFacts, cause_of_end
from scheduling.domain.statuses import EXIT_CODES, UNFINISHED_TASK_STATUSES, TaskStatus, derive_workflow_status
from scheduling.domain.workflow_spec import exit_action
from scheduling.models import Group, Task, Workflow, WorkflowConfig
from scheduling.selectors.cluster.pool_flavors import read_pool_flavors
from scheduling.services.receipts.book import ReceiptBook
from scheduling.services.workflows import bulk_sql, gpu_workers
from scheduling.services.workflows.attempts import TaskAttempts

QUEUE_TIMEOUT_MESSAGE = "waited longer than its queue_timeout"
EXEC_TIMEOUT_MESSAGE = "ran longer than its exec_timeout"
UNUSED_TASK_MESSAGE = "never started: its gang completed without it"


class WorkflowTransition:
    """Workflows of one locked tree while they change. They are read after the lock and written once, by :meth:`save`.

    `groups` has the gangs of each workflow by name, `attempts` the open attempts of their tasks. A gang changes by

    * :meth:`start_tasks`: waiting tasks get their nodes and run;
    * :meth:`preempt_tasks`: running tasks lose their nodes and wait again (or start on other nodes at once);
    * :meth:`report_end`: the gang ended by itself, and its exit actions may change the result;
    * :meth:`end_group`, :meth:`end_open_groups`: the gang ends in any case (cancelled, overdue, evicted).

    Each may be called for many gangs before one :meth:`save`.
    """

    def __init__(self, root: Pool, workflows: Collection[UUID], *, now: datetime) -> None:
        """`root` is the locked top-level pool with its backend; workflows of other trees are left out."""
        assert is_in_transaction(), "workflows change inside the transaction that holds the lock of the tree"
        self.root, self.now = root, now
        found = Workflow.objects.filter(pk__in=workflows, root_pool=root).defer("spec", "template_spec")
        self.workflows = {row.pk: row for row in found.order_by("pk")}
        self.groups: dict[UUID, dict[str, Group]] = {pk: {} for pk in self.workflows}
        for group in Group.objects.filter(workflow__in=self.workflows).order_by("position"):
            self.groups[group.workflow_id][group.name] = group
        self.attempts = TaskAttempts(
            [group.pk for groups in self.groups.values() for group in groups.values()], now=now
        )
        self.receipts = ReceiptBook(root, now=now)
        self._touched: dict[UUID, Group] = {}
        self._unblocked: list[UUID] = []
        self._ended: defaultdict[tuple[TaskStatus, str, int | None], list[UUID]] = defaultdict(list)

    def start_tasks(self, group: Group, nodes: Mapping[str, str], flavors: Mapping[str, str] | None = None) -> None:
        """Start waiting tasks (by name) on the nodes chosen for them: all tasks of a plain gang, at least the minimum
        of an elastic gang, or more tasks of a running gang. `flavors` are the GPU flavors that they count in, in a pool
        that has some."""
        if group.status != TaskStatus.RUNNING:
            workflow = self.workflows[group.workflow_id]
            workflow.start_time = workflow.start_time or self.now
            group.status, group.start_time = TaskStatus.RUNNING, self.now
            group.ends_at = self._simulated_end(workflow)
        for task in self.attempts.open_attempts(group.pk):
            if task.name in nodes:
                self.attempts.place_on_node(task, nodes[task.name], (flavors or {}).get(task.name, ""))
        self._touched[group.pk] = group

    def preempt_tasks(
        self,
        group: Group,
        message: str,
        *,
        tasks: Collection[str] | None = None,
        moved_to: Mapping[str, str] | None = None,
        why: Mapping[str, InterruptionFacts] | None = None,
    ) -> bool:
        """Preempt running tasks (by name; None is all of them): their attempts end as FAILED_PREEMPTED with exit code
        3006 and the tasks wait again, with their workflow's original submit time; those in `moved_to` start again at
        once on another node. This is not a retry and is not counted as one (design, D11).

        A gang never runs below its minimum: if too few tasks would remain, all its tasks are preempted. Exit actions
        for code 3006 may end tasks instead: those of a surplus task apply to this task alone; if the minimum is
        affected, those of the lead (else of the first task) apply to the gang. Returns False if they did.

        `why` has the facts of the receipts by the name of the task; what the gang loses besides has those of the first.
        """
        first = next(iter(why.values()), None) if why else None
        running, back = self.attempts.placed_attempts(group.pk), moved_to or {}
        leaving = running if tasks is None else [task for task in running if task.name in tasks]
        staying = [task for task in running if task not in leaving]
        code = EXIT_CODES[TaskStatus.FAILED_PREEMPTED]
        is_surplus = self.has_minimum(group, staying) and not any(task.lead for task in leaving)
        if not is_surplus:
            action = self._exit_action(group, code)
            if action in {"FAIL", "COMPLETE"}:
                status = TaskStatus.COMPLETED if action == "COMPLETE" else TaskStatus.FAILED_PREEMPTED
                self.end_group(group, status, message, exit_code=code, why=first)
                return False
            if not self.has_minimum(group, [*staying, *(task for task in leaving if task.name in back)]):
                leaving, back = running, {}
        as_requested = True
        for task in leaving:
            action = exit_action(code, task.exit_actions) if is_surplus else None
            status = TaskStatus.COMPLETED if action == "COMPLETE" else TaskStatus.FAILED_PREEMPTED
            self.end_attempt(group, task, status, message, code, why=(why or {}).get(task.name, first))
            if action in {"FAIL", "COMPLETE"}:
                as_requested = False
            else:
                self.attempts.retry(task, back.get(task.name))
        if not self.attempts.placed_attempts(group.pk):
            self._requeue(group)
        elif back:
            # A moved task starts from the beginning, so the gang needs its whole run time again.
            group.ends_at = self._simulated_end(self.workflows[group.workflow_id])
        self._touched[group.pk] = group
        return as_requested

    def report_end(self, group: Group, status: TaskStatus, message: str = "") -> None:
        """Record that a running gang ended by itself. The exit actions of its lead (else of its first task) for the
        exit code may change the result: COMPLETE, FAIL, or RESCHEDULE, which retries the gang as often as the scheduler
        settings allow."""
        code = EXIT_CODES.get(status)
        action = None if code is None else self._exit_action(group, code)
        if action == "COMPLETE":
            self.end_group(group, TaskStatus.COMPLETED, message, exit_code=code)
        elif action == "FAIL":
            failed = status if status.is_failed else TaskStatus.FAILED
            self.end_group(group, failed, message or f"exit code {code} fails by its exit actions", exit_code=code)
        elif action == "RESCHEDULE" and self._may_retry(group):
            for task in self.attempts.running(group.pk):
                self.end_attempt(group, task, TaskStatus.RESCHEDULED, message, code)
                self.attempts.retry(task)
            self._requeue(group)
            self._touched[group.pk] = group
        elif action == "RESCHEDULE" and status.is_failed:
            allowed = "no retry" if not self._max_retries else f"at most {self._max_retries} retries"
            self.end_group(
                group, status, message or f"exit code {code}; the scheduler settings allow {allowed} of a task"
            )
        else:
            self.end_group(group, status, message)

    def end_attempt(
        self,
        group: Group,
        task: Task,
        status: TaskStatus,
        message: str,
        exit_code: int | None,
        *,
        why: InterruptionFacts | None = None,
    ) -> None:
        """End one attempt, with a receipt if something else ended it; `why` says so where the end itself does not."""
        self.receipts.note_end(self.workflows[group.workflow_id], group, [task], (status, exit_code), why)
        self.attempts.close(task, status, message, exit_code)

    def end_group(
        self,
        group: Group,
        status: TaskStatus,
        message: str = "",
        *,
        exit_code: int | None = None,
        why: InterruptionFacts | None = None,
    ) -> None:
        """End a gang with all its open tasks. Dependent gangs follow in :meth:`save`. `exit_code` is needed only if it
        differs from the exit code of the status, `why` as in :meth:`end_attempt`."""
        group.status, group.end_time, group.failure_message = status, self.now, message
        code = EXIT_CODES.get(status) if exit_code is None else exit_code
        if why is not None or cause_of_end(status, code) is not None:
            placed = self.attempts.placed_attempts(group.pk)
            self.receipts.note_end(self.workflows[group.workflow_id], group, placed, (status, code), why)
        self._ended[status, message, code].append(group.pk)
        self._touched[group.pk] = group

    def end_open_groups(
        self,
        workflow: Workflow,
        status: TaskStatus,
        message: str,
        *,
        include_waiting: bool,
        why: InterruptionFacts | None = None,
    ) -> None:
        """End every gang that has not ended; with `include_waiting` also gangs that wait for other gangs."""
        for group in self.groups[workflow.pk].values():
            is_open = not TaskStatus(group.status).is_finished
            if is_open and (include_waiting or group.status != TaskStatus.WAITING):
                self.end_group(group, status, message, why=why)

    def end_overdue(self, workflow: Workflow) -> None:
        """End the gangs of a workflow whose simulated work is done, and those that waited or ran longer than allowed.
        The exec_timeout belongs to the workflow, so all its gangs end with it. Nothing else ends a gang by the clock,
        on any kind of backend."""
        groups = list(self.groups[workflow.pk].values())
        verdicts = {group.pk: self.group_deadlines(group).verdict(self.now) for group in groups}
        for group in groups:
            status = verdicts[group.pk]
            if status is TaskStatus.COMPLETED:
                self.report_end(group, status)
            elif status is TaskStatus.FAILED_QUEUE_TIMEOUT:
                self.end_group(group, status, QUEUE_TIMEOUT_MESSAGE)
        if TaskStatus.FAILED_EXEC_TIMEOUT in verdicts.values():
            self.end_open_groups(workflow, TaskStatus.FAILED_EXEC_TIMEOUT, EXEC_TIMEOUT_MESSAGE, include_waiting=False)

    def group_deadlines(self, group: Group) -> GangDeadlines:
        """The times at which this gang ends by itself."""
        workflow = self.workflows[group.workflow_id]
        return gang_deadlines(
            TaskStatus(group.status),
            ready_at=group.ready_at,
            ends_at=group.ends_at,
            workflow_started=workflow.start_time,
            exec_timeout=workflow.exec_timeout,
            queue_timeout=workflow.queue_timeout,
        )

    def save(self) -> None:
        """Start or fail the gangs that depend on ended ones, update workflows and reservations, and write
        everything."""
        for groups in self.groups.values():
            self._advance_dependents(groups)
        self._update_due_times()
        self._write_tasks()
        self._write_workflows()
        self.receipts.save()
        workflow_names = {pk: workflow.name for pk, workflow in self.workflows.items()}
        gpu_workers.update_allocations(self.root, self._touched.values(), self.attempts, workflow_names)

    def _exit_action(self, group: Group, code: int) -> str | None:
        tasks = self.attempts.open_attempts(group.pk)
        decides = next((task for task in tasks if task.lead), tasks[0] if tasks else None)
        return None if decides is None else exit_action(code, decides.exit_actions)

    def _may_retry(self, group: Group) -> bool:
        return all(
            self.attempts.count_reschedules(task) < self._max_retries for task in self.attempts.running(group.pk)
        )

    @cached_property
    def _max_retries(self) -> int:
        return WorkflowConfig.objects.filter(pk=1).values_list("max_retry_per_task", flat=True).first() or 0

    def _requeue(self, group: Group) -> None:
        group.status, group.ready_at = TaskStatus.SCHEDULING, self.now
        group.start_time = group.ends_at = None

    def _advance_dependents(self, groups: Mapping[str, Group]) -> None:
        moved = True
        while moved:
            waiting = [group for group in groups.values() if group.status == TaskStatus.WAITING]
            moved = sum(self._advance(group, groups) for group in waiting) > 0

    def _advance(self, group: Group, groups: Mapping[str, Group]) -> bool:
        before = [groups[name] for name in group.upstream]
        if failed := next((each for each in before if TaskStatus(each.status).is_failed), None):
            self.end_group(group, TaskStatus.FAILED_UPSTREAM, f"{failed.name} did not complete")
            return True
        if all(each.status == TaskStatus.COMPLETED for each in before):
            group.status, group.ready_at = TaskStatus.SCHEDULING, self.now
            self._unblocked.append(group.pk)
            self._touched[group.pk] = group
            return True
        return False

    def _simulated_end(self, workflow: Workflow) -> datetime | None:
        assert self.root.backend is not None
        if self._is_observed or not self.root.backend.auto_end:
            return None
        # An explicit 0 is a valid run time: such work ends at the next reconciliation.
        default = timedelta(seconds=settings.OSMO.simulated_runtime)
        return self.now + (default if workflow.simulated_runtime is None else workflow.simulated_runtime)

    def _update_due_times(self) -> None:
        """A start begins the exec_timeout of the whole workflow, so the times of all its open gangs are updated."""
        for pk in {group.workflow_id for group in self._touched.values()}:
            for group in self.groups[pk].values():
                if (due := self.group_deadlines(group).earliest) != group.due_at:
                    group.due_at = due
                    self._touched[group.pk] = group

    def _write_tasks(self) -> None:
        fields = ["status", "ready_at", "start_time", "end_time", "ends_at", "due_at", "failure_message"]
        bulk_sql.update_rows(self._touched.values(), fields)
        if self._unblocked:
            waiting = Task.objects.filter(group__in=self._unblocked, status=TaskStatus.WAITING)
            waiting.update(status=TaskStatus.SCHEDULING)
        self.attempts.save()
        completed = [group for (status, *_), groups in self._ended.items() if not status.is_failed for group in groups]
        if elastic := [pk for pk in completed if self._touched[pk].gang is not None]:
            surplus = Task.objects.filter(group__in=elastic, status=TaskStatus.SCHEDULING)
            surplus.update(status=TaskStatus.FAILED_CANCELED, end_time=self.now, failure_message=UNUSED_TASK_MESSAGE)
        for (status, message, code), groups in self._ended.items():
            Task.objects.filter(group__in=groups, status__in=UNFINISHED_TASK_STATUSES).update(
                status=status, end_time=self.now, exit_code=code, failure_message=message
            )

    def _write_workflows(self) -> None:
        changed, ended, holdings = [], [], []
        for pk in {group.workflow_id for group in self._touched.values()}:
            workflow, groups = self.workflows[pk], list(self.groups[pk].values())
            workflow.status = derive_workflow_status(TaskStatus(group.status) for group in groups)
            changed.append(workflow)
            if workflow.status.is_active:
                holdings.append(self._reservation_change(workflow, groups))
                continue
            ended.append(workflow)
            workflow.end_time = self.now
            if workflow.status.is_failed and not workflow.failure_message:
                workflow.failure_message = next((each.failure_message for each in groups if each.failure_message), "")
        fields = ["status", "start_time", "end_time", "failure_message", "cancelled_by"]
        bulk_sql.update_rows(changed, fields)
        update_reservations(holdings, at=self.now)
        if ended:
            leaves = {workflow.pool_id for workflow in ended}
            release_reservations(root=self.root, leaf_ids=leaves, workflows=[workflow.pk for workflow in ended])

    def _reservation_change(self, workflow: Workflow, groups: Iterable[Group]) -> ReservationUpdate:
        unfinished = [group for group in groups if not TaskStatus(group.status).is_finished]
        held = sum(self._held_gpus(group) for group in unfinished if group.status == TaskStatus.RUNNING)
        by_flavor = counts_by_flavor(map(self._flavor_counts, unfinished)) if self._flavors.names else {}
        return ReservationUpdate(workflow.pk, held, max(group.gpus for group in unfinished), by_flavor)

    def _flavor_counts(self, group: Group) -> tuple[FlavorNeed, GangNeeds]:
        """What a gang holds by GPU flavor, and what it needs: in its own flavors once it has some."""
        tasks = self.attempts.open_attempts(group.pk)
        holding = self.attempts.placed_attempts(group.pk)
        running = [task for task in holding if task.status == TaskStatus.RUNNING]
        held = sum_by_flavor((task.gpu_count for task in running), (task.flavor for task in running))
        if holding:
            return held, [sum_by_flavor((task.gpu_count for task in holding), (task.flavor for task in holding))]
        return held, self._flavors.needs(
            [TaskGpus(task.gpu_count, tuple(task.gpu_flavors), task.platform, task.sub_group) for task in tasks],
            group.gpus,
            None if group.gang is None else tree_from_json(group.gang, len(tasks)),
        )

    def has_minimum(self, group: Group, tasks: Collection[Task]) -> bool:
        """Whether these tasks, at least one, make up the gang's minimum."""
        if group.gang is None or not tasks:
            return 0 < len(tasks) == len(self.attempts.open_attempts(group.pk))
        shape = tree_from_json(group.gang, len(tasks))
        pods = [0] * len(shape.names)
        for task in tasks:
            pods[shape.leaf_of(task.sub_group)] += 1
        return shape.is_satisfied(pods)

    def _held_gpus(self, group: Group) -> int:
        """GPUs of a running gang; of an elastic gang, and of a gang in a cluster, those of its running tasks."""
        if group.gang is None and not self._is_observed:
            return group.gpus
        return sum(task.gpu_count for task in self.attempts.running(group.pk))

    @cached_property
    def _flavors(self) -> PoolFlavors:
        return read_pool_flavors(self.root)

    @cached_property
    def _is_observed(self) -> bool:
        """Whether a cluster decides about starts and ends, which we observe."""
        return self.root.backend is not None and self.root.backend.kind == Backend.Kind.KUBERNETES
