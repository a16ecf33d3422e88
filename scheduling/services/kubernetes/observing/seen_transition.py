"""Work of an observed cluster becomes rows of the ledger, and follows what its own scheduler does."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import yaml
from django.db.models import Max

from pools.domain.values.stored_text import as_storable
from pools.models import Pool
from scheduling.domain.engine.steps import StepAction
from scheduling.domain.observed.kueue_work import WORKLOAD
from scheduling.domain.observed.leaf_names import plain_name
from scheduling.domain.observed.seen_pods import SeenPod, SeenWork
from scheduling.domain.observed.seen_work import POD
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Group, ObservedWork, Task, Workflow
from scheduling.services.kubernetes.dispatching.observation import ObservedTransition
from scheduling.services.workflows import bulk_sql
from scheduling.services.workflows.transitions import UNUSED_TASK_MESSAGE

GONE = "its pod was deleted in the cluster; why, the cluster does not say"
DELETED = "it was deleted in the cluster; why, the cluster does not say"
NOT_FOUND = "its pods cannot be found; they count as pods of their own"
OTHER_POOL = "its queue belongs to another pool now"
HANDED_OVER = "the cluster is not observed any more; the work itself goes on there"
_GROUP_NAME = "work"
_MAX_NAME = 63
_STARTS_AGAIN = frozenset(
    {
        TaskStatus.FAILED_PREEMPTED,
        TaskStatus.FAILED_EVICTED,
        TaskStatus.FAILED_BACKEND_ERROR,
        TaskStatus.FAILED_CANCELED,
    }
)
"""Ends after which the controller of a gang makes a pod again."""


def new_rows(work: SeenWork, leaf: Pool, user_id: int) -> tuple[Workflow, Group, list[Task], ObservedWork]:
    """The rows of work that is seen for the first time, as if all of it waited."""
    root = leaf.root
    since = max(work.created, root.created_at)  # the ledger knows the pool since then
    live = [pod for pod in work.pods if not pod.status.is_finished]
    workflow = Workflow(
        uuid=uuid.uuid4(),
        spec_name=_spec_name(work),
        pool=leaf,
        root_pool=root,
        submitted_by_id=user_id,
        priority=work.priority,
        submit_time=since,
        labels={},
        spec=_spec(work, live),
        warnings=list(work.notes),
    )
    gpus, gang = _size(work.minimum, [pod.gpus for pod in live])
    group = Group(
        uuid=uuid.uuid4(),
        workflow=workflow,
        name=_GROUP_NAME,
        position=0,
        gpus=gpus,
        gang=gang,
        ready_at=since,
    )
    tasks = [new_task(group, pod, position) for position, pod in enumerate(live)]
    mark = ObservedWork(
        workflow=workflow,
        backend=root.backend,
        kind=work.kind,
        namespace=work.namespace,
        name=work.name,
        uid=work.uid,
        queue=work.queue,
        notes=list(work.notes),
        owner=as_storable(work.owner),
        pods={pod.uid: str(task.pk) for pod, task in zip(live, tasks, strict=True)},
    )
    return workflow, group, tasks, mark


def new_task(group: Group, pod: SeenPod, position: int, retry_id: int = 0) -> Task:
    """The waiting task of a pod."""
    return Task(
        uuid=uuid.uuid4(),
        group=group,
        name=pod.name,
        retry_id=retry_id,
        position=position,
        status=TaskStatus.SCHEDULING,
        gpu_count=pod.gpus,
        cpu_count=pod.cpu,
        memory_bytes=pod.memory_bytes,
        storage_bytes=pod.storage_bytes,
    )


def _size(minimum: int | None, gpus: Collection[int]) -> tuple[int, dict[str, int] | None]:
    """The GPUs with which a gang of such pods runs, and its tree: of one that needs fewer pods the cheapest of them."""
    if minimum is None or minimum >= len(gpus):
        return sum(gpus), None
    return sum(sorted(gpus)[:minimum]), {"min_member": minimum}


def _spec_name(work: SeenWork) -> str:
    name = plain_name(work.name)[:_MAX_NAME].strip("-")
    return name if name[:1].isalpha() else f"w-{name}".strip("-")


def _spec(work: SeenWork, pods: Sequence[SeenPod]) -> str:
    """What pages show as its file."""
    about = {"kind": work.kind, "namespace": work.namespace, "name": work.name, "queue": work.queue}
    return yaml.safe_dump({"observed": about | {"pods": [pod.name for pod in pods]}}, sort_keys=False)


class SeenTransition(ObservedTransition):
    """A transition that follows from the objects of an observed cluster. `tells_starts`: its starts are decisions that
    were seen; the work of the first look has started before. `without_flavor` has the nodes of running pods that have
    no flavor, because their node is not known yet, by the uid of the work."""

    def __init__(
        self,
        root: Pool,
        marks: Sequence[ObservedWork],
        *,
        now: datetime,
        node_flavors: Mapping[str, str],
        tells_starts: bool,
    ) -> None:
        super().__init__(root, [mark.workflow_id for mark in marks], now=now)
        self._node_flavors, self._tells_starts = node_flavors, tells_starts
        self._flavored: list[Task] = []
        self.without_flavor: dict[str, frozenset[str]] = {}
        self._resized: list[Group] = []
        self._retries: dict[tuple[UUID, str], int] | None = None
        self._marks: list[ObservedWork] = []

    def follow(self, mark: ObservedWork, work: SeenWork) -> None:
        """Bring work to the state of its pods."""
        group = self._group(mark)
        if TaskStatus(group.status).is_finished:
            self._close(mark)
            return
        pods = {pod.uid: pod for pod in work.pods}
        ran_before = {task.pk for task in self.attempts.placed_attempts(group.pk)}
        ended = self._end_pods(group, mark, pods, work)
        self._add_pods(group, mark, work)
        if work.kind == WORKLOAD and work.outcome is None and not self.attempts.open_attempts(group.pk):
            for task in ended:  # more pods may come
                self.attempts.retry(task, retry_id=self._next_retry(group, task.name))
        self._resize(group, work)
        by_task = {task: pods[uid] for uid, task in mark.pods.items() if uid in pods}
        for task in list(self.attempts.open_attempts(group.pk)):
            pod = by_task.get(str(task.pk))
            if pod is not None:
                self._follow_pod(group, task, pod)
        self._note_unknown_nodes(group, work)
        _note_names(mark, work)
        mark.owner = mark.owner or as_storable(work.owner)  # a Workload has no pods while it waits
        placed = self.attempts.placed_attempts(group.pk)
        if self._tells_starts:
            self._add_decision(group, StepAction.START, [task for task in placed if task.pk not in ran_before])
        self._follow_group(group, work)
        self._touched[group.pk] = group
        self._marks.append(mark)
        if TaskStatus(group.status).is_finished:
            self._close(mark)

    def end(self, mark: ObservedWork, message: str) -> None:
        """The object is gone, or counts elsewhere."""
        group = self._group(mark)
        if not TaskStatus(group.status).is_finished:
            self.end_group(group, TaskStatus.FAILED_CANCELED, message)
        if message == DELETED:
            mark.pod_names = {}
        self._close(mark)

    def save(self) -> None:
        """Write the transition, the decisions and the marks."""
        super().save()
        bulk_sql.update_rows(self._resized, ["gpus", "gang"])
        bulk_sql.update_rows(self._flavored, ["flavor"])
        ObservedWork.objects.bulk_update(self._marks, ["pods", "pod_names", "is_open", "owner"])

    def _group(self, mark: ObservedWork) -> Group:
        return self.groups[mark.workflow_id][_GROUP_NAME]

    def _close(self, mark: ObservedWork) -> None:
        mark.is_open = False
        if mark not in self._marks:
            self._marks.append(mark)

    def _end_pods(self, group: Group, mark: ObservedWork, pods: Mapping[str, SeenPod], work: SeenWork) -> list[Task]:
        """End the attempts whose pods have ended or are gone, and return them. A gang goes on with waiting attempts in
        the place of those that its scheduler took away."""
        is_single = work.kind == POD
        open_tasks = {str(task.pk): task for task in self.attempts.open_attempts(group.pk)}
        ended: dict[TaskStatus, list[Task]] = {}
        for uid, task_id in list(mark.pods.items()):
            pod, task = pods.get(uid), open_tasks.get(task_id)
            if pod is not None and not pod.status.is_finished:
                continue
            del mark.pods[uid]
            if task is None or (pod is None and not is_single and not task.node_name):
                continue  # a pod that waited may come under another name: the attempt waits for it
            if pod is not None:
                status, message, code = pod.status, pod.message, pod.exit_code
            elif work.outcome is not None:
                status, message, code = work.outcome, work.outcome_message, None
            else:
                status, message, code = TaskStatus.FAILED_CANCELED, GONE, None
            why = self._why(group, task.flavor, message) if status is TaskStatus.FAILED_PREEMPTED else None
            self.end_attempt(group, task, status, message, code, why=why)
            ended.setdefault(status, []).append(task)
            if not is_single and work.outcome is None and status in _STARTS_AGAIN:
                self.attempts.retry(task, retry_id=self._next_retry(group, task.name))
        self._add_decision(group, StepAction.PREEMPT, ended.get(TaskStatus.FAILED_PREEMPTED, []))
        return [task for tasks in ended.values() for task in tasks]

    def _add_pods(self, group: Group, mark: ObservedWork, work: SeenWork) -> None:
        """Give the new pods the attempts that wait without one, or new ones."""
        known = set(mark.pods.values())
        without = [task for task in self.attempts.open_attempts(group.pk) if str(task.pk) not in known]
        new = [pod for pod in work.pods if pod.uid not in mark.pods and not pod.status.is_finished]
        if without:
            new = _match(mark, new, without, lambda each: (each.name, _gpus(each)))
            new = _match(mark, new, without, _gpus)
        for pod in new:
            position = len(self.attempts.open_attempts(group.pk))
            task = new_task(group, pod, position, self._next_retry(group, pod.name))
            self.attempts.add(task)
            mark.pods[pod.uid] = str(task.pk)
        live = sum(not pod.status.is_finished for pod in work.pods)
        surplus = len(self.attempts.open_attempts(group.pk)) - max(live, work.expected)
        for task in without[::-1][:surplus] if live and surplus > 0 else ():
            if not self.attempts.discard(task):
                self.end_attempt(group, task, TaskStatus.FAILED_CANCELED, GONE, None)

    def _next_retry(self, group: Group, name: str) -> int:
        """The number of the next attempt of this name. Pods of a gang come under new names and old ones, and take the
        attempts of others."""
        if self._retries is None:
            groups = [each.pk for of_workflow in self.groups.values() for each in of_workflow.values()]
            rows = Task.objects.filter(group__in=groups).order_by().values_list("group_id", "name")
            self._retries = {(pk, of_name): last for pk, of_name, last in rows.annotate(Max("retry_id"))}
        number = self._retries.get((group.pk, name), -1) + 1
        self._retries[group.pk, name] = number
        return number

    def _resize(self, group: Group, work: SeenWork) -> None:
        """A gang grows and shrinks with its pods: its object may come with the first of them."""
        sizes = [task.gpu_count for task in self.attempts.open_attempts(group.pk)]
        if sizes and (group.gpus, group.gang) != (found := _size(work.minimum, sizes)):
            group.gpus, group.gang = found
            self._resized.append(group)

    def _preferred(self, group: Group, tasks: Sequence[Task]) -> list[tuple[str, str]]:
        """None: the other scheduler chose the nodes by its own rules."""
        return []

    def _note_unknown_nodes(self, group: Group, work: SeenWork) -> None:
        if not self.root.flavors:
            return
        placed = self.attempts.placed_attempts(group.pk)
        if nodes := frozenset(task.node_name for task in placed if not task.flavor):
            self.without_flavor[work.uid] = nodes

    def _follow_pod(self, group: Group, task: Task, pod: SeenPod) -> None:
        if pod.node and self.root.flavors and not task.flavor and (found := self._node_flavors.get(pod.node)):
            task.flavor = found
            self._flavored.append(task)
        if (task.status, task.node_name) == (pod.status, pod.node) or not pod.node:
            return
        started = task.start_time or self._bounded_time(group, pod.started)
        self.attempts.record_observed(task, pod.status, node=pod.node, pod_ip="", started=started)

    def _follow_workload(self, group: Group, work: SeenWork) -> bool:
        """End work of Kueue that is over, or whose pods cannot be found; whether it has ended."""
        if work.outcome is not None and not work.is_live:
            for task in list(self.attempts.open_attempts(group.pk)):
                self.end_attempt(group, task, TaskStatus.FAILED_CANCELED, UNUSED_TASK_MESSAGE, None)
            failed = next((pod for pod in work.pods if pod.status.is_failed), None)
            if work.outcome is TaskStatus.FAILED and failed is not None:
                self.end_group(group, failed.status, failed.message, exit_code=failed.exit_code)
            else:
                message = work.outcome_message if work.outcome.is_failed else ""
                self.end_group(group, work.outcome, message)
        elif work.outcome is None and not work.pods and self.workflows[group.workflow_id].start_time is None:
            self.end_group(group, TaskStatus.FAILED_CANCELED, NOT_FOUND)
        return TaskStatus(group.status).is_finished

    def _follow_group(self, group: Group, work: SeenWork) -> None:
        waiting = self.attempts.open_attempts(group.pk)
        placed = self.attempts.placed_attempts(group.pk)
        workflow = self.workflows[group.workflow_id]
        if work.kind == WORKLOAD and self._follow_workload(group, work):
            return
        if work.kind != WORKLOAD and (not waiting or (not work.is_live and _is_over(work))):
            failed = next((pod for pod in work.pods if pod.status.is_failed), None)
            if failed is not None:
                self.end_group(group, failed.status, failed.message, exit_code=failed.exit_code)
            elif work.pods:
                self.end_group(group, TaskStatus.COMPLETED)
            else:
                self.end_group(group, TaskStatus.FAILED_CANCELED, GONE)
        elif placed and group.status != TaskStatus.RUNNING:
            group.status = TaskStatus.RUNNING
            group.start_time = min((task.start_time for task in placed if task.start_time), default=self.now)
            workflow.start_time = workflow.start_time or group.start_time
        elif not placed and group.status == TaskStatus.RUNNING:
            self._requeue(group)


def _note_names(mark: ObservedWork, work: SeenWork) -> None:
    """Keep the names of the pods that are there, also of those that have ended: they have an output."""
    there = {pod.uid: pod.name for pod in work.pods if pod.node and pod.status is not TaskStatus.FAILED_PREEMPTED}
    kept = {task: about for task, about in mark.pod_names.items() if about[0] in there}
    mark.pod_names = kept | {task: [uid, there[uid]] for uid, task in mark.pods.items() if uid in there}


def _gpus(each: SeenPod | Task) -> int:
    return each.gpus if isinstance(each, SeenPod) else each.gpu_count


def _match(
    mark: ObservedWork,
    pods: Sequence[SeenPod],
    waiting: list[Task],
    key: Callable[[SeenPod | Task], Hashable],
) -> list[SeenPod]:
    """Give the waiting attempts to pods of equal key; those are no longer in `waiting`. Returns the other pods."""
    by_key: defaultdict[Hashable, list[Task]] = defaultdict(list)
    for task in reversed(waiting):
        by_key[key(task)].append(task)
    rest, taken = [], set[UUID]()
    for pod in pods:
        if found := by_key[key(pod)]:
            task = found.pop()
            taken.add(task.pk)
            mark.pods[pod.uid] = str(task.pk)
        else:
            rest.append(pod)
    waiting[:] = [task for task in waiting if task.pk not in taken]
    return rest


def _is_over(work: SeenWork) -> bool:
    """Whether the pods of a gang ended by themselves, so that none comes again."""
    return bool(work.pods) and not any(pod.status in _STARTS_AGAIN for pod in work.pods)
