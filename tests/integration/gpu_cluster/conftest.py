"""A cluster with GPU quota objects and worker pods: the fake cluster in memory, and a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pools.models import Backend, GpuUsage
from scheduling.domain.kubernetes_json import Object
from scheduling.kube.connection import resource_kinds
from scheduling.kube.connection.port import Cluster
from scheduling.services.gpu_quota.controller import GpuQuotaController
from tests.support.agent_harness import kubernetes_backend
from tests.support.fake_cluster import FakeCluster
from tests.support.kube_server import FAKE_THEN_REAL, TENSOR_FUSION, KubeServer

PREFIX = "tensor-fusion.ai/"
SOMEBODY = "somebody"


@dataclass
class GpuClusterHarness:
    """A backend, its cluster, and the GPU quota controller between them, run step by step."""

    cluster: Cluster
    backend: Backend
    namespace: str
    controller: GpuQuotaController

    def another_controller(self) -> GpuQuotaController:
        """A new controller, as after a crash."""
        return GpuQuotaController(self.backend.pk, connect=lambda _: self.cluster)

    def quota(self, name: str = "team-quota", **spec: Any) -> Object:
        """Put the quota object; a repetition changes nothing."""
        metadata = {"name": name, "namespace": self.namespace}
        body = {"metadata": metadata, "spec": spec}
        return self.cluster.apply(resource_kinds.GPU_RESOURCE_QUOTA, body, field_manager=SOMEBODY, force=True)

    def status(self, name: str = "team-quota") -> Any:
        """The object's status."""
        found = self.cluster.get(resource_kinds.GPU_RESOURCE_QUOTA, name, namespace=self.namespace)
        return found.get("status") or {}

    def ready(self, name: str = "team-quota") -> tuple[str, str]:
        """The condition Ready: its status and reason."""
        (found,) = [each for each in self.status(name)["conditions"] if each["type"] == "Ready"]
        return found["status"], found["reason"]

    def pod(self, name: str, *, bound: bool = True, labels: Any = None, **marks: str) -> Object:
        """A worker of 2 GPUs with 10 TFLOPS and 1Gi each, unless the marks say otherwise."""
        said = {"tflops-request": "10", "vram-request": "1Gi", "gpu-count": "2"}
        said |= {"gpu-ids": "a,b"} if bound else {}
        said |= {key.replace("_", "-"): value for key, value in marks.items()}
        body: Object = {
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {f"{PREFIX}component": "worker", f"{PREFIX}workload": "infer"} | (labels or {}),
                "annotations": {f"{PREFIX}{key}": value for key, value in said.items()},
            },
            "spec": {"containers": [{"name": "main", "image": "ubuntu"}]},
        }
        if bound:
            body["spec"]["nodeName"] = "n1"
        return self.cluster.create(resource_kinds.POD, body, field_manager=SOMEBODY)

    def remove(self, name: str) -> None:
        """Delete a pod at once."""
        self.cluster.delete(resource_kinds.POD, name, namespace=self.namespace, grace_seconds=0)

    def used(self) -> tuple[int, int]:
        """Requested TFLOPS and number of workers in the ledger."""
        row = GpuUsage.objects.filter(pk=self.namespace).first()
        return (0, 0) if row is None else (int(row.requests_tflops), row.workers)


def _make_harness(cluster: Cluster, namespace: str) -> GpuClusterHarness:
    backend = kubernetes_backend(namespace)
    return GpuClusterHarness(cluster, backend, namespace, GpuQuotaController(backend.pk, connect=lambda _: cluster))


def _fake_harness() -> GpuClusterHarness:
    cluster = FakeCluster(namespaces=["team-a"])
    cluster.install_kinds(resource_kinds.GPU_RESOURCE_QUOTA)
    return _make_harness(cluster, "team-a")


@pytest.fixture(params=FAKE_THEN_REAL)
def gpu_cluster(request: pytest.FixtureRequest, ledger: None) -> Iterator[GpuClusterHarness]:
    """On both clusters."""
    if request.param == "real":
        server: KubeServer = request.getfixturevalue("kube_server")
        server.install(TENSOR_FUSION)
        place = request.getfixturevalue("kube")
        yield _make_harness(place.cluster, place.namespace)
    else:
        yield _fake_harness()


@pytest.fixture
def fake_gpu_cluster(ledger: None) -> GpuClusterHarness:
    """On the fake cluster alone, for tests of our own rows."""
    return _fake_harness()
