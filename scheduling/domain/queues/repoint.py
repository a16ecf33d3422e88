"""From the layout with one leaf queue for a pool to the layout with a container and leaves (design, O9).

KAI starts work only in leaves and silently ignores a PodGroup in a queue with children. So as soon as the shared leaf
is created below the queue of a pool, every waiting PodGroup there must be pointed at the leaf. Running work is
unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduling.domain.cluster.naming import POD_GROUP_OF_POD
from scheduling.domain.cluster.pods.pod_status import ENDED_PHASES
from scheduling.domain.cluster.queue_access import QUEUE_LABELS
from scheduling.domain.kubernetes_json import ReadOnlyObject


@dataclass(frozen=True, slots=True)
class MisplacedPodGroup:
    """A PodGroup in a container queue, where no pod can start."""

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
        """The object of the write."""
        return self.pod_group.name

    @property
    def affected_names(self) -> tuple[str, ...]:
        """The step follows the creation of its leaf, and is skipped if that failed."""
        return (self.name, self.leaf, self.pod_group.queue)

    @property
    def description(self) -> str:
        """The step as a text."""
        return f"point PodGroup {self.pod_group.name} from {self.pod_group.queue} to {self.leaf}"


def read_misplaced_pod_group(item: ReadOnlyObject, leaf_of: Mapping[str, str]) -> MisplacedPodGroup | None:
    """The PodGroup if it is in one of the containers of `leaf_of`; None for every other."""
    queue = (item.get("spec") or {}).get("queue") or ""
    if queue not in leaf_of:
        return None
    return MisplacedPodGroup(item["metadata"]["name"], queue, item["metadata"]["resourceVersion"])


def plan_repoints(
    found: Iterable[MisplacedPodGroup], pods: Iterable[ReadOnlyObject], leaf_of: Mapping[str, str]
) -> list[RepointStep]:
    """The PodGroups to repoint: those with waiting pods or without pods. A PodGroup whose pods all have nodes ends in
    its container."""
    waiting: dict[str, list[str]] = {each.name: [] for each in found}
    placed: set[str] = set()
    for pod in pods:
        group = (pod["metadata"].get("annotations") or {}).get(POD_GROUP_OF_POD)
        if group not in waiting or (pod.get("status") or {}).get("phase") in ENDED_PHASES:
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
