"""Which tasks of a gang want to be near each other, as KAI's tree of SubGroups (OSMO contract, section 10).

A task says: the same value of this key (one rack) as all tasks of the same topology group. Keys are the pool's, coarse
to fine; each is the label of a node. All tasks in one topology group is a wish of the PodGroup itself; several
topology groups become SubGroups, and finer ones stand below coarser ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduling.domain.kubernetes_json import Object
from scheduling.domain.workflow_spec import TopologyRequirement


@dataclass(frozen=True, slots=True)
class TopologyLevels:
    """The Topology object of a pool, and its keys with the node labels that carry them, coarse to fine."""

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopologyTree:
    """`constraint` is the PodGroup's own, `groups` its SubGroups with theirs, `leaf_of` the SubGroup of each task."""

    constraint: Object
    sub_groups: tuple[Object, ...]
    sub_group_of: Mapping[str, str]


def topology_tree(tasks: Mapping[str, Sequence[TopologyRequirement]], levels: TopologyLevels) -> TopologyTree:
    """The tree for tasks by name. A key that the pool does not have any more says nothing."""
    builder = _TopologyTreeBuilder(tasks, levels)
    constraint = builder.divide("", list(tasks), list(levels.labels))
    return TopologyTree(constraint, tuple(builder.groups), builder.leaf_of)


class _TopologyTreeBuilder:
    def __init__(self, tasks: Mapping[str, Sequence[TopologyRequirement]], levels: TopologyLevels) -> None:
        self.levels = levels
        self.wishes = {name: {wish.key: wish for wish in wishes} for name, wishes in tasks.items()}
        self.groups: list[Object] = []
        self.leaf_of: dict[str, str] = {}

    def divide(self, parent: str, tasks: Sequence[str], keys: Sequence[str]) -> Object:
        """The constraint that all these tasks share; those that share less go into SubGroups below `parent`."""
        constraint: Object = {}
        for depth, key in enumerate(keys):
            parts = self._parts(tasks, key)
            if len(parts) > 1:
                for part in parts:
                    self._sub_group(parent, part, keys[depth:])
                return constraint
            if key in self.wishes[tasks[0]]:  # what is near in a finer level is so in the coarser one
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
        """The tasks by the topology group they name for this key; those that name none are one part."""
        parts: dict[str | None, list[str]] = {}
        for task in tasks:
            wish = self.wishes[task].get(key)
            parts.setdefault(wish.group if wish else None, []).append(task)
        return list(parts.values())

    def _field(self, tasks: Sequence[str], key: str) -> str:
        """One wish that is a demand makes it a demand of all who share it."""
        wishes = [wish for task in tasks if (wish := self.wishes[task].get(key))]
        return "requiredTopologyLevel" if any(wish.required for wish in wishes) else "preferredTopologyLevel"
