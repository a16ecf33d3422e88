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
from pools.locking import lock_tree
from pools.models import Backend, Pool
from pools.transactions import Lost, change
from scheduling.domain.cluster.gang_outcome import Course, Member, course, gang_status
from scheduling.domain.cluster.pod_status import Report
from scheduling.domain.decision_sentences import Decided, sentence, sentence_without_name
from scheduling.domain.engine.steps import Action
from scheduling.domain.statuses import TaskStatus
from scheduling.domain.workflow_spec import WorkflowSpec, exit_action
from scheduling.models import Decision, Group, Task
from scheduling.selectors.admitted_specs import admitted_specs, group_spec
from scheduling.selectors.cluster_work import IN_CLUSTER
from scheduling.services.workflows.transitions import WorkInHand

CLUSTER_FAULT = "cluster_fault"
"""The code of a reason to wait that is the cluster's trouble, not its scheduler's verdict."""

MOST_TOGETHER = 200  # gangs in one transaction: everybody else on that pool waits for it
_RANK = {TaskStatus.SCHEDULING: 0, TaskStatus.INITIALIZING: 1, TaskStatus.RUNNING: 2}
_TOGETHER_AGAIN = "its gang begins together again"

Reports = Mapping[UUID, Report]
"""What is said of the tries of one gang, by their ids."""


