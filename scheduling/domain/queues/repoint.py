"""From the layout in which a pool was one leaf queue to the one in which it is a container (OSMO contract, section 10).

KAI starts work only in leaves and passes over a PodGroup that names a queue with children without a word. So the moment
the shared leaf comes below a pool's queue, every PodGroup that still waits there has to be pointed at the leaf. What
runs goes on where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduling.domain.cluster.naming import POD_GROUP_OF_POD
from scheduling.domain.cluster.queue_access import QUEUE_LABELS
from scheduling.domain.kubernetes_json import ReadOnlyObject

_ENDED_PHASES = {"Succeeded", "Failed"}


@dataclass(frozen=True, slots=True)
class MisplacedPodGroup:
    """A PodGroup that names a container, where nothing starts any more."""

    name: str
    queue: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class RepointStep:
    """Point a PodGroup, and those of its pods that have no node yet, at a leaf."""

    pod_group: MisplacedPodGroup
    leaf: str
    pods: tuple[str, ...]

    @property
    def name(self) -> str:
        """The object that is written."""
        return self.pod_group.name

    @property
    def affected_names(self) -> tuple[str, ...]:
        """It comes after its leaf, and not at all if that could not be made."""
        return (self.name, self.leaf, self.pod_group.queue)

    @property
    def description(self) -> str:
        """The step for people."""
        return f"point PodGroup {self.pod_group.name} from {self.pod_group.queue} to {self.leaf}"


def read_misplaced_pod_group(item: ReadOnlyObject, leaf_of: Mapping[str, str]) -> MisplacedPodGroup | None:
    """A PodGroup that names one of the containers in `leaf_of`; None for every other."""
    queue = (item.get("spec") or {}).get("queue") or ""
    if queue not in leaf_of:
        return None
    return MisplacedPodGroup(item["metadata"]["name"], queue, item["metadata"]["resourceVersion"])


def plan_repoints(
    found: Iterable[MisplacedPodGroup], pods: Iterable[ReadOnlyObject], leaf_of: Mapping[str, str]
) -> list[RepointStep]:
    """What has to be pointed elsewhere: those PodGroups of which something still waits, or of which nothing is there
    yet. One whose pods all have their nodes is left to run out where it is."""
    waiting: dict[str, list[str]] = {each.name: [] for each in found}
    placed: set[str] = set()
    for pod in pods:
        group = (pod["metadata"].get("annotations") or {}).get(POD_GROUP_OF_POD)
        if group not in waiting or (pod.get("status") or {}).get("phase") in _ENDED_PHASES:
            continue
        if (pod.get("spec") or {}).get("nodeName"):
            placed.add(group)
        else:
            waiting[group].append(pod["metadata"]["name"])
    return [
        RepointStep(each, leaf_of[each.queue], tuple(sorted(waiting[each.name])))
        for each in found
        if waiting[each.name] or each.name not in placed
    ]


def leaf_queue_labels(leaf: str) -> dict[str, str]:
    """The labels by which a PodGroup and a pod name their queue."""
    return dict.fromkeys(QUEUE_LABELS, leaf)
