"""The queues of one cluster: read what is there, work out what to write, and do one step of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from scheduling.domain.cluster.naming import HOUSE, OWNER
from scheduling.domain.priorities import Priority
from scheduling.domain.queues import upgrade
from scheduling.domain.queues.desired import NAMESPACE, Place, Queue, Topology, queue_body, topology_body
from scheduling.domain.queues.observed import Difference, Seen, Standing, look
from scheduling.domain.queues.plan import Deed, Step, Untouched, plan
from scheduling.domain.queues.topologies import (
    SeenTopology,
    TopologyDeed,
    TopologyStep,
    look_at_topology,
    plan_topologies,
)
from scheduling.domain.queues.upgrade import Repoint
from scheduling.kube.errors import KindMissing, NotFound
from scheduling.kube.kinds import POD, POD_GROUP, PRIORITY_CLASS, QUEUE, TOPOLOGY
from scheduling.kube.port import Cluster, Object

LIST_PAGE = 1000


@dataclass(frozen=True, slots=True)
class MakePriority:
    """A PriorityClass that is missing."""

    name: str
    value: int

    @property
    def places(self) -> tuple[str, ...]:
        """It has nothing to do with anything else."""
        return (self.name,)

    @property
    def sentence(self) -> str:
        """The step for people."""
        return f"create PriorityClass {self.name}: {self.value}"


AnyStep = MakePriority | Step | Repoint | TopologyStep


@dataclass(frozen=True, slots=True)
class Drift:
    """A field of a queue of ours that somebody else changed."""

    queue: str
    difference: Difference


@dataclass(frozen=True, slots=True)
class Look:
    """What a cluster has and what follows from it: steps in their order, what somebody else changed, what is left
    alone. `objects` counts the queues that are ours."""

    steps: tuple[AnyStep, ...]
    drift: tuple[Drift, ...]
    untouched: tuple[Untouched, ...]
    objects: int


def look_at_cluster(
    cluster: Cluster,
    place: Place,
    queues: Mapping[str, Queue],
    topologies: Mapping[str, Topology],
    leaf_of: Mapping[str, str],
    *,
    take_over: bool = False,
) -> Look:
    """List what is there and plan. Lists only: it writes nothing. Raises ClusterError; KindMissing when the cluster has
    no KAI queues.

    `take_over` treats queues that carry the mark of another house, but our namespace, as ours: for a house whose
    database was made anew.
    """

    def kept(item: Object) -> Seen:
        return look(_ours(item, place) if take_over else item, place, queues)

    seen = _by_name(cluster.list(QUEUE, page=LIST_PAGE, keep=kept).items)
    queue_plan = plan(queues, seen)
    priorities, notes = _priorities(cluster)
    topology_steps, more_notes = _topologies(cluster, place, topologies)
    return Look(
        (*priorities, *queue_plan.steps, *_repoints(cluster, place, leaf_of), *topology_steps),
        tuple(Drift(name, each) for name, found in seen.items() for each in found.drifted),
        (*queue_plan.untouched, *notes, *more_notes),
        sum(found.standing in {Standing.OURS, Standing.ADOPTED} for found in seen.values()),
    )


def take(cluster: Cluster, place: Place, step: AnyStep) -> None:
    """Do one step. Doing it again does no harm. Raises ClusterError."""
    if isinstance(step, MakePriority):
        cluster.apply(PRIORITY_CLASS, _priority_class(step), owner=OWNER, force=True)
    elif isinstance(step, Repoint):
        _repoint(cluster, place, step)
    elif isinstance(step, TopologyStep):
        _take_topology(cluster, place, step)
    elif step.deed is Deed.DELETE:
        with suppress(NotFound):
            cluster.delete(QUEUE, step.name, uid=step.uid)
    else:
        assert step.queue is not None, "only a removal has no queue"
        _write(cluster, place, step, step.queue)


def _write(cluster: Cluster, place: Place, step: Step, queue: Queue) -> None:
    """One apply. Fields that somebody else wrote and that shall not be there are taken away first, for an apply only
    takes away what it gave."""
    strange = [each.field for each in step.differences if each.ours is None and each.by]
    if strange:
        cluster.merge(QUEUE, step.name, _without(strange), owner=OWNER)
    if len(strange) < len(step.differences) or not step.differences:
        cluster.apply(QUEUE, queue_body(place, queue), owner=OWNER, force=True)


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


def _ours(item: Object, place: Place) -> Object:
    """The queue without another house's mark on our namespace."""
    labels = item["metadata"].get("labels") or {}
    if labels.get(HOUSE) in {None, place.house} or labels.get(NAMESPACE) != place.namespace:
        return item
    kept = {key: value for key, value in labels.items() if key != HOUSE}
    return item | {"metadata": item["metadata"] | {"labels": kept}}


