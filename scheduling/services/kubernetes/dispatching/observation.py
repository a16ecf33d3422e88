"""Writes the observed state of gangs in a cluster to the ledger, under the lock of their tree.

The cluster's scheduler decides; this module records its decisions. The same transition as on a simulated backend
updates usage, drains and the groups that depend on an ended group. Reports may come twice, late or in any order: known
facts change nothing, and reports about an ended attempt are ignored.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db.models.functions import Now

from pools.database.one_by_one import work_in_batch
from pools.database.statements import execute_sql
from pools.database.transactions import DatabaseLost, change, database_time
from pools.domain.errors import Busy
from pools.domain.people.roles import SYSTEM
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.domain.values.stored_text import as_storable
from pools.locking import lock_pool_tree
from pools.models import Backend, Pool
from scheduling.domain.cluster.diff import STATUS_RANK
from scheduling.domain.cluster.naming import pod_name
from scheduling.domain.cluster.pods.gang_outcome import (
    LOST,
    MAX_REPLACEMENTS,
    GangMember,
    GangOutcome,
    decide_outcome,
    gang_status,
)
from scheduling.domain.cluster.pods.pod_status import ENDED_PHASES, PodStatusReport
from scheduling.domain.decision_messages import DecisionFacts
from scheduling.domain.engine.steps import StepAction
from scheduling.domain.flavor_choices import PoolFlavors, TaskGpus, flavors_before, sum_by_flavor
from scheduling.domain.kubernetes_json import Object
from scheduling.domain.reason_codes import ReasonCode
from scheduling.domain.receipts.causes import EndCause, InterruptionFacts, QueueNumbers, cause_by_cluster, cause_of_end
from scheduling.domain.receipts.words import PREEMPTED_BY_CLUSTER
from scheduling.domain.statuses import TaskStatus
from scheduling.domain.workflow_spec import WorkflowSpec, exit_action
from scheduling.models import Decision, Group, Task
from scheduling.selectors.cluster.pool_flavors import read_pool_flavors
from scheduling.selectors.queue.admitted_specs import find_group_spec, read_admitted_specs
from scheduling.selectors.queue.cluster_gangs import STATUSES_IN_CLUSTER, read_ended_attempts
from scheduling.selectors.queue.start_gates import read_gate_paths
from scheduling.services.decisions import DecisionRows, build_decision
from scheduling.services.workflows.transitions import WorkflowTransition

MAX_GANGS_PER_TRANSACTION = 200  # every other change of that pool waits for the transaction
_UNSEEN_POD = timedelta(seconds=10)
"""After so long an informer knows a pod that was created."""
_RESTARTED_TOGETHER = "its gang begins together again"
_HAD_NO_ROOM = "it had no quota or no room when this was sent"
_NO_ROOM_IN_FLAVOR = "no room in its GPU flavor, and some in another one"

PodReports = Mapping[UUID, PodStatusReport]
"""The reports of one gang's attempts, by their ids."""


