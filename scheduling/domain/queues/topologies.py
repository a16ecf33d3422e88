"""Topology objects against the wanted ones. Their levels never change, so another list means another object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scheduling.domain.cluster.naming import HOUSE
from scheduling.domain.queues.desired import NAMESPACE, Place, Topology
from scheduling.domain.queues.plan import Untouched

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SeenTopology:
    """One Topology of a cluster. `ours` carries our mark; `theirs` carries somebody else's."""

    name: str
    uid: str
    levels: tuple[str, ...]
    ours: bool
    theirs: bool


class TopologyDeed(StrEnum):
    """What is done to one."""

    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"
    TAKE_OVER = "take over"


@dataclass(frozen=True, slots=True)
class TopologyStep:
    """One write; a replacement is a removal and a creation."""

    deed: TopologyDeed
    name: str
    topology: Topology | None
    uid: str = ""

    @property
    def places(self) -> tuple[str, ...]:
        """It has nothing to do with anything else."""
        return (self.name,)

    @property
    def sentence(self) -> str:
        """The step for people."""
        levels = f": {' > '.join(self.topology.levels)}" if self.topology is not None else ""
        return f"{self.deed} topology {self.name}{levels}"


def look_at_topology(item: Object, place: Place) -> SeenTopology:
    """What a Topology of the cluster is to us."""
    carried = item["metadata"].get("labels") or {}
    house, namespace = carried.get(HOUSE), carried.get(NAMESPACE)
    levels = (item.get("spec") or {}).get("levels") or []
    return SeenTopology(
        item["metadata"]["name"],
        item["metadata"]["uid"],
        tuple(level.get("nodeLabel", "") for level in levels),
        ours=house == place.house and namespace == place.namespace,
        theirs=house not in {None, place.house} or namespace not in {None, place.namespace},
    )


def plan_topologies(
    wanted: Mapping[str, Topology], seen: Mapping[str, SeenTopology]
) -> tuple[list[TopologyStep], list[Untouched]]:
    """The writes from `seen` to `wanted`, and what is in the way and stays."""
    steps: list[TopologyStep] = []
    untouched: list[Untouched] = []
    for name, topology in wanted.items():
        there = seen.get(name)
        if there is None:
            steps.append(TopologyStep(TopologyDeed.CREATE, name, topology))
        elif there.theirs:
            untouched.append(Untouched(name, "this Topology belongs to somebody else"))
        elif there.levels != topology.levels:
            steps.append(TopologyStep(TopologyDeed.REPLACE, name, topology, there.uid))
        elif not there.ours:
            steps.append(TopologyStep(TopologyDeed.TAKE_OVER, name, topology, there.uid))
    steps += [
        TopologyStep(TopologyDeed.DELETE, name, None, there.uid)
        for name, there in seen.items()
        if there.ours and name not in wanted
    ]
    return steps, untouched
