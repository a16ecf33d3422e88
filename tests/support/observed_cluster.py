"""A backend in mode observe, and the objects of a firm's cluster that other software made there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pools.models import Backend, KubernetesSettings
from scheduling.domain.kubernetes_json import Object
from scheduling.kube.connection import resource_kinds
from scheduling.kube.connection.port import Cluster, ClusterReader, ResourceKind
from scheduling.services.kubernetes.observing.observer import ClusterObserver, ObserverIntervals

FIRM = "firm"
"""The field manager of everything that the firm's own software writes."""


def observed_backend(name: str = "lab", namespace: str = "osmo") -> Backend:
    """A backend in mode observe; tests supply its connection."""
    row = Backend.objects.create(name=name, namespace=namespace, kind=Backend.Kind.KUBERNETES)
    KubernetesSettings.objects.create(
        backend=row, mode="observe", access=KubernetesSettings.Access.IN_CLUSTER, server=f"test:{name}"
    )
    return row


def observer_of(backend: Backend, cluster: ClusterReader) -> ClusterObserver:
    """The observer of this backend, run by the test."""
    return ClusterObserver(backend.pk, connect=lambda _: cluster, intervals=ObserverIntervals(recount=0))


@dataclass(frozen=True)
class Firm:
    """What a firm's own software does in its cluster."""

    cluster: Cluster

    def add_node(self, name: str, gpus: int = 8) -> None:
        """A node that is ready."""
        self.cluster.apply(resource_kinds.NODE, {"metadata": {"name": name}}, field_manager=FIRM)
        amounts = {"nvidia.com/gpu": str(gpus), "cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti"}
        status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        self.cluster.merge(resource_kinds.NODE, name, {"status": status}, field_manager=FIRM, status=True)

    def add_pod(
        self,
        name: str,
        *,
        namespace: str,
        gpus: int = 1,
        node: str = "",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Object:
        """A pod; with a node it runs."""
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        body: Object = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": dict(labels or {}),
                "annotations": dict(annotations or {}),
            },
            "spec": {"containers": [{"name": "main", "image": "x", "resources": {"limits": limits}}], **spec},
        }
        if node:
            body["spec"]["nodeName"] = node
        created = self.cluster.create(resource_kinds.POD, body, field_manager=FIRM)
        if node:
            self.set_phase(name, "Running", namespace=namespace)
        return created

    def set_phase(self, name: str, phase: str, *, namespace: str) -> None:
        """The kubelet reports the phase of a pod."""
        self.cluster.merge(
            resource_kinds.POD, name, {"status": {"phase": phase}}, field_manager=FIRM, namespace=namespace, status=True
        )

    def add_pod_group(self, name: str, *, namespace: str, queue: str, pods: int = 1, **spec: Any) -> list[Object]:
        """A PodGroup of KAI with waiting pods of one GPU each."""
        body: Object = {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"queue": queue, "minMember": max(1, pods)},
        }
        body["spec"] |= spec
        self.cluster.create(resource_kinds.POD_GROUP, body, field_manager=FIRM)
        return [self.add_member(name, f"{name}-{number}", namespace=namespace) for number in range(pods)]

    def add_member(self, group: str, name: str, *, namespace: str, gpus: int = 1, **spec: Any) -> Object:
        """A pod of a PodGroup."""
        return self.add_pod(name, namespace=namespace, gpus=gpus, annotations={"pod-group-name": group}, **spec)

    def start(self, name: str, node: str, *, namespace: str) -> None:
        """The firm's scheduler gives a waiting pod a node."""
        self.cluster.merge(
            resource_kinds.POD, name, {"spec": {"nodeName": node}}, field_manager=FIRM, namespace=namespace
        )
        self.set_phase(name, "Running", namespace=namespace)

    def preempt(self, name: str, *, namespace: str, message: str = "") -> None:
        """The firm's scheduler marks a pod and deletes it."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": message,
        }
        self.cluster.merge(
            resource_kinds.POD,
            name,
            {"status": {"conditions": [condition]}},
            field_manager=FIRM,
            namespace=namespace,
            status=True,
        )

    def delete(self, name: str, *, namespace: str, kind: ResourceKind = resource_kinds.POD) -> None:
        """The object goes at once."""
        self.cluster.delete(kind, name, namespace=namespace, grace_seconds=0)