class ObservedTransition(WorkflowTransition):
    """A transition that follows from an observation. The decisions of the cluster's scheduler are recorded like ours,
    without a beneficiary, which the scheduler does not report."""

    def __init__(self, root: Pool, workflows: Collection[UUID], *, now: datetime) -> None:
        super().__init__(root, workflows, now=now)
        self._decisions: list[Decision] = []
        self._numbers: dict[tuple[int, str], QueueNumbers] = {}

    @property
    def has_ended_gang(self) -> bool:
        """Whether a gang ended in this transition."""
        return bool(self._ended)

    def apply_reports(self, group: Group, reports: PodReports, *, ignores_nonlead: bool) -> None:
        """Bring a gang to the state of its pods."""
        if group.status not in STATUSES_IN_CLUSTER:
            return
        reported = [(task, reports[task.pk]) for task in self.attempts.open_attempts(group.pk) if task.pk in reports]
        ran_before = {task.pk for task in self.attempts.running(group.pk)}
        for task, report in reported:
            self._update_attempt(group, task, report)
        started = [task for task in self.attempts.running(group.pk) if task.pk not in ran_before]
        self._add_decision(group, StepAction.START, started)
        preempted = [(task, report) for task, report in reported if report.status is TaskStatus.FAILED_PREEMPTED]
        if preempted:
            placed_before = self.attempts.placed_attempts(group.pk)
            why = {task.name: self._why(group, task.flavor, report.message) for task, report in preempted}
            self.preempt_tasks(group, PREEMPTED_BY_CLUSTER, tasks=list(why), why=why)
            is_finished = TaskStatus(group.status).is_finished
            placed = set() if is_finished else {task.pk for task in self.attempts.placed_attempts(group.pk)}
            self._add_decision(group, StepAction.PREEMPT, [task for task in placed_before if task.pk not in placed])
        if not TaskStatus(group.status).is_finished:
            self._end_tasks(group, reports, ignores_nonlead=ignores_nonlead)
        if not TaskStatus(group.status).is_finished:
            self._update_group_status(group)

    def send_again(self, group: Group) -> None:
        """End the attempts of a gang that has no node in the GPU flavor that it got; new ones wait in their place."""
        for task in list(self.attempts.open_attempts(group.pk)):
            self.end_attempt(group, task, TaskStatus.RESCHEDULED, _NO_ROOM_IN_FLAVOR, None)
            self.attempts.retry(task)

    def save(self) -> None:
        """Write the transition and the decisions."""
        super().save()
        Decision.objects.bulk_create(self._decisions)

    def _why(self, group: Group, flavor: str, message: str) -> InterruptionFacts:
        """What KAI's message and our own record say about a preemption in this GPU flavor (empty: without flavors)."""
        cause, pod_group = cause_by_cluster(message)
        taker = None if pod_group is None else self._find_taker(pod_group)
        numbers: dict[str, Any] = {}
        loser = self._queue_numbers(self.workflows[group.workflow_id].pool_id, flavor or DEFAULT_FLAVOR)
        if loser is not None:
            numbers["loser"] = loser.as_json()
        if (
            taker is not None
            and (gains := self._queue_numbers(taker.workflow.pool_id, flavor or DEFAULT_FLAVOR)) is not None
        ):
            numbers["taker"] = gains.as_json()
            is_inside = gains.quota is not None and gains.used + taker.gpus <= gains.quota
            if cause is EndCause.RECLAIM and not is_inside:
                cause = EndCause.FAIR_SHARE
        workflow = None if taker is None else taker.workflow_id
        return InterruptionFacts(cause, workflow, note=message, numbers=numbers)

    def _find_taker(self, pod_group: UUID) -> Group | None:
        """The gang that KAI names, if it is ours and on this backend."""
        rows = Group.objects.filter(workflow__root_pool__backend=self.root.backend_id).select_related("workflow")
        return rows.filter(pk=pod_group).first()

    def _queue_numbers(self, leaf_id: int, flavor: str) -> QueueNumbers | None:
        """The numbers of a queue in a flavor by our record; KAI does not report its shares."""
        if (leaf_id, flavor) not in self._numbers:
            leaf = Pool.objects.get(pk=leaf_id)
            root = self.root if leaf.root.pk == self.root.pk else leaf.root
            if path := read_gate_paths(root).get(leaf_id, {}).get(flavor):
                self._numbers[leaf_id, flavor] = QueueNumbers(leaf.name, path[0].quota, path[0].total_usage)
        return self._numbers.get((leaf_id, flavor))

    def _add_decision(self, group: Group, action: StepAction, tasks: Sequence[Task]) -> None:
        """Record that these tasks started, or were preempted."""
        if not tasks:
            return
        workflow, backend = self.workflows[group.workflow_id], self.root.backend_id
        assert backend is not None, "a top-level pool has a backend"
        nodes = [task.node_name for task in tasks]
        flavors = [task.flavor or DEFAULT_FLAVOR for task in tasks]
        has_flavors = bool(self.root.flavors)
        facts = DecisionFacts(
            action,
            workflow.name if len(self.groups[workflow.pk]) == 1 else f"{workflow.name}/{group.name}",
            self._leaf_names[workflow.pool_id],
            sum(task.gpu_count for task in tasks),
            nodes,
            is_growth=group.status == TaskStatus.RUNNING,
            by_flavor=sum_by_flavor((task.gpu_count for task in tasks), flavors) if has_flavors else {},
            preferred=self._preferred(group, tasks) if has_flavors and action is StepAction.START else (),
            parts=self.root.part_flavors,
        )
        rows = DecisionRows(backend, self.root.pk, workflow.pool_id, workflow.pk, group.pk)
        names = [task.name for task in tasks]
        self._decisions.append(build_decision(facts, rows, time=self.now, tasks=names, nodes=nodes))

    def _preferred(self, group: Group, tasks: Sequence[Task]) -> list[tuple[str, str]]:
        """The flavors that come before the one in which the whole gang was sent, with why the gate before the dispatch
        passed them; it did not always write that down."""
        if group.status == TaskStatus.RUNNING:
            return []
        requested = [TaskGpus(task.gpu_count, tuple(task.gpu_flavors), task.platform) for task in tasks]
        choices = self._pool_flavors.choices_or_named(requested)
        before = flavors_before(choices, tuple(task.flavor or DEFAULT_FLAVOR for task in tasks))
        known = dict(group.passed_flavors)
        return [(flavor, known.get(flavor, _HAD_NO_ROOM)) for flavor in before]

    @cached_property
    def _pool_flavors(self) -> PoolFlavors:
        return read_pool_flavors(self.root)

    @cached_property
    def _leaf_names(self) -> Mapping[int, str]:
        """The names of the workflows' leaves."""
        leaves = {workflow.pool_id for workflow in self.workflows.values()}
        return dict(Pool.objects.filter(pk__in=leaves).values_list("pk", "name"))

    def _update_attempt(self, group: Group, task: Task, report: PodStatusReport) -> None:
        """Record node and status; for an attempt that has ended meanwhile, the node and status before its end."""
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
            started = self._bounded_time(group, report.started_at)
        node, pod_ip = report.node or task.node_name, report.pod_ip or task.pod_ip
        if (task.status, task.node_name, task.pod_ip, task.start_time) != (status, node, pod_ip, started):
            self.attempts.record_observed(task, status, node=node, pod_ip=pod_ip, started=started)
            self._touched[group.pk] = group

    def _bounded_time(self, group: Group, at: datetime | None) -> datetime:
        """A time that a node reports, limited to the time between the submission and now, because a node's clock may be
        wrong."""
        submitted = self.workflows[group.workflow_id].submit_time
        return self.now if at is None else max(submitted, min(at, self.now))

    def _end_tasks(self, group: Group, reports: PodReports, *, ignores_nonlead: bool) -> None:
        ended = {
            task.name: reports[task.pk]
            for task in self.attempts.open_attempts(group.pk)
            if task.pk in reports and _is_final(reports[task.pk])
        }
        if not ended:
            return
        tasks = {task.name: task for task in self._latest_attempts[group.pk]} | {
            task.name: task for task in self.attempts.open_attempts(group.pk)
        }
        found = decide_outcome(
            [self._gang_member(task, ended.get(task.name)) for task in tasks.values()],
            tree=group.gang,
            ignores_nonlead=ignores_nonlead,
            already_ended=frozenset(name for name, task in tasks.items() if TaskStatus(task.status).is_finished),
        )
        self._apply_outcome(group, tasks, ended, found)
        self._touched[group.pk] = group

    def _gang_member(self, task: Task, report: PodStatusReport | None) -> GangMember:
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
            may_replace=self.attempts.count_ends(task, LOST) < MAX_REPLACEMENTS,
        )

    def _apply_outcome(
        self, group: Group, tasks: Mapping[str, Task], ended: Mapping[str, PodStatusReport], found: GangOutcome
    ) -> None:
        for name, status in found.final_statuses.items():
            report = ended[name]
            why = _why_lost(report)
            self.end_attempt(group, tasks[name], status, report.message, report.exit_code, why=why)
        why = next(filter(None, map(_why_lost, ended.values())), None)
        for name in found.tasks_to_restart:
            self.end_attempt(group, tasks[name], TaskStatus.RESCHEDULED, _RESTARTED_TOGETHER, None, why=why)
        for name in sorted(found.tasks_to_retry | found.tasks_to_restart):
            self.attempts.retry(tasks[name])
        if found.verdict is not None:
            self.end_group(group, found.verdict, found.message, why=why)
        elif (found.tasks_to_retry or found.tasks_to_restart) and not self.attempts.placed_attempts(group.pk):
            self._requeue(group)

    def _update_group_status(self, group: Group) -> None:
        """Advance the gang's status. The status never goes back: if its tasks wait again later, the gang keeps its
        status."""
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
    def _latest_attempts(self) -> Mapping[UUID, Sequence[Task]]:
        """The latest attempt of each task of these gangs, as it was before this transition."""
        groups = [group.pk for groups in self.groups.values() for group in groups.values()]
        rows = (
            Task.objects.filter(group__in=groups).order_by("group_id", "name", "-retry_id").distinct("group_id", "name")
        )
        latest: dict[UUID, list[Task]] = defaultdict(list)
        for task in rows:
            latest[task.group_id].append(task)
        return latest


