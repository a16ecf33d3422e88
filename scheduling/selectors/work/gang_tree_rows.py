"""The current state of gangs with a tree. Reads loaded rows only."""

from __future__ import annotations

from collections import Counter

from scheduling.domain.gang import tree_from_json
from scheduling.domain.gang_tree_rows import GangTreeRow, gang_tree_rows
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Group, Task

# Completed tasks count as active, so that an ended gang shows its full tree.
_ACTIVE_STATUSES = frozenset({TaskStatus.INITIALIZING, TaskStatus.RUNNING, TaskStatus.COMPLETED})


def read_gang_tree_rows(group: Group) -> list[GangTreeRow]:
    """The tree of a group whose tasks are loaded (the latest attempt of each counts), its own row first; empty for a
    gang that has no tree."""
    if group.gang is None:
        return []
    latest: dict[str, Task] = {}
    for task in group.loaded_tasks:
        if task.name not in latest or latest[task.name].retry_id < task.retry_id:
            latest[task.name] = task
    tree = tree_from_json(group.gang, len(latest))
    leaves = [(tree.leaf_of(task.sub_group), task.status) for task in latest.values()]
    pods = Counter(leaf for leaf, _ in leaves)
    active = Counter(leaf for leaf, status in leaves if status in _ACTIVE_STATUSES)
    return gang_tree_rows(tree, group.name, active, pods)
