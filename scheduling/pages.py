"""What the browser's pages on work show. Reads only, always through `visible_to`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Max

from pools.domain import names
from pools.domain.roles import Actor
from pools.models import Node, Pool
from scheduling.domain.admission import Gate, Wait, WaitCode, start_verdict
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import LIVE_WORKFLOW, TaskStatus, WorkflowStatus
from scheduling.models import Group, Workflow
from scheduling.selectors.gates import paths_of

LIVE = "live"
ENDED = "ended"


@dataclass(frozen=True, slots=True)
class LiveCounts:
    """How many workflows run, and how many wait."""

    running: int
    waiting: int


def live_counts(actor: Actor) -> LiveCounts:
    """The live workflows that `actor` sees; one query."""
    rows = Workflow.objects.visible_to(actor).live().order_by().values_list("status").annotate(count=Count("pk"))
    counts = dict(rows)
    running = counts.pop(WorkflowStatus.RUNNING, 0)
    return LiveCounts(running, sum(counts.values()))


def statuses_meant(choice: str) -> tuple[WorkflowStatus, ...]:
    """The statuses that a filter's value stands for: `live`, `ended`, one status, or none."""
    if choice == LIVE:
        return tuple(sorted(LIVE_WORKFLOW))
    if choice == ENDED:
        return tuple(status for status in WorkflowStatus if not status.is_live)
    return (WorkflowStatus(choice),) if choice in set(WorkflowStatus) else ()


def leaves_meant(actor: Actor, text: str) -> list[str]:
    """The leaves that a filter's value stands for: a pool with its slices, one slice, or with `--_shared` the part of a
    pool that no slice owns."""
    path = names.split(text)
    if path.subpool == names.SHARED:
        return [path.parent]
    if path.subpool is not None:
        return [text]
    slices = Pool.objects.visible_to(actor).filter(parent__name=text).values_list("name", flat=True)
    return [text, *slices]


def why_waiting(workflow: Workflow, groups: Sequence[Group]) -> dict[str, str]:
    """By the name of each group that waits, the sentence that says for what: groups before it, or the first gate that
    does not let it through now."""
    told = {
        group.name: f"It starts when {' and '.join(group.upstream)} completed."
        for group in groups
        if group.status == TaskStatus.WAITING
    }
    asking = [group for group in groups if group.status == TaskStatus.SCHEDULING]
    if not asking:
        return told
    root = workflow.root_pool
    path: tuple[Gate, ...] = paths_of(root).get(workflow.pool_id, ())
    for group in asking:
        wait = start_verdict(path, priority=Priority(workflow.priority), gpus=group.gpus)
        told[group.name] = _backend_told(root, group) if wait is None else _wait_told(wait)
    return told


def _backend_told(root: Pool, group: Group) -> str:
    """What a gang waits for that every quota lets through: the machines."""
    if root.backend is None or root.backend.offline:
        return "The backend is offline; everything waits until it is back."
    # Of an elastic gang the largest pods may be those it can do without.
    largest = 0 if group.gang else max((task.gpu_count for task in group.tasks.all()), default=0)
    machine = Node.objects.filter(backend=root.backend).aggregate(most=Max("gpus"))["most"] or 0
    if largest > machine:
        return (
            f"One of its tasks asks for {largest} GPUs, the largest node of backend {root.backend.name} has {machine}. "
            "It can never start there: cancel it, and split the task."
        )
    return f"Every quota lets it start. It waits until nodes have room for {group.gpus} GPUs, or for the next pass."


def _wait_told(wait: Wait) -> str:
    what = {
        WaitCode.LEAF_QUOTA: f"the quota of {_shown(wait.node)}, {wait.limit} GPUs",
        WaitCode.POOL_QUOTA: f"the guarantee of pool {wait.node}, {wait.limit} GPUs",
        WaitCode.POOL_MAXIMUM: f"the maximum of pool {wait.node}, {wait.limit} GPUs",
    }[wait.code]
    missing = wait.requested - wait.free
    return f"It asks for {wait.requested} GPUs at once; {what}, leaves {wait.free} free: {missing} more are needed."


def _shown(node: str) -> str:
    """A leaf as people know it: the shared queue stays invisible."""
    path = names.split(node)
    return f"the unallocated part of {path.parent}" if path.subpool == names.SHARED else node
