"""The queues of one cluster: read what is there, work out what to write, and do one step of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from scheduling.domain.cluster.naming import FIELD_MANAGER, INSTALLATION_LABEL
from scheduling.domain.kubernetes_json import Object
from scheduling.domain.priorities import Priority
from scheduling.domain.queues import repoint
from scheduling.domain.queues.desired import (
    NAMESPACE_LABEL,
    DesiredQueue,
    DesiredTopology,
    QueueTarget,
    queue_manifest,
    topology_manifest,
)
from scheduling.domain.queues.observed import ObservedQueue, Ownership, QueueDifference, observe_queue
from scheduling.domain.queues.plan import QueueAction, QueueStep, Untouched, plan_queues
from scheduling.domain.queues.repoint import RepointStep
from scheduling.domain.queues.topologies import (
    ObservedTopology,
    TopologyAction,
    TopologyStep,
    observe_topology,
    plan_topologies,
)
from scheduling.kube.errors import KindMissing, ObjectNotFound
from scheduling.kube.port import Cluster
from scheduling.kube.resource_kinds import POD, POD_GROUP, PRIORITY_CLASS, QUEUE, TOPOLOGY

QUEUE_PAGE_SIZE = 1000


@dataclass(frozen=True, slots=True)
class PriorityClassWrite:
    """A PriorityClass that is missing."""

    name: str
    value: int

    @property
    def affected_names(self) -> tuple[str, ...]:
        """It has nothing to do with anything else."""
        return (self.name,)

    @property
    def description(self) -> str:
        """The step for people."""
        return f"create PriorityClass {self.name}: {self.value}"


ClusterWrite = PriorityClassWrite | QueueStep | RepointStep | TopologyStep


@dataclass(frozen=True, slots=True)
class QueueFieldDrift:
    """A field of a queue of ours that somebody else changed."""

    queue: str
    difference: QueueDifference


@dataclass(frozen=True, slots=True)
class QueueComparison:
    """What a cluster has and what follows from it: steps in their order, what somebody else changed, what is left
    alone. `objects` counts the queues that are ours."""

    writes: tuple[ClusterWrite, ...]
    drift: tuple[QueueFieldDrift, ...]
    untouched: tuple[Untouched, ...]
    owned_queues: int


def compare_queues(
    cluster: Cluster,
    place: QueueTarget,
    queues: Mapping[str, DesiredQueue],
    topologies: Mapping[str, DesiredTopology],
    leaf_of: Mapping[str, str],
    *,
    take_over: bool = False,
) -> QueueComparison:
    """List what is there and plan. Lists only: it writes nothing. Raises ClusterError; KindMissing when the cluster has
    no KAI queues.

    `take_over` treats queues that carry the mark of another house, but our namespace, as ours: for a house whose
    database was made anew.
    """

    def kept(item: Object) -> ObservedQueue:
        return observe_queue(_ours(item, place) if take_over else item, place, queues)

    seen = _by_name(cluster.list(QUEUE, page_size=QUEUE_PAGE_SIZE, transform=kept).items)
    queue_plan = plan_queues(queues, seen)
    priorities, notes = _priorities(cluster)
    topology_steps, more_notes = _topologies(cluster, place, topologies)
    return QueueComparison(
        (*priorities, *queue_plan.steps, *_repoints(cluster, place, leaf_of), *topology_steps),
        tuple(QueueFieldDrift(name, each) for name, found in seen.items() for each in found.drifted),
        (*queue_plan.untouched, *notes, *more_notes),
        sum(found.standing in {Ownership.OURS, Ownership.ADOPTED} for found in seen.values()),
    )


def apply_write(cluster: Cluster, place: QueueTarget, write: ClusterWrite) -> None:
    """Do one step. Doing it again does no harm. Raises ClusterError."""
    if isinstance(write, PriorityClassWrite):
        cluster.apply(PRIORITY_CLASS, _priority_class(write), field_manager=FIELD_MANAGER, force=True)
    elif isinstance(write, RepointStep):
        _repoint(cluster, place, write)
    elif isinstance(write, TopologyStep):
        _take_topology(cluster, place, write)
    elif write.action is QueueAction.DELETE:
        with suppress(ObjectNotFound):
            cluster.delete(QUEUE, write.name, uid=write.uid)
    else:
        assert write.queue is not None, "only a removal has no queue"
        _write(cluster, place, write, write.queue)


def _write(cluster: Cluster, place: QueueTarget, step: QueueStep, queue: DesiredQueue) -> None:
    """One apply. Fields that somebody else wrote and that shall not be there are taken away first, for an apply only
    takes away what it gave."""
    strange = [each.field for each in step.differences if each.ours is None and each.by]
    if strange:
        cluster.merge(QUEUE, step.name, _without(strange), field_manager=FIELD_MANAGER)
    if len(strange) < len(step.differences) or not step.differences:
        cluster.apply(QUEUE, queue_manifest(place, queue), field_manager=FIELD_MANAGER, force=True)


def _without(fields: list[str]) -> Object:
    """The merge patch that takes fields away; only labels and the parent are ever in our way."""
    change: Object = {}
    for field in fields:
        if field.startswith("metadata.labels."):
            labels = change.setdefault("metadata", {}).setdefault("labels", {})
            labels[field.removeprefix("metadata.labels.")] = None
        else:
            change.setdefault("spec", {})[field.removeprefix("spec.")] = None
    return change


def _ours(item: Object, place: QueueTarget) -> Object:
    """The queue without another house's mark on our namespace."""
    labels = item["metadata"].get("labels") or {}
    if labels.get(INSTALLATION_LABEL) in {None, place.installation} or labels.get(NAMESPACE_LABEL) != place.namespace:
        return item
    kept = {key: value for key, value in labels.items() if key != INSTALLATION_LABEL}
    return item | {"metadata": item["metadata"] | {"labels": kept}}


