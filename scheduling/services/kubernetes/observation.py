"""Writing what a cluster says of our gangs into the ledger, under the lock of their tree.

A cluster's scheduler decides there; what is written here is what was seen. Usage, drain and the groups behind an ended
one follow as they do for any other move, because it goes through the same door. Reports may come twice, late or in any
order: what is known already moves nothing, and a try that has ended hears nothing any more.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db import connection
from django.utils import timezone

from pools.domain.errors import Busy
from pools.domain.roles import SYSTEM
from pools.locking import lock_pool_tree
from pools.models import Backend, Pool
from pools.transactions import DatabaseLost, change
from scheduling.domain.cluster.diff import CLUSTER_FAULT, STATUS_RANK
from scheduling.domain.cluster.gang_outcome import GangMember, GangOutcome, decide_outcome, gang_status
from scheduling.domain.cluster.pod_status import PodStatusReport
from scheduling.domain.decision_messages import DecisionFacts
from scheduling.domain.engine.steps import StepAction
from scheduling.domain.statuses import TaskStatus
from scheduling.domain.workflow_spec import WorkflowSpec, exit_action
from scheduling.models import Decision, Group, Task
from scheduling.selectors.admitted_specs import find_group_spec, read_admitted_specs
from scheduling.selectors.cluster_gangs import STATUSES_IN_CLUSTER
from scheduling.services.decisions import DecisionRows, build_decision
from scheduling.services.workflows.transitions import WorkflowTransition

MAX_GANGS_PER_TRANSACTION = 200  # gangs in one transaction: everybody else on that pool waits for it
_TOGETHER_AGAIN = "its gang begins together again"

PodReports = Mapping[UUID, PodStatusReport]
"""What is said of the tries of one gang, by their ids."""


class ObservedTransition(WorkflowTransition):
    """Work that moves because its cluster was looked at. What its scheduler decided is remembered like our own
    decisions; for whom it took a place it does not say."""

    def __init__(self, root: Pool, workflows: Collection[UUID], *, now: datetime) -> None:
        super().__init__(root, workflows, now=now)
        self._decisions: list[Decision] = []

    @property
    def has_ended_gang(self) -> bool:
        """Whether a gang ended."""
        return bool(self._ended)

    def apply_reports(self, group: Group, reports: PodReports, *, ignores_nonlead: bool) -> None:
        """Bring a gang to where its pods are."""
        if group.status not in STATUSES_IN_CLUSTER:
            return
        said = [(task, reports[task.pk]) for task in self.attempts.open_attempts(group.pk) if task.pk in reports]
        ran = {task.pk for task in self.attempts.running(group.pk)}
        for task, report in said:
            self._place(group, task, report)
        self._remember(
            group, StepAction.START, [task for task in self.attempts.running(group.pk) if task.pk not in ran]
        )
        preempted = [(task, report) for task, report in said if report.status is TaskStatus.FAILED_PREEMPTED]
        if preempted:
            placed = self.attempts.placed_attempts(group.pk)
            self.preempt_tasks(group, preempted[0][1].message, tasks=[task.name for task, _ in preempted])
            stays = (
                set()
                if TaskStatus(group.status).is_finished
                else {each.pk for each in self.attempts.placed_attempts(group.pk)}
            )
            self._remember(group, StepAction.PREEMPT, [task for task in placed if task.pk not in stays])
        if not TaskStatus(group.status).is_finished:
            self._end_tasks(group, reports, ignores_nonlead=ignores_nonlead)
        if not TaskStatus(group.status).is_finished:
            self._stand(group)

    def save(self) -> None:
        """Write the work and the record of the decisions."""
        super().save()
        Decision.objects.bulk_create(self._decisions)

    def _remember(self, group: Group, action: StepAction, tasks: Sequence[Task]) -> None:
        """These tasks started, or lost their places."""
        if not tasks:
            return
        workflow, backend = self.workflows[group.workflow_id], self.root.backend_id
        assert backend is not None, "a top-level pool has a backend"
        nodes = [task.node_name for task in tasks]
        facts = DecisionFacts(
            action,
            workflow.name if len(self.groups[workflow.pk]) == 1 else f"{workflow.name}/{group.name}",
            self._leaves[workflow.pool_id],
            sum(task.gpu_count for task in tasks),
            nodes,
            is_growth=group.status == TaskStatus.RUNNING,
        )
        rows = DecisionRows(backend, self.root.pk, workflow.pool_id, workflow.pk, group.pk)
        names = [task.name for task in tasks]
        self._decisions.append(build_decision(facts, rows, time=self.now, tasks=names, nodes=nodes))

    @cached_property
    def _leaves(self) -> Mapping[int, str]:
        """The names of the leaves on which this work is."""
        leaves = {workflow.pool_id for workflow in self.workflows.values()}
        return dict(Pool.objects.filter(pk__in=leaves).values_list("pk", "name"))

    def _place(self, group: Group, task: Task, report: PodStatusReport) -> None:
        """Where it runs; of one that has ended meanwhile, where it ran."""
        if report.status is None or report.status is TaskStatus.SCHEDULING:
            return
        if report.status.is_finished:
            status = TaskStatus.RUNNING if report.started_at else TaskStatus.INITIALIZING
        else:
            status = report.status
        if STATUS_RANK[status] < STATUS_RANK[TaskStatus(task.status)]:
            return
        started = task.start_time
        if status is TaskStatus.RUNNING and started is None:
            started = self._moment(group, report.started_at)
        node, pod_ip = report.node or task.node_name, report.pod_ip or task.pod_ip
        if (task.status, task.node_name, task.pod_ip, task.start_time) != (status, node, pod_ip, started):
            self.attempts.record_observed(task, status, node=node, pod_ip=pod_ip, started=started)
            self._touched[group.pk] = group

    def _moment(self, group: Group, at: datetime | None) -> datetime:
        """A machine's clock is its own; what it says counts between the submission and now."""
        submitted = self.workflows[group.workflow_id].submit_time
        return self.now if at is None else max(submitted, min(at, self.now))

    def _end_tasks(self, group: Group, reports: PodReports, *, ignores_nonlead: bool) -> None:
        ended = {
            task.name: reports[task.pk]
            for task in self.attempts.open_attempts(group.pk)
            if task.pk in reports and _is_end(reports[task.pk])
        }
        if not ended:
            return
        tasks = {task.name: task for task in self._latest[group.pk]} | {
            task.name: task for task in self.attempts.open_attempts(group.pk)
        }
        found = decide_outcome(
            [self._member(task, ended.get(task.name)) for task in tasks.values()],
            tree=group.gang,
            ignores_nonlead=ignores_nonlead,
            already_ended=frozenset(name for name, task in tasks.items() if TaskStatus(task.status).is_finished),
        )
        self._follow_course(group, tasks, ended, found)
        self._touched[group.pk] = group

    def _member(self, task: Task, report: PodStatusReport | None) -> GangMember:
        if report is None:
            return GangMember(
                task.name, TaskStatus(task.status), task.lead, task.sub_group, message=task.failure_message
            )
        assert report.status is not None
        action = None if report.exit_code is None else exit_action(report.exit_code, task.exit_actions)
        return GangMember(
            task.name,
            report.status,
            task.lead,
            task.sub_group,
            action,
            may_retry=self.attempts.count_reschedules(task) < self._max_retries,
            message=report.message,
        )

    def _follow_course(
        self, group: Group, tasks: Mapping[str, Task], ended: Mapping[str, PodStatusReport], found: GangOutcome
    ) -> None:
        for name, status in found.final_statuses.items():
            self.attempts.end_attempt(tasks[name], status, ended[name].message, ended[name].exit_code)
        for name in found.tasks_to_restart:
            self.attempts.end_attempt(tasks[name], TaskStatus.RESCHEDULED, _TOGETHER_AGAIN, None)
        for name in sorted(found.tasks_to_retry | found.tasks_to_restart):
            self.attempts.retry(tasks[name])
        if found.verdict is not None:
            self.end_group(group, found.verdict, found.message)
        elif (found.tasks_to_retry or found.tasks_to_restart) and not self.attempts.placed_attempts(group.pk):
            self._requeue(group)

    def _stand(self, group: Group) -> None:
        """A gang that has begun stays begun: what waits of it then waits inside its time, not for it."""
        status = gang_status([TaskStatus(task.status) for task in self.attempts.open_attempts(group.pk)])
        if STATUS_RANK[status] <= STATUS_RANK[TaskStatus(group.status)]:
            return
        group.status = status
        if status is TaskStatus.RUNNING:
            starts = [task.start_time for task in self.attempts.running(group.pk) if task.start_time]
            group.start_time = min(starts, default=self.now)
            workflow = self.workflows[group.workflow_id]
            workflow.start_time = workflow.start_time or group.start_time
        self._touched[group.pk] = group

    @cached_property
    def _latest(self) -> Mapping[UUID, Sequence[Task]]:
        """The latest try of each task of the gangs in hand, as they stood when they were taken."""
        groups = [group.pk for groups in self.groups.values() for group in groups.values()]
        rows = (
            Task.objects.filter(group__in=groups).order_by("group_id", "name", "-retry_id").distinct("group_id", "name")
        )
        latest: dict[UUID, list[Task]] = defaultdict(list)
        for task in rows:
            latest[task.group_id].append(task)
        return latest