def _why_lost(report: PodStatusReport) -> InterruptionFacts | None:
    """The facts of a pod that its cluster lost, in the words of the cluster."""
    if report.status not in LOST:
        return None
    cause = cause_of_end(report.status, None)
    assert cause is not None, "what its cluster lost has a cause"
    return InterruptionFacts(cause, note=report.message)


def _is_final(report: PodStatusReport) -> bool:
    return report.status is not None and report.status.is_finished and report.status is not TaskStatus.FAILED_PREEMPTED


def write_observations(backend: Backend, reports_by_group: Mapping[UUID, PodReports]) -> bool:
    """Write the reports of these gangs, except those whose tree others have locked. Returns whether a gang ended."""
    rows = Group.objects.filter(pk__in=reports_by_group, status__in=STATUSES_IN_CLUSTER)
    specs = read_admitted_specs(set(rows.values_list("workflow_id", flat=True)))

    def write(work: ObservedTransition, group: Group) -> None:
        spec = specs.get(group.workflow_id)
        group_spec = find_group_spec(spec, group.name) if isinstance(spec, WorkflowSpec) else None
        work.apply_reports(
            group, reports_by_group[group.pk], ignores_nonlead=group_spec is None or group_spec.ignore_nonlead_status
        )

    return _change_open_gangs(backend, reports_by_group, "observed", write)