def _priorities(cluster: Cluster) -> tuple[list[PriorityClassWrite], list[Untouched]]:
    """Priority classes have no house: they are made where they are missing, and left alone where they are not."""
    there = {item["metadata"]["name"]: item.get("value") for item in cluster.list(PRIORITY_CLASS).items}
    wanted = {f"osmo-{priority.lower()}": priority.priority_class_value for priority in Priority}
    missing = [PriorityClassWrite(name, value) for name, value in wanted.items() if name not in there]
    wrong = [
        Untouched(name, f"this PriorityClass has the value {there[name]} instead of {value}, which cannot be changed")
        for name, value in wanted.items()
        if name in there and there[name] != value
    ]
    return missing, wrong


def _priority_class(step: PriorityClassWrite) -> Object:
    return {
        "metadata": {"name": step.name},
        "value": step.value,
        "globalDefault": False,
        "description": "OSMO workflows. From 100 on, work stays inside its quota and is never preempted by KAI.",
    }


def _topologies(
    cluster: Cluster, place: QueueTarget, wanted: Mapping[str, DesiredTopology]
) -> tuple[list[TopologyStep], list[Untouched]]:
    try:
        seen: Mapping[str, ObservedTopology] = _by_name(
            cluster.list(TOPOLOGY, transform=lambda item: observe_topology(item, place)).items
        )
    except KindMissing:
        note = "the cluster has no Topology kind (kai.scheduler/v1alpha1)"
        return [], [Untouched(name, note) for name in wanted]
    return plan_topologies(wanted, seen)


def _take_topology(cluster: Cluster, place: QueueTarget, step: TopologyStep) -> None:
    if step.action in {TopologyAction.DELETE, TopologyAction.REPLACE}:
        with suppress(ObjectNotFound):
            cluster.delete(TOPOLOGY, step.name, uid=step.uid)
    if step.topology is not None:
        cluster.apply(TOPOLOGY, topology_manifest(place, step.topology), field_manager=FIELD_MANAGER, force=True)


def _repoints(cluster: Cluster, place: QueueTarget, leaf_of: Mapping[str, str]) -> Iterator[RepointStep]:
    """PodGroups that an earlier OSMO left in what is a container now; ours never name one."""
    others = f"!{INSTALLATION_LABEL}"
    try:
        listed = cluster.list(
            POD_GROUP,
            namespace=place.namespace,
            labels=others,
            transform=lambda item: repoint.read_misplaced_pod_group(item, leaf_of),
        )
    except KindMissing:
        return
    found = [each for each in listed.items if each is not None]
    if found:
        pods = cluster.list(POD, namespace=place.namespace, labels=others)
        yield from repoint.plan_repoints(found, pods.items, leaf_of)


def _repoint(cluster: Cluster, place: QueueTarget, step: RepointStep) -> None:
    """The PodGroup decides where KAI looks, so it goes first; if it moved meanwhile the next look sees."""
    labels = repoint.leaf_queue_labels(step.leaf)
    change: dict[str, Any] = {
        "metadata": {"resourceVersion": step.pod_group.resource_version, "labels": labels},
        "spec": {"queue": step.leaf},
    }
    cluster.merge(POD_GROUP, step.pod_group.name, change, field_manager=FIELD_MANAGER, namespace=place.namespace)
    for pod in step.pods:
        with suppress(ObjectNotFound):
            cluster.merge(
                POD, pod, {"metadata": {"labels": labels}}, field_manager=FIELD_MANAGER, namespace=place.namespace
            )


def _by_name(items: list[Any]) -> dict[str, Any]:
    return {item.name: item for item in items}
