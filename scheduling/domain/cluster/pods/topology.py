"""Topology requirements of the tasks of a gang as KAI's tree of SubGroups (design, O9).

A task requires the same value of a key (one rack) as all tasks of the same topology group. The pool defines the keys,
coarse to fine; each key means a node label. One topology group with all tasks is a constraint of the PodGroup
itself; several topology groups become SubGroups, finer ones below coarser ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduling.domain.kubernetes_json import Object
from scheduling.domain.workflow_spec import TopologyRequirement


@dataclass(frozen=True, slots=True)
class TopologyLevels:
    """The Topology object of a pool, and its keys with their node labels, coarse to fine."""

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopologyTree:
    """`constraint` is that of the PodGroup, `sub_groups` are its SubGroups with theirs, `sub_group_of` the SubGroup of
    each task."""

    constraint: Object
    sub_groups: tuple[Object, ...]
    sub_group_of: Mapping[str, str]


def topology_tree(tasks: Mapping[str, Sequence[TopologyRequirement]], levels: TopologyLevels) -> TopologyTree:
    """The tree for tasks by name. A key that the pool no longer has is ignored."""
    builder = _TopologyTreeBuilder(tasks, levels)
    constraint = builder.divide("", list(tasks), list(levels.labels))
    return TopologyTree(constraint, tuple(builder.groups), builder.leaf_of)


class _TopologyTreeBuilder:
    def __init__(self, tasks: Mapping[str, Sequence[TopologyRequirement]], levels: TopologyLevels) -> None:
        self.levels = levels
        self.requirements = {
            name: {requirement.key: requirement for requirement in requirements} for name, requirements in tasks.items()
        }
        self.groups: list[Object] = []
        self.leaf_of: dict[str, str] = {}

    def divide(self, parent: str, tasks: Sequence[str], keys: Sequence[str]) -> Object:
        """The common constraint of all these tasks; tasks that share less go into SubGroups below `parent`."""
        constraint: Object = {}
        for depth, key in enumerate(keys):
            parts = self._parts(tasks, key)
            if len(parts) > 1:
                for part in parts:
                    self._sub_group(parent, part, keys[depth:])
                return constraint
            if key in self.requirements[tasks[0]]:  # a finer level implies the coarser one
                constraint |= {"topology": self.levels.name, self._field(tasks, key): self.levels.labels[key]}
        if parent:
            self.leaf_of |= dict.fromkeys(tasks, parent)
        return constraint

    def _sub_group(self, parent: str, tasks: Sequence[str], keys: Sequence[str]) -> None:
        name = f"{parent or 'near'}-{sum(group.get('parent', '') == parent for group in self.groups)}"
        group: Object = {"name": name} | ({"parent": parent} if parent else {})
        self.groups.append(group)
        constraint = self.divide(name, tasks, keys)
        if constraint:
            group["topologyConstraint"] = constraint
        if own := sum(leaf == name for leaf in self.leaf_of.values()):
            group["minMember"] = own

    def _parts(self, tasks: Sequence[str], key: str) -> list[list[str]]:
        """The tasks by their topology group for this key; tasks without a group are one part."""
        parts: dict[str | None, list[str]] = {}
        for task in tasks:
            requirement = self.requirements[task].get(key)
            parts.setdefault(requirement.group if requirement else None, []).append(task)
        return list(parts.values())

    def _field(self, tasks: Sequence[str], key: str) -> str:
        """One required requirement makes the constraint required for all tasks that share it."""
        requirements = [requirement for task in tasks if (requirement := self.requirements[task].get(key))]
        return (
            "requiredTopologyLevel"
            if any(requirement.required for requirement in requirements)
            else "preferredTopologyLevel"
        )