class ObservedWork(WorkInHand):
    """Work that moves because its cluster was looked at. What its scheduler decided is remembered like our own
    decisions; for whom it took a place it does not say."""

    def __init__(self, root: Pool, workflows: Collection[UUID], *, now: datetime) -> None:
        super().__init__(root, workflows, now=now)
        self._decisions: list[Decision] = []

    @property
    def is_over(self) -> bool:
        """Whether a gang ended."""
        return bool(self._ended)

    def observe(self, group: Group, reports: Reports, *, ignores_nonlead: bool) -> None:
        """Bring a gang to where its pods are."""
        if group.status not in IN_CLUSTER:
            return
        said = [(task, reports[task.pk]) for task in self.tries.open(group.pk) if task.pk in reports]
        ran = {task.pk for task in self.tries.running(group.pk)}
        for task, report in said:
            self._place(group, task, report)
        self._remember(group, Action.START, [task for task in self.tries.running(group.pk) if task.pk not in ran])
        preempted = [(task, report) for task, report in said if report.status is TaskStatus.FAILED_PREEMPTED]
        if preempted:
            placed = self.tries.placed(group.pk)
            self.preempt(group, preempted[0][1].message, tasks=[task.name for task, _ in preempted])
            stays = set() if TaskStatus(group.status).is_finished else {each.pk for each in self.tries.placed(group.pk)}
            self._remember(group, Action.PREEMPT, [task for task in placed if task.pk not in stays])
        if not TaskStatus(group.status).is_finished:
            self._end_tasks(group, reports, ignores_nonlead=ignores_nonlead)
        if not TaskStatus(group.status).is_finished:
            self._stand(group)

    def save(self) -> None:
        """Write the work and the record of the decisions."""
        super().save()
        Decision.objects.bulk_create(self._decisions)

    def _remember(self, group: Group, action: Action, tasks: Sequence[Task]) -> None:
        """These tasks started, or lost their places."""
        if not tasks:
            return
        workflow, backend = self.workflows[group.workflow_id], self.root.backend_id
        assert backend is not None, "a top-level pool has a backend"
        nodes = [task.node_name for task in tasks]
        decided = Decided(
            action,
            workflow.name if len(self.groups[workflow.pk]) == 1 else f"{workflow.name}/{group.name}",
            self._leaves[workflow.pool_id],
            sum(task.gpu_count for task in tasks),
            nodes,
            more=group.status == TaskStatus.RUNNING,
        )
        self._decisions.append(
            Decision(
                time=self.now,
                action=action,
                backend_id=backend,
                root_pool_id=self.root.pk,
                pool_id=workflow.pool_id,
                workflow_id=workflow.pk,
                group_id=group.pk,
                tasks=[task.name for task in tasks],
                nodes=nodes,
                gpus=decided.gpus,
                sentence=sentence(decided),
                sentence_without_name=sentence_without_name(decided),
            )
        )

    @cached_property
    def _leaves(self) -> Mapping[int, str]:
        """The names of the leaves on which this work is."""
        leaves = {workflow.pool_id for workflow in self.workflows.values()}
        return dict(Pool.objects.filter(pk__in=leaves).values_list("pk", "name"))

    def _place(self, group: Group, task: Task, report: Report) -> None:
        """Where it runs; of one that has ended meanwhile, where it ran."""
        if report.status is None or report.status is TaskStatus.SCHEDULING:
            return
        if report.status.is_finished:
            status = TaskStatus.RUNNING if report.started else TaskStatus.INITIALIZING
        else:
            status = report.status
        if _RANK[status] < _RANK[TaskStatus(task.status)]:
            return
        started = task.start_time
        if status is TaskStatus.RUNNING and started is None:
            started = self._moment(group, report.started)
        node, pod_ip = report.node or task.node_name, report.pod_ip or task.pod_ip
        if (task.status, task.node_name, task.pod_ip, task.start_time) != (status, node, pod_ip, started):
            self.tries.observe(task, status, node=node, pod_ip=pod_ip, started=started)
            self._touched[group.pk] = group

    def _moment(self, group: Group, at: datetime | None) -> datetime:
        """A machine's clock is its own; what it says counts between the submission and now."""
        submitted = self.workflows[group.workflow_id].submit_time
        return self.now if at is None else max(submitted, min(at, self.now))

    def _end_tasks(self, group: Group, reports: Reports, *, ignores_nonlead: bool) -> None:
        ended = {
            task.name: reports[task.pk]
            for task in self.tries.open(group.pk)
            if task.pk in reports and _is_end(reports[task.pk])
        }
        if not ended:
            return
        tasks = {task.name: task for task in self._latest[group.pk]} | {
            task.name: task for task in self.tries.open(group.pk)
        }
        found = course(
            [self._member(task, ended.get(task.name)) for task in tasks.values()],
            tree=group.gang,
            ignores_nonlead=ignores_nonlead,
            ended_before=frozenset(name for name, task in tasks.items() if TaskStatus(task.status).is_finished),
        )
        self._follow_course(group, tasks, ended, found)
        self._touched[group.pk] = group

    def _member(self, task: Task, report: Report | None) -> Member:
        if report is None:
            return Member(task.name, TaskStatus(task.status), task.lead, task.sub_group, message=task.failure_message)
        assert report.status is not None
        action = None if report.exit_code is None else exit_action(report.exit_code, task.exit_actions)
        return Member(
            task.name,
            report.status,
            task.lead,
            task.sub_group,
            action,
            may_retry=self.tries.rescheduled(task) < self._most_retries,
            message=report.message,
        )

    def _follow_course(
        self, group: Group, tasks: Mapping[str, Task], ended: Mapping[str, Report], found: Course
    ) -> None:
        for name, status in found.ends.items():
            self.tries.end(tasks[name], status, ended[name].message, ended[name].exit_code)
        for name in found.restart:
            self.tries.end(tasks[name], TaskStatus.RESCHEDULED, _TOGETHER_AGAIN, None)
        for name in sorted(found.again | found.restart):
            self.tries.again(tasks[name])
        if found.verdict is not None:
            self.end(group, found.verdict, found.message)
        elif (found.again or found.restart) and not self.tries.placed(group.pk):
            self._wait_again(group)

    def _stand(self, group: Group) -> None:
        """A gang that has begun stays begun: what waits of it then waits inside its time, not for it."""
        status = gang_status([TaskStatus(task.status) for task in self.tries.open(group.pk)])
        if _RANK[status] <= _RANK[TaskStatus(group.status)]:
            return
        group.status = status
        if status is TaskStatus.RUNNING:
            starts = [task.start_time for task in self.tries.running(group.pk) if task.start_time]
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


def _is_end(report: Report) -> bool:
    return report.status is not None and report.status.is_finished and report.status is not TaskStatus.FAILED_PREEMPTED