def fail_refused_gangs(backend: Backend, refusals: Mapping[UUID, str]) -> None:
    """End gangs that this cluster can never run, each with the reason."""

    def end(work: ObservedTransition, group: Group) -> None:
        work.end_group(group, TaskStatus.FAILED_BACKEND_ERROR, refusals[group.pk])

    _change_open_gangs(backend, refusals, "refused by the cluster", end)


def end_overdue_gangs(backend: Backend) -> int:
    """End gangs that waited or ran longer than allowed. Returns the number of gangs that were due."""
    due = Group.objects.filter(due_at__lte=Now(), workflow__root_pool__backend=backend)
    late = list(due.values_list("pk", flat=True)[:MAX_GANGS_PER_TRANSACTION])
    _change_open_gangs(
        backend, late, "observed", lambda work, group: work.end_overdue(work.workflows[group.workflow_id])
    )
    return len(late)


def _change_open_gangs(
    backend: Backend, groups: Collection[UUID], description: str, operation: Callable[[ObservedTransition, Group], None]
) -> bool:
    """Call `operation` for each of these gangs that is still open, tree by tree, in transactions of limited size; not
    in a tree that others have locked. Returns whether a gang ended. Raises DatabaseLost when the connection to the
    database is lost."""
    rows = Group.objects.filter(pk__in=groups, status__in=STATUSES_IN_CLUSTER, workflow__root_pool__backend=backend)
    by_root: dict[int, list[tuple[UUID, UUID]]] = defaultdict(list)
    for group, workflow, root_id in rows.order_by("pk").values_list("pk", "workflow_id", "workflow__root_pool_id"):
        by_root[root_id].append((group, workflow))
    ended = 0
    for root_id, gangs in sorted(by_root.items()):
        for first in range(0, len(gangs), MAX_GANGS_PER_TRANSACTION):
            some = gangs[first : first + MAX_GANGS_PER_TRANSACTION]

            def change_some(some: Sequence[tuple[UUID, UUID]], root_id: int = root_id) -> int:
                try:
                    return int(_change_in_tree(backend, root_id, dict(some), description, operation))
                except DatabaseLost:
                    raise
                except Busy:
                    return 0

            ended += work_in_batch("a gang in a cluster", some, change_some)
    return ended > 0


