"""Workflows and GPU quota by namespace: each task with GPUs is a worker in the namespace that its pool names.

A task counts from the moment it has a machine (on a cluster: from its dispatch) until its try ends. What counts follows
the tasks in the very transaction that moves them; whether a start may be is asked before, under the same locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from pools.domain.errors import Violation
from pools.domain.gpu_quota.checks import BrokenCap, broken_caps_of_gang, broken_single_caps
from pools.domain.gpu_quota.pool_settings import gpu_namespace_of, worker_for_task
from pools.domain.gpu_quota.workers import AllocationRequest, GpuWorker, WorkerTotals, totals_of_workers
from pools.locking import lock_namespaces
from pools.models import GpuAllocation, Pool
from pools.selectors.gpu_namespace import read_namespaces
from pools.services.gpu_allocations import allocate_gang, replace_gang_allocations
from scheduling.domain.statuses import TaskStatus
from scheduling.domain.workflow_spec import WorkflowSpec
from scheduling.models import Group, Task
from scheduling.services.workflows.attempts import TaskAttempts

_PLACED = frozenset({TaskStatus.INITIALIZING, TaskStatus.RUNNING})


def worker_of_task(root: Pool, task: Task) -> GpuWorker:
    """What a task counts as."""
    return worker_for_task(root.platforms.get(task.platform) or {}, task.gpu_count)


def single_worker_violations(root: Pool, spec: WorkflowSpec) -> list[Violation]:
    """The caps on one worker that tasks of a file break: waiting would never help, so the submission is refused."""
    namespace = gpu_namespace_of(root.config)
    if not namespace:
        return []
    caps = read_namespaces([namespace])[namespace].spec
    found = []
    for group in spec.groups:
        for task in group.tasks:
            if not task.gpu:
                continue
            platform = root.platforms.get(task.platform or "") or {}
            worker = caps.with_defaults(worker_for_task(platform, task.gpu))
            found += [
                _of_task(task.name, broken.as_violation(namespace)) for broken in broken_single_caps(caps, worker)
            ]
    return found


def _of_task(name: str, fault: Violation) -> Violation:
    return Violation(f"tasks.{name}", fault.code, f"Task {name}: {fault.message}", numbers=fault.numbers)


class NamespaceHeadroom:
    """The namespaces of some pools, locked, while starts and what is taken for them are judged one after the other."""

    def __init__(self, roots: Iterable[Pool]) -> None:
        """The trees of these pools are locked already; namespaces come after trees."""
        self._roots = {root.pk: root for root in roots if gpu_namespace_of(root.config)}
        names = {gpu_namespace_of(root.config) for root in self._roots.values()}
        self._facts = lock_namespaces(names) if names else {}
        self._held: dict[str, WorkerTotals] = {name: facts.committed_and_assumed for name, facts in self._facts.items()}

    def count_start(self, root_id: int, tasks: Sequence[Task]) -> Sequence[BrokenCap]:
        """Count tasks that start, if every cap allows all of them; else the caps that do not."""
        root = self._roots.get(root_id)
        workers = self._workers(root, tasks)
        if root is None or not workers:
            return ()
        namespace = gpu_namespace_of(root.config)
        broken = broken_caps_of_gang(self._facts[namespace].spec, self._held[namespace], workers)
        if not broken:
            self._held[namespace] += totals_of_workers(workers)
        return broken

    def count_stop(self, root_id: int, tasks: Sequence[Task]) -> None:
        """Count tasks that lose their places, or whose start is taken back."""
        root = self._roots.get(root_id)
        if root is not None:
            namespace = gpu_namespace_of(root.config)
            self._held[namespace] = self._held[namespace].minus(totals_of_workers(self._workers(root, tasks)))

    def snapshot(self) -> Mapping[str, WorkerTotals]:
        """What is counted now; give it to `undo`."""
        return dict(self._held)

    def restore(self, snapshot: Mapping[str, WorkerTotals]) -> None:
        """Count as it was."""
        self._held = dict(snapshot)

    def _workers(self, root: Pool | None, tasks: Sequence[Task]) -> list[GpuWorker]:
        if root is None:
            return []
        spec = self._facts[gpu_namespace_of(root.config)].spec
        return [spec.with_defaults(worker_of_task(root, task)) for task in tasks if task.gpu_count]


def update_allocations(
    root: Pool, groups: Iterable[Group], attempts: TaskAttempts, workflow_names: Mapping[UUID, str]
) -> None:
    """Let the namespace's workers follow the tasks of gangs that moved: those whose try has ended give back, those that
    have a machine count. Inside the transaction that moves them; what is known already moves nothing."""
    namespace, moved = gpu_namespace_of(root.config), {group.pk: group for group in groups}
    if not moved:
        return
    live = GpuAllocation.objects.filter(holder__in=moved).exclude(state=GpuAllocation.State.RELEASED)
    counted: dict[str, str] = dict(live.values_list("name", "namespace"))
    if not namespace and not counted:
        return
    still, new = set(), []
    for group in moved.values():
        if TaskStatus(group.status).is_finished:
            continue
        for task in attempts.open_attempts(group.pk):
            still.add(str(task.pk))
            if namespace and task.status in _PLACED and task.gpu_count and str(task.pk) not in counted:
                workload = f"{workflow_names[group.workflow_id]}/{task.name}"
                new.append((group.pk, AllocationRequest(str(task.pk), workload, worker_of_task(root, task))))
    gone: dict[str, list[str]] = {}
    for name, where in counted.items():
        if name not in still:
            gone.setdefault(where, []).append(name)
    replace_gang_allocations(
        {where: (gone.get(where, []), new if where == namespace else []) for where in {*gone, namespace} if where}
    )


def reserve_for_dispatch(root: Pool, group: Group) -> bool:
    """Whether the quota of its pool's namespace allows this gang to be given to its cluster: of it the tasks that were
    not are counted now, all or none. What is counted already is left alone, so it may be asked again after a crash.
    Inside the caller's transaction; the namespace is locked here."""
    namespace = gpu_namespace_of(root.config)
    if not namespace:
        return True
    waiting = Task.objects.filter(group=group, status=TaskStatus.SCHEDULING, dispatched_at=None, gpu_count__gt=0)
    workers = [
        AllocationRequest(str(task.pk), f"{group.workflow.name}/{task.name}", worker_of_task(root, task))
        for task in waiting
    ]
    return not workers or not allocate_gang(namespace=namespace, holder=group.pk, workers=workers)