def _is_end(report: PodStatusReport) -> bool:
    return report.status is not None and report.status.is_finished and report.status is not TaskStatus.FAILED_PREEMPTED


@dataclass(frozen=True, slots=True)
class ObservationResult:
    """What came of it: `busy` are the gangs whose tree was not had, `has_ended_gang` says that a gang ended."""

    busy_groups: frozenset[UUID]
    has_ended_gang: bool


def write_observations(backend: Backend, reports_by_group: Mapping[UUID, PodReports]) -> ObservationResult:
    """Write what is said of these gangs. Those whose tree was too busy are to be looked at again."""
    rows = Group.objects.filter(pk__in=reports_by_group, status__in=STATUSES_IN_CLUSTER)
    specs = read_admitted_specs(set(rows.values_list("workflow_id", flat=True)))

    def write(work: ObservedTransition, group: Group) -> None:
        spec = specs.get(group.workflow_id)
        asked = find_group_spec(spec, group.name) if isinstance(spec, WorkflowSpec) else None
        work.apply_reports(
            group, reports_by_group[group.pk], ignores_nonlead=asked is None or asked.ignore_nonlead_status
        )

    return _in_trees(backend, reports_by_group, "observed", write)


def fail_refused_gangs(backend: Backend, refusals: Mapping[UUID, str]) -> ObservationResult:
    """End gangs that this cluster will never run, each with the reason."""

    def end(work: ObservedTransition, group: Group) -> None:
        work.end_group(group, TaskStatus.FAILED_BACKEND_ERROR, refusals[group.pk])

    return _in_trees(backend, refusals, "refused by the cluster", end)


