"""What the loss of nodes does to a gang, before anything is scheduled again (docs/bad-day.md)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pools.domain.values.amounts import Number
from scheduling.domain.engine.facts import GangFacts, TaskFacts, TaskState
from scheduling.domain.gang import GangTree


def gang_after_loss(gang: GangFacts, lost: Collection[str], *, now: Number | None = None) -> GangFacts:
    """The gang without these nodes; the gang itself where it has nothing there.

    * Pods beyond the minimum of an elastic gang wait for another node, and the others go on.
    * A gang that is left below its minimum, or without its lead, loses its place as a whole: it waits again with its
      first submit time, or, where it does not restart, it has ended.
    * A pod that was ending has ended.

    `now`: since when it waits again, in the seconds of the facts.
    """
    gone = [task.node in lost and task.node is not None for task in gang.tasks]
    if not any(gone):
        return gang
    tasks = [
        replace(task, state=TaskState.FINISHED, node=None) if is_gone and task.state is TaskState.RELEASING else task
        for task, is_gone in zip(gang.tasks, gone, strict=True)
    ]
    hit = [is_gone and task.state is TaskState.RUNNING for task, is_gone in zip(tasks, gone, strict=True)]
    if not any(hit):
        return replace(gang, tasks=tuple(tasks))
    has_lead = not any(is_hit and task.name == gang.lead for task, is_hit in zip(tasks, hit, strict=True))
    staying = [task for task, is_hit in zip(tasks, hit, strict=True) if not is_hit]
    if has_lead and holds_minimum(gang.tree, staying):
        waiting = (_again(task) if is_hit else task for task, is_hit in zip(tasks, hit, strict=True))
        return replace(gang, tasks=tuple(waiting))
    if not gang.restarts:
        return replace(gang, tasks=tuple(replace(task, state=TaskState.FINISHED, node=None) for task in tasks))
    again = tuple(_again(task) if task.state is TaskState.RUNNING else task for task in tasks)
    return replace(gang, tasks=again, started=None, waiting_since=gang.waiting_since if now is None else now)


def holds_minimum(tree: GangTree | None, staying: Collection[TaskFacts]) -> bool:
    """Whether these tasks alone are enough for the gang. Without a tree it needs all of its tasks."""
    if tree is None:
        return False
    pods = [0] * len(tree.names)
    for task in staying:
        if task.state in {TaskState.RUNNING, TaskState.FINISHED}:
            pods[tree.leaf_of(task.group)] += 1
    return tree.is_satisfied(pods)


def _again(task: TaskFacts) -> TaskFacts:
    return replace(task, state=TaskState.PENDING, node=None)
