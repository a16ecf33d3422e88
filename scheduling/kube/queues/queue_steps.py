"""Applies single steps of a plan to a cluster's queues, topologies and PodGroups. Each step may be repeated."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from scheduling.domain.cluster.naming import FIELD_MANAGER
from scheduling.domain.kubernetes_json import Object
from scheduling.domain.queues.desired import DesiredQueue, QueueTarget, queue_manifest, topology_manifest
from scheduling.domain.queues.plan import QueueAction, QueueStep
from scheduling.domain.queues.repoint import RepointStep, leaf_queue_labels
from scheduling.domain.queues.topologies import TopologyAction, TopologyStep
from scheduling.kube.connection.errors import BeingDeleted, ObjectNotFound
from scheduling.kube.connection.port import Cluster
from scheduling.kube.connection.resource_kinds import POD, POD_GROUP, QUEUE, TOPOLOGY
from scheduling.kube.queues.priority_classes import PriorityClassWrite, create_priority_class

ClusterWrite = PriorityClassWrite | QueueStep | RepointStep | TopologyStep
"""One step of a plan. A step is a single write, or a few writes that may be repeated."""


def apply_write(cluster: Cluster, target: QueueTarget, write: ClusterWrite) -> None:
    """Apply one step. A repetition does no harm. Raises ClusterError."""
    if isinstance(write, PriorityClassWrite):
        create_priority_class(cluster, write)
    elif isinstance(write, RepointStep):
        _repoint(cluster, target, write)
    elif isinstance(write, TopologyStep):
        _write_topology(cluster, target, write)
    elif write.action is QueueAction.DELETE:
        _delete_queue(cluster, write)
    elif write.is_terminating:
        raise _being_deleted(write.name, cluster.get(QUEUE, write.name))
    else:
        assert write.queue is not None, "only a removal has no queue"
        _write_queue(cluster, target, write, write.queue)


def _delete_queue(cluster: Cluster, step: QueueStep) -> None:
    """Delete a queue, and see that it is gone: its quota counts as long as it stands. Raises BeingDeleted while
    finalizers hold it."""
    with suppress(ObjectNotFound):
        if not step.is_terminating:
            cluster.delete(QUEUE, step.name, uid=step.uid)
        current = cluster.get(QUEUE, step.name)
        if current["metadata"]["uid"] == step.uid:
            raise _being_deleted(step.name, current)


def _being_deleted(name: str, current: Object) -> BeingDeleted:
    holders = ", ".join(current["metadata"].get("finalizers") or []) or "nobody"
    return BeingDeleted(f"{name} is being deleted, and still stands: it is held by {holders}.")


def _write_queue(cluster: Cluster, target: QueueTarget, step: QueueStep, queue: DesiredQueue) -> None:
    """Apply the manifest. A foreign field that must be removed is removed by a patch first, because server-side apply
    removes only fields that the same manager applied."""
    foreign = [each.field for each in step.differences if each.ours is None and each.by]
    if foreign:
        cluster.merge(QUEUE, step.name, _removal_patch(foreign), field_manager=FIELD_MANAGER)
    if len(foreign) < len(step.differences) or not step.differences:
        cluster.apply(QUEUE, queue_manifest(target, queue), field_manager=FIELD_MANAGER, force=True)


def _removal_patch(fields: list[str]) -> Object:
    """The merge patch that removes these fields: labels, and fields of the spec."""
    patch: Object = {}
    for field in fields:
        if field.startswith("metadata.labels."):
            labels = patch.setdefault("metadata", {}).setdefault("labels", {})
            labels[field.removeprefix("metadata.labels.")] = None
        else:
            patch.setdefault("spec", {})[field.removeprefix("spec.")] = None
    return patch


def _write_topology(cluster: Cluster, target: QueueTarget, step: TopologyStep) -> None:
    if step.action in {TopologyAction.DELETE, TopologyAction.REPLACE}:
        with suppress(ObjectNotFound):
            cluster.delete(TOPOLOGY, step.name, uid=step.uid)
    if step.topology is not None:
        cluster.apply(TOPOLOGY, topology_manifest(target, step.topology), field_manager=FIELD_MANAGER, force=True)


def _repoint(cluster: Cluster, target: QueueTarget, step: RepointStep) -> None:
    """Move a PodGroup and its pods to another queue. KAI reads the queue of the PodGroup, so the PodGroup is changed
    first; if another client changed it meanwhile, the next comparison finds it again."""
    labels = leaf_queue_labels(step.leaf)
    patch: dict[str, Any] = {
        "metadata": {"resourceVersion": step.pod_group.resource_version, "labels": labels},
        "spec": {"queue": step.leaf},
    }
    cluster.merge(POD_GROUP, step.pod_group.name, patch, field_manager=FIELD_MANAGER, namespace=target.namespace)
    pod_patch = {"metadata": {"labels": labels}}
    for pod in step.pods:
        with suppress(ObjectNotFound):
            cluster.merge(POD, pod, pod_patch, field_manager=FIELD_MANAGER, namespace=target.namespace)
