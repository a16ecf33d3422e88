"""Observed Topology objects against the desired ones. Their levels are immutable, so other levels need another
object."""

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
    """One Topology of a cluster. `is_ours`: it has our label; `is_foreign`: it has the label of another
    installation."""

    name: str
    uid: str
    levels: tuple[str, ...]
    is_ours: bool
    is_foreign: bool


class TopologyAction(StrEnum):
    """The kinds of writes."""

    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"
    TAKE_OVER = "take over"


@dataclass(frozen=True, slots=True)
class TopologyStep:
    """One write; a replacement is a deletion and a creation."""

    action: TopologyAction
    name: str
    topology: DesiredTopology | None
    uid: str = ""

    @property
    def affected_names(self) -> tuple[str, ...]:
        """The step is independent of all others."""
        return (self.name,)

    @property
    def description(self) -> str:
        """The step as a text."""
        levels = f": {' > '.join(self.topology.levels)}" if self.topology is not None else ""
        return f"{self.action} topology {self.name}{levels}"


def observe_topology(item: ReadOnlyObject, target: QueueTarget) -> ObservedTopology:
    """A Topology of the cluster with its owner."""
    labels = item["metadata"].get("labels") or {}
    installation, namespace = labels.get(INSTALLATION_LABEL), labels.get(NAMESPACE_LABEL)
    levels = (item.get("spec") or {}).get("levels") or []
    return ObservedTopology(
        item["metadata"]["name"],
        item["metadata"]["uid"],
        tuple(level.get("nodeLabel", "") for level in levels),
        is_ours=installation == target.installation and namespace == target.namespace,
        is_foreign=installation not in {None, target.installation} or namespace not in {None, target.namespace},
    )


def plan_topologies(
    desired: Mapping[str, DesiredTopology], observed: Mapping[str, ObservedTopology]
) -> tuple[list[TopologyStep], list[Untouched]]:
    """The writes from `observed` to `desired`, and the untouched objects of others."""
    steps: list[TopologyStep] = []
    untouched: list[Untouched] = []
    for name, topology in desired.items():
        current = observed.get(name)
        if current is None:
            steps.append(TopologyStep(TopologyAction.CREATE, name, topology))
        elif current.is_foreign:
            untouched.append(Untouched(name, "this Topology belongs to others"))
        elif current.levels != topology.levels:
            steps.append(TopologyStep(TopologyAction.REPLACE, name, topology, current.uid))
        elif not current.is_ours:
            steps.append(TopologyStep(TopologyAction.TAKE_OVER, name, topology, current.uid))
    steps += [
        TopologyStep(TopologyAction.DELETE, name, None, current.uid)
        for name, current in observed.items()
        if current.is_ours and name not in desired
    ]
    return steps, untouched