def _change_in_tree(
    backend: Backend,
    root_id: int,
    workflows: Mapping[UUID, UUID],
    description: str,
    operation: Callable[[ObservedTransition, Group], None],
) -> bool:
    """The change of these gangs (with the ids of their workflows) of one tree; whether one of them has ended."""
    with change(actor=SYSTEM, description=description, controller_of=backend.pk):
        root = lock_pool_tree(root_id)
        root.backend = backend
        work = ObservedTransition(root, set(workflows.values()), now=database_time())
        for of_workflow in work.groups.values():
            for each in of_workflow.values():
                if each.pk in workflows and each.status in STATUSES_IN_CLUSTER:
                    operation(work, each)
        work.save()
        return work.has_ended_gang


def mark_dispatched(task_ids: Collection[UUID]) -> None:
    """Record that the pods of these attempts were created. The mark stays, because an attempt is created once."""
    Task.objects.filter(pk__in=task_ids, dispatched_at=None).update(dispatched_at=Now())


def follow_ended_pods(backend: Backend, find_pod: Callable[[str], Object | None]) -> None:
    """Record which ended attempts no longer hold their nodes, and the nodes of those that do. `find_pod` finds a known
    pod of ours."""
    now = database_time()
    gone: list[UUID] = []
    for attempt in read_ended_attempts(backend):
        pod = find_pod(pod_name(attempt.task_id))
        if pod is None:
            # A pod that never had a node may be so new that the informer does not know it yet.
            if attempt.node or attempt.dispatched_at < now - _UNSEEN_POD:
                gone.append(attempt.task_id)
        elif (pod.get("status") or {}).get("phase") in ENDED_PHASES:
            gone.append(attempt.task_id)
        elif (node := (pod.get("spec") or {}).get("nodeName") or "") != attempt.node:
            Task.objects.filter(pk=attempt.task_id).update(node_name=node)
    if gone:
        Task.objects.filter(pk__in=gone).update(pod_gone_at=now)


def set_waiting_reasons(reasons: Mapping[UUID, Mapping[str, Any] | None]) -> None:
    """Write the waiting reasons of gangs, None for no reason. No other code writes the column, so no lock is needed."""
    if not reasons:
        return
    execute_sql(
        """
        UPDATE scheduling_group AS gang SET waiting_reason = new.reason
        FROM unnest(%s::uuid[], %s::jsonb[]) AS new(gang, reason) WHERE gang.uuid = new.gang
        """,
        [list(reasons), [None if reason is None else _stored_reason(reason) for reason in reasons.values()]],
    )


def _stored_reason(reason: Mapping[str, Any]) -> str:
    """As JSON, with the texts of the cluster as the database can keep them."""
    return json.dumps({name: as_storable(text) if isinstance(text, str) else text for name, text in reason.items()})


def set_cluster_fault_reason(backend: Backend, message: str) -> None:
    """Give this waiting reason to all gangs that wait on a faulty cluster, except those with a reason from KAI."""
    reason = _stored_reason({"code": ReasonCode.CLUSTER_FAULT, "message": message})
    execute_sql(
        """
        UPDATE scheduling_group AS gang SET waiting_reason = %(reason)s::jsonb
        FROM scheduling_workflow work JOIN pools_pool root ON root.id = work.root_pool_id
        WHERE work.uuid = gang.workflow_id AND root.backend_id = %(backend)s AND gang.status = 'SCHEDULING'
            AND COALESCE(gang.waiting_reason ->> 'code', %(code)s) = %(code)s
            AND gang.waiting_reason IS DISTINCT FROM %(reason)s::jsonb
        """,
        {"reason": reason, "backend": backend.pk, "code": ReasonCode.CLUSTER_FAULT},
    )