def _priorities(cluster: Cluster) -> tuple[list[MakePriority], list[Untouched]]:
    """Priority classes have no house: they are made where they are missing, and left alone where they are not."""
    there = {item["metadata"]["name"]: item.get("value") for item in cluster.list(PRIORITY_CLASS).items}
    wanted = {f"osmo-{priority.lower()}": priority.value_in_kai for priority in Priority}
    missing = [MakePriority(name, value) for name, value in wanted.items() if name not in there]
    wrong = [
        Untouched(name, f"this PriorityClass has the value {there[name]} instead of {value}, which cannot be changed")
        for name, value in wanted.items()
        if name in there and there[name] != value
    ]
    return missing, wrong


def _priority_class(step: MakePriority) -> Object:
    return {
        "metadata": {"name": step.name},
        "value": step.value,
        "globalDefault": False,
        "description": "OSMO workflows. From 100 on, work stays inside its quota and is never preempted by KAI.",
    }


def _topologies(
    cluster: Cluster, place: Place, wanted: Mapping[str, Topology]
) -> tuple[list[TopologyStep], list[Untouched]]:
    try:
        seen: Mapping[str, SeenTopology] = _by_name(
            cluster.list(TOPOLOGY, keep=lambda item: look_at_topology(item, place)).items
        )
    except KindMissing:
        note = "the cluster has no Topology kind (kai.scheduler/v1alpha1)"
        return [], [Untouched(name, note) for name in wanted]
    return plan_topologies(wanted, seen)


def _take_topology(cluster: Cluster, place: Place, step: TopologyStep) -> None:
    if step.deed in {TopologyDeed.DELETE, TopologyDeed.REPLACE}:
        with suppress(NotFound):
            cluster.delete(TOPOLOGY, step.name, uid=step.uid)
    if step.topology is not None:
        cluster.apply(TOPOLOGY, topology_body(place, step.topology), owner=OWNER, force=True)


def _repoints(cluster: Cluster, place: Place, leaf_of: Mapping[str, str]) -> Iterator[Repoint]:
    """PodGroups that an earlier OSMO left in what is a container now; ours never name one."""
    others = f"!{HOUSE}"
    try:
        listed = cluster.list(
            POD_GROUP, namespace=place.namespace, labels=others, keep=lambda item: upgrade.stranded(item, leaf_of)
        )
    except KindMissing:
        return
    found = [each for each in listed.items if each is not None]
    if found:
        pods = cluster.list(POD, namespace=place.namespace, labels=others)
        yield from upgrade.repoints(found, pods.items, leaf_of)


def _repoint(cluster: Cluster, place: Place, step: Repoint) -> None:
    """The PodGroup decides where KAI looks, so it goes first; if it moved meanwhile the next look sees."""
    labels = upgrade.queue_labels(step.leaf)
    change: dict[str, Any] = {
        "metadata": {"resourceVersion": step.pod_group.resource_version, "labels": labels},
        "spec": {"queue": step.leaf},
    }
    cluster.merge(POD_GROUP, step.pod_group.name, change, owner=OWNER, namespace=place.namespace)
    for pod in step.pods:
        with suppress(NotFound):
            cluster.merge(POD, pod, {"metadata": {"labels": labels}}, owner=OWNER, namespace=place.namespace)


def _by_name(items: list[Any]) -> dict[str, Any]:
    return {item.name: item for item in items}
