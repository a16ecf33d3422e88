"""Smaller forms of the same work, which may start earlier: fewer GPUs, or a smaller minimum of an elastic gang."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pools.domain.values.counting import counted
from scheduling.domain.gang import ROOT, tree_from_json
from scheduling.domain.workflow_spec import GroupSpec, WorkflowSpec


@dataclass(frozen=True, slots=True)
class SmallerWork:
    """`code` is `minimum` or `gpus`; `text` follows "the same work"."""

    code: str
    text: str
    spec: WorkflowSpec


def smaller_work(spec: WorkflowSpec, words: tuple[str, str] = ("GPU", "GPUs")) -> Iterator[SmallerWork]:
    """The forms that the file allows: half the minimum where a gang consists of SubGroups, then half and a quarter of
    the GPUs. Forms that would change nothing are left out. `words`: what one and several of its GPUs are called."""
    before = spec.largest_gang_gpus
    groups = tuple(_with_half_minimum(group) for group in spec.groups)
    found = replace(spec, groups=groups)
    if groups != spec.groups and found.largest_gang_gpus < before:
        text = f"with half the minimum: it starts with {counted(found.largest_gang_gpus, *words)} instead of {before}"
        yield SmallerWork("minimum", text, found)
    last = before
    for part in (2, 4):
        found = replace(spec, groups=tuple(_with_fewer_gpus(group, part) for group in spec.groups))
        gpus = found.largest_gang_gpus
        if 0 < gpus < last:
            yield SmallerWork("gpus", f"with {counted(gpus, *words)} instead of {before}", found)
            last = gpus


def _with_half_minimum(group: GroupSpec) -> GroupSpec:
    """A gang of SubGroups with half its `minSubGroup` (all of them count where it is not set); others as they were."""
    if group.gang is None:
        return group
    tree = tree_from_json(group.gang, len(group.tasks))
    least = tree.thresholds[ROOT]
    if tree.is_single_leaf or least < 2:
        return group
    return replace(group, gang={**group.gang, "min_sub_group": (least + 1) // 2})


def _with_fewer_gpus(group: GroupSpec, part: int) -> GroupSpec:
    """Each task with so small a part of its GPUs, rounded up; where tasks have one GPU, a gang with fewer tasks."""
    if any(task.gpu > 1 for task in group.tasks):
        return replace(group, tasks=tuple(replace(task, gpu=-(-task.gpu // part)) for task in group.tasks))
    if group.gang is not None and not tree_from_json(group.gang, len(group.tasks)).is_single_leaf:
        return group
    count = -(-len(group.tasks) // part)
    gang = None if group.gang is None else {**group.gang, "min_member": count}
    return replace(group, tasks=group.tasks[:count], gang=gang)
