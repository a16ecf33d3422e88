"""Reads a cluster's queues and topologies and compares them with the desired ones. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.domain.cluster.naming import INSTALLATION_LABEL
from scheduling.domain.kubernetes_json import Object
from scheduling.domain.queues import repoint
from scheduling.domain.queues.desired import NAMESPACE_LABEL, DesiredQueue, DesiredTopology, QueueTarget
from scheduling.domain.queues.observed import ObservedQueue, Ownership, QueueDifference, observe_queue
from scheduling.domain.queues.plan import Untouched, plan_queues
from scheduling.domain.queues.repoint import RepointStep
from scheduling.domain.queues.topologies import ObservedTopology, TopologyStep, observe_topology, plan_topologies
from scheduling.kube.connection.errors import KindMissing
from scheduling.kube.connection.port import ClusterReader
from scheduling.kube.connection.resource_kinds import POD, POD_GROUP, QUEUE, TOPOLOGY
from scheduling.kube.queues.priority_classes import plan_priority_classes
from scheduling.kube.queues.queue_steps import ClusterWrite

QUEUE_PAGE_SIZE = 1000


@dataclass(frozen=True, slots=True)
class QueueFieldDrift:
    """A field of a queue of ours that another client of the API server changed."""

    queue: str
    difference: QueueDifference


@dataclass(frozen=True, slots=True)
class QueueComparison:
    """The difference between a cluster and the ledger: `writes` in their order, the drift, and the objects that are
    left `untouched` with the reason. `owned_queues` is the number of our queues."""

    writes: tuple[ClusterWrite, ...]
    drift: tuple[QueueFieldDrift, ...]
    untouched: tuple[Untouched, ...]
    owned_queues: int


def compare_queues(
    cluster: ClusterReader,
    target: QueueTarget,
    queues: Mapping[str, DesiredQueue],
    topologies: Mapping[str, DesiredTopology],
    leaf_of: Mapping[str, str],
    *,
    take_over: bool = False,
) -> QueueComparison:
    """List the cluster's objects and plan the writes. Raises ClusterError; KindMissing when the cluster has no KAI
    queues.

    `leaf_of` names the shared leaf queue of each pool's container queue. `take_over` treats queues with the label of
    another installation, but of our namespace, as ours: for an installation with a new database.
    """

    def observe(item: Object) -> ObservedQueue:
        return observe_queue(_without_foreign_label(item, target) if take_over else item, target, queues)

    observed = _by_name(cluster.list(QUEUE, page_size=QUEUE_PAGE_SIZE, transform=observe).items)
    plan = plan_queues(queues, observed)
    priority_classes, priority_notes = plan_priority_classes(cluster)
    topology_steps, topology_notes = _plan_topologies(cluster, target, topologies)
    return QueueComparison(
        (*priority_classes, *plan.steps, *_plan_repoints(cluster, target, leaf_of), *topology_steps),
        tuple(QueueFieldDrift(name, each) for name, queue in observed.items() for each in queue.drift),
        (*plan.untouched, *priority_notes, *topology_notes),
        sum(queue.ownership in {Ownership.OURS, Ownership.ADOPTED} for queue in observed.values()),
    )


def _without_foreign_label(item: Object, target: QueueTarget) -> Object:
    """A queue of our namespace without the label of another installation; any other queue as it is."""
    labels = item["metadata"].get("labels") or {}
    if labels.get(INSTALLATION_LABEL) in {None, target.installation} or labels.get(NAMESPACE_LABEL) != target.namespace:
        return item
    own_labels = {key: value for key, value in labels.items() if key != INSTALLATION_LABEL}
    return item | {"metadata": item["metadata"] | {"labels": own_labels}}


def _plan_topologies(
    cluster: ClusterReader, target: QueueTarget, desired: Mapping[str, DesiredTopology]
) -> tuple[list[TopologyStep], list[Untouched]]:
    try:
        observed: Mapping[str, ObservedTopology] = _by_name(
            cluster.list(TOPOLOGY, transform=lambda item: observe_topology(item, target)).items
        )
    except KindMissing:
        note = "the cluster has no Topology kind (kai.scheduler/v1alpha1)"
        return [], [Untouched(name, note) for name in desired]
    return plan_topologies(desired, observed)


def _plan_repoints(cluster: ClusterReader, target: QueueTarget, leaf_of: Mapping[str, str]) -> Iterator[RepointStep]:
    """Steps for PodGroups that an earlier OSMO left in a queue that is a container now. Our own PodGroups never name a
    container."""
    foreign = f"!{INSTALLATION_LABEL}"
    try:
        listed = cluster.list(
            POD_GROUP,
            namespace=target.namespace,
            labels=foreign,
            transform=lambda item: repoint.read_misplaced_pod_group(item, leaf_of),
        )
    except KindMissing:
        return
    misplaced = [each for each in listed.items if each is not None]
    if misplaced:
        pods = cluster.list(POD, namespace=target.namespace, labels=foreign)
        yield from repoint.plan_repoints(misplaced, pods.items, leaf_of)


def _by_name(items: list[Any]) -> dict[str, Any]:
    return {item.name: item for item in items}