def end_overdue_gangs(backend: Backend) -> int:
    """End what waited or ran longer than it may. Returns how many gangs were looked at."""
    due = Group.objects.filter(due_at__lte=timezone.now(), workflow__root_pool__backend=backend)
    late = list(due.values_list("pk", flat=True)[:MAX_GANGS_PER_TRANSACTION])
    _in_trees(backend, late, "observed", lambda work, group: work.end_overdue(work.workflows[group.workflow_id]))
    return len(late)


def _in_trees(
    backend: Backend, groups: Collection[UUID], description: str, deed: Callable[[ObservedTransition, Group], None]
) -> ObservationResult:
    """Do it to each of these gangs that is still open, tree by tree, some together. Raises Lost when the database went
    away."""
    rows = Group.objects.filter(pk__in=groups, status__in=STATUSES_IN_CLUSTER, workflow__root_pool__backend=backend)
    by_root: dict[int, list[tuple[UUID, UUID]]] = defaultdict(list)
    for group, workflow, root_id in rows.order_by("pk").values_list("pk", "workflow_id", "workflow__root_pool_id"):
        by_root[root_id].append((group, workflow))
    busy: set[UUID] = set()
    is_over = False
    for root_id, gangs in sorted(by_root.items()):
        for first in range(0, len(gangs), MAX_GANGS_PER_TRANSACTION):
            some = dict(gangs[first : first + MAX_GANGS_PER_TRANSACTION])
            try:
                with change(actor=SYSTEM, description=description, controller_of=backend.pk):
                    root = lock_pool_tree(root_id)
                    root.backend = backend
                    work = ObservedTransition(root, set(some.values()), now=timezone.now())
                    for of_workflow in work.groups.values():
                        for each in of_workflow.values():
                            if each.pk in some and each.status in STATUSES_IN_CLUSTER:
                                deed(work, each)
                    work.save()
                    is_over = is_over or work.has_ended_gang
            except DatabaseLost:
                raise
            except Busy:
                busy |= some.keys()
    return ObservationResult(frozenset(busy), is_over)


def mark_dispatched(task_ids: Collection[UUID]) -> None:
    """The pods of these tries are in the cluster. Kept for good: a try is made once."""
    Task.objects.filter(pk__in=task_ids, dispatched_at=None).update(dispatched_at=timezone.now())


def set_waiting_reasons(reasons: Mapping[UUID, Mapping[str, Any] | None]) -> None:
    """What gangs wait for, None for nothing. Nobody else writes this column, so it needs no lock."""
    if not reasons:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE scheduling_group AS gang SET waiting_reason = said.reason
            FROM unnest(%s::uuid[], %s::jsonb[]) AS said(gang, reason) WHERE gang.uuid = said.gang
            """,
            [list(reasons), [None if reason is None else json.dumps(reason) for reason in reasons.values()]],
        )


def set_cluster_fault_reason(backend: Backend, message: str) -> None:
    """Everything that waits on a cluster that cannot be worked with waits for that, unless KAI gave another reason."""
    reason = json.dumps({"code": CLUSTER_FAULT, "message": message})
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE scheduling_group AS gang SET waiting_reason = %(reason)s::jsonb
            FROM scheduling_workflow work JOIN pools_pool root ON root.id = work.root_pool_id
            WHERE work.uuid = gang.workflow_id AND root.backend_id = %(backend)s AND gang.status = 'SCHEDULING'
                AND COALESCE(gang.waiting_reason ->> 'code', %(code)s) = %(code)s
                AND gang.waiting_reason IS DISTINCT FROM %(reason)s::jsonb
            """,
            {"reason": reason, "backend": backend.pk, "code": CLUSTER_FAULT},
        )
