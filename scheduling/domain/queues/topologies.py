"""Topology objects against the wanted ones. Their levels never change, so another list means another object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from scheduling.domain.cluster.naming import INSTALLATION_LABEL
from scheduling.domain.kubernetes_json import ReadOnlyObject
from scheduling.domain.queues.desired import NAMESPACE_LABEL, DesiredTopology, QueueTarget
from scheduling.domain.queues.plan import Untouched


@dataclass(frozen=True, slots=True)
class ObservedTopology:
    """One Topology of a cluster. `ours` carries our mark; `theirs` carries somebody else's."""

    name: str
    uid: str
    levels: tuple[str, ...]
    is_ours: bool
    is_foreign: bool


class TopologyAction(StrEnum):
    """What is done to one."""

    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"
    TAKE_OVER = "take over"


@dataclass(frozen=True, slots=True)
class TopologyStep:
    """One write; a replacement is a removal and a creation."""

    action: TopologyAction
    name: str
    topology: DesiredTopology | None
    uid: str = ""

    @property
    def affected_names(self) -> tuple[str, ...]:
        """It has nothing to do with anything else."""
        return (self.name,)

    @property
    def description(self) -> str:
        """The step for people."""
        levels = f": {' > '.join(self.topology.levels)}" if self.topology is not None else ""
        return f"{self.action} topology {self.name}{levels}"


def observe_topology(item: ReadOnlyObject, target: QueueTarget) -> ObservedTopology:
    """What a Topology of the cluster is to us."""
    carried = item["metadata"].get("labels") or {}
    house, namespace = carried.get(INSTALLATION_LABEL), carried.get(NAMESPACE_LABEL)
    levels = (item.get("spec") or {}).get("levels") or []
    return ObservedTopology(
        item["metadata"]["name"],
        item["metadata"]["uid"],
        tuple(level.get("nodeLabel", "") for level in levels),
        is_ours=house == target.installation and namespace == target.namespace,
        is_foreign=house not in {None, target.installation} or namespace not in {None, target.namespace},
    )


def plan_topologies(
    desired: Mapping[str, DesiredTopology], observed: Mapping[str, ObservedTopology]
) -> tuple[list[TopologyStep], list[Untouched]]:
    """The writes from `observed` to `desired`, and what is in the way and stays."""
    steps: list[TopologyStep] = []
    untouched: list[Untouched] = []
    for name, topology in desired.items():
        there = observed.get(name)
        if there is None:
            steps.append(TopologyStep(TopologyAction.CREATE, name, topology))
        elif there.is_foreign:
            untouched.append(Untouched(name, "this Topology belongs to somebody else"))
        elif there.levels != topology.levels:
            steps.append(TopologyStep(TopologyAction.REPLACE, name, topology, there.uid))
        elif not there.is_ours:
            steps.append(TopologyStep(TopologyAction.TAKE_OVER, name, topology, there.uid))
    steps += [
        TopologyStep(TopologyAction.DELETE, name, None, there.uid)
        for name, there in observed.items()
        if there.is_ours and name not in desired
    ]
    return steps, untouched
