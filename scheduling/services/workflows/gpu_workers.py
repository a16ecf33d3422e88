"""Workflows and GPU quota by namespace: each task with GPUs is a worker in the namespace that its pool names.

A task counts from its placement on a node (in a cluster: from its dispatch) to the end of its attempt. The allocations
change in the same transaction as the tasks; a start is checked before, under the same locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from pools.domain.errors import Violation
from pools.domain.gpu_quota.checks import BrokenCap, broken_caps_of_gang, broken_single_caps
from pools.domain.gpu_quota.pool_settings import gpu_namespace_of, worker_for_task
from pools.domain.gpu_quota.workers import GangWorker, GpuWorker, WorkerTotals, totals_of_workers
from pools.locking import lock_namespaces
from pools.models import GpuAllocation, Pool
from pools.selectors.gpu_namespace import read_namespaces
from pools.services.gpu_quota.gpu_allocations import allocate_gang, replace_gang_allocations
from scheduling.domain.statuses import TaskStatus
from scheduling.domain.workflow_spec import WorkflowSpec
from scheduling.models import Group, Task
from scheduling.services.workflows.attempts import TaskAttempts

_PLACED = frozenset({TaskStatus.INITIALIZING, TaskStatus.RUNNING})


def worker_of_task(root: Pool, task: Task) -> GpuWorker:
    """The worker that a task counts as."""
    return worker_for_task(root.platforms.get(task.platform) or {}, task.gpu_count)


def single_worker_violations(root: Pool, spec: WorkflowSpec) -> list[Violation]:
    """The caps on a single worker that tasks of a file break. Waiting never helps, so the submission is refused."""
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
                _task_violation(task.name, broken.as_violation(namespace))
                for broken in broken_single_caps(caps, worker)
            ]
    return found


def _task_violation(name: str, fault: Violation) -> Violation:
    return Violation(f"tasks.{name}", fault.code, f"Task {name}: {fault.message}", numbers=fault.numbers)


class NamespaceHeadroom:
    """The locked GPU namespaces of some pools, while starts and evictions are counted one after the other."""

    def __init__(self, roots: Iterable[Pool]) -> None:
        """The trees of these pools must be locked before; namespaces come after trees in the order of locks."""
        self._roots = {root.pk: root for root in roots if gpu_namespace_of(root.config)}
        names = {gpu_namespace_of(root.config) for root in self._roots.values()}
        self._facts = lock_namespaces(names) if names else {}
        self._held: dict[str, WorkerTotals] = {name: facts.committed_and_assumed for name, facts in self._facts.items()}

    def count_start(self, root_id: int, tasks: Sequence[Task]) -> Sequence[BrokenCap]:
        """Count these tasks if every cap permits all of them; otherwise returns the broken caps."""
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
        """Stop counting these tasks: they are evicted, or their start is undone."""
        root = self._roots.get(root_id)
        if root is not None:
            namespace = gpu_namespace_of(root.config)
            self._held[namespace] = self._held[namespace].minus(totals_of_workers(self._workers(root, tasks)))

    def snapshot(self) -> Mapping[str, WorkerTotals]:
        """The current counts, for `restore`."""
        return dict(self._held)

    def restore(self, snapshot: Mapping[str, WorkerTotals]) -> None:
        """Return to the counts of a snapshot."""
        self._held = dict(snapshot)

    def _workers(self, root: Pool | None, tasks: Sequence[Task]) -> list[GpuWorker]:
        if root is None:
            return []
        spec = self._facts[gpu_namespace_of(root.config)].spec
        return [spec.with_defaults(worker_of_task(root, task)) for task in tasks if task.gpu_count]


def update_allocations(
    root: Pool, groups: Iterable[Group], attempts: TaskAttempts, workflow_names: Mapping[UUID, str]
) -> None:
    """Update the namespace's allocations after these gangs changed: ended attempts release theirs, placed tasks get
    one. Runs inside the transaction that changes the gangs; a repetition changes nothing."""
    namespace, changed = gpu_namespace_of(root.config), {group.pk: group for group in groups}
    if not changed:
        return
    active = GpuAllocation.objects.filter(holder__in=changed).exclude(state=GpuAllocation.State.RELEASED)
    counted: dict[str, str] = dict(active.values_list("name", "namespace"))
    if not namespace and not counted:
        return
    open_names, new = set(), []
    for group in changed.values():
        if TaskStatus(group.status).is_finished:
            continue
        for task in attempts.open_attempts(group.pk):
            open_names.add(str(task.pk))
            if namespace and task.status in _PLACED and task.gpu_count and str(task.pk) not in counted:
                workload = f"{workflow_names[group.workflow_id]}/{task.name}"
                new.append((group.pk, GangWorker(str(task.pk), workload, worker_of_task(root, task))))
    released: dict[str, list[str]] = {}
    for name, task_namespace in counted.items():
        if name not in open_names:
            released.setdefault(task_namespace, []).append(name)
    replace_gang_allocations(
        {each: (released.get(each, []), new if each == namespace else []) for each in {*released, namespace} if each}
    )


def reserve_for_dispatch(root: Pool, group: Group) -> bool:
    """Whether the quota of the pool's namespace permits the dispatch of this gang: counts its undispatched tasks, all
    or none. A task that is counted already is not counted again, so a repetition after a crash is safe. Runs inside the
    caller's transaction and locks the namespace."""
    namespace = gpu_namespace_of(root.config)
    if not namespace:
        return True
    waiting = Task.objects.filter(group=group, status=TaskStatus.SCHEDULING, dispatched_at=None, gpu_count__gt=0)
    workers = [
        GangWorker(str(task.pk), f"{group.workflow.name}/{task.name}", worker_of_task(root, task)) for task in waiting
    ]
    return not workers or not allocate_gang(namespace=namespace, holder=group.pk, workers=workers)