def is_news(task: Task, report: Report) -> bool:
    """Whether a report tells something of an open try that its row does not say."""
    if report.status is None or report.status is TaskStatus.SCHEDULING:
        return False
    if report.status.is_finished:
        return True
    was = TaskStatus(task.status)
    if _RANK[report.status] < _RANK[was]:
        return False
    return (was, task.node_name, task.pod_ip) != (
        report.status,
        report.node or task.node_name,
        report.pod_ip or task.pod_ip,
    )


@dataclass(frozen=True, slots=True)
class Written:
    """What came of it: `busy` are the gangs whose tree was not had, `is_over` says that a gang ended."""

    busy: frozenset[UUID]
    is_over: bool


def write_observed(backend: Backend, seen: Mapping[UUID, Reports]) -> Written:
    """Write what is said of these gangs. Those whose tree was too busy are to be looked at again."""
    rows = Group.objects.filter(pk__in=seen, status__in=IN_CLUSTER)
    specs = admitted_specs(set(rows.values_list("workflow_id", flat=True)))

    def write(work: ObservedWork, group: Group) -> None:
        spec = specs.get(group.workflow_id)
        asked = group_spec(spec, group.name) if isinstance(spec, WorkflowSpec) else None
        work.observe(group, seen[group.pk], ignores_nonlead=asked is None or asked.ignore_nonlead_status)

    return _in_trees(backend, seen, "observed", write)


def end_refused(backend: Backend, refused: Mapping[UUID, str]) -> Written:
    """End gangs that this cluster will never run, each with the reason."""

    def end(work: ObservedWork, group: Group) -> None:
        work.end(group, TaskStatus.FAILED_BACKEND_ERROR, refused[group.pk])

    return _in_trees(backend, refused, "refused by the cluster", end)


def end_late(backend: Backend) -> int:
    """End what waited or ran longer than it may. Returns how many gangs were looked at."""
    due = Group.objects.filter(due_at__lte=timezone.now(), workflow__root_pool__backend=backend)
    late = list(due.values_list("pk", flat=True)[:MOST_TOGETHER])
    _in_trees(backend, late, "observed", lambda work, group: work.end_late(work.workflows[group.workflow_id]))
    return len(late)


def _in_trees(
    backend: Backend, groups: Collection[UUID], description: str, deed: Callable[[ObservedWork, Group], None]
) -> Written:
    """Do it to each of these gangs that is still open, tree by tree, some together. Raises Lost when the database went
    away."""
    rows = Group.objects.filter(pk__in=groups, status__in=IN_CLUSTER, workflow__root_pool__backend=backend)
    by_root: dict[int, list[tuple[UUID, UUID]]] = defaultdict(list)
    for group, workflow, root_id in rows.order_by("pk").values_list("pk", "workflow_id", "workflow__root_pool_id"):
        by_root[root_id].append((group, workflow))
    busy: set[UUID] = set()
    is_over = False
    for root_id, gangs in sorted(by_root.items()):
        for first in range(0, len(gangs), MOST_TOGETHER):
            some = dict(gangs[first : first + MOST_TOGETHER])
            try:
                with change(actor=SYSTEM, description=description):
                    root = lock_tree(root_id)
                    root.backend = backend
                    work = ObservedWork(root, set(some.values()), now=timezone.now())
                    for of_workflow in work.groups.values():
                        for each in of_workflow.values():
                            if each.pk in some and each.status in IN_CLUSTER:
                                deed(work, each)
                    work.save()
                    is_over = is_over or work.is_over
            except Lost:
                raise
            except Busy:
                busy |= some.keys()
    return Written(frozenset(busy), is_over)


def note_dispatched(tries: Collection[UUID]) -> None:
    """The pods of these tries are in the cluster. Kept for good: a try is made once."""
    Task.objects.filter(pk__in=tries, dispatched_at=None).update(dispatched_at=timezone.now())


def note_reasons(reasons: Mapping[UUID, Mapping[str, Any] | None]) -> None:
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


def note_silence(backend: Backend, sentence: str) -> None:
    """Everything that waits on a cluster that cannot be worked with waits for that, unless KAI gave another reason."""
    reason = json.dumps({"code": CLUSTER_FAULT, "message": sentence})
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
