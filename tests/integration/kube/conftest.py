"""A Kubernetes backend `lab` with its cluster: the fake cluster in memory, or a real API server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from pools.domain.changes.backends import PutBackend
from pools.models import Backend
from scheduling.domain.kubernetes_json import Object
from scheduling.kube.connection.resource_kinds import QUEUE
from scheduling.models import QueueSync
from scheduling.services.kubernetes import connections
from scheduling.services.kubernetes.syncing.queue_sync import sync_backend_queues
from scheduling.services.kubernetes.syncing.sync_outcome import SyncOutcome
from tests.support.fake_cluster import FakeCluster
from tests.support.kube_server import CONFIG_MAP, FAKE_THEN_REAL, KubeNamespace, RecordingCluster
from tests.support.world import apply_change

KUBECONFIG = {
    "clusters": [{"name": "c", "cluster": {"server": "https://kube.example"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}


@dataclass
class SyncHarness:
    """The backend and its cluster. `ns` is the namespace; names below are without `osmo-…-{ns}-`."""

    backend: Backend
    cluster: RecordingCluster
    ns: str

    @property
    def root(self) -> str:
        return f"osmo-default-{self.ns}"

    def name(self, short: str) -> str:
        """`team` → `osmo-pool-{ns}-team`."""
        return f"osmo-pool-{self.ns}-{short}"

    def sync(self, **how: Any) -> SyncOutcome:
        """One run without waiting for a retry; the record of calls is cleared before it."""
        self.cluster.clear_calls()
        return sync_backend_queues(self.backend.pk, manual=True, **how)

    def queues(self) -> dict[str, float]:
        """GPU quotas of all queues of this namespace, by short name; the root is `""`."""
        found = self.cluster.cluster.list(QUEUE, labels=f"osmo.namespace={self.ns}").items
        return {self._short(item["metadata"]["name"]): item["spec"]["resources"]["gpu"]["quota"] for item in found}

    def get(self, short: str) -> Object:
        """One queue."""
        return self.cluster.cluster.get(QUEUE, self.name(short))

    def edit(self, short: str, change: Object, *, owner: str = "kim") -> None:
        """Another client changes a queue."""
        self.cluster.cluster.merge(QUEUE, self.name(short), change, field_manager=owner)

    @property
    def row(self) -> QueueSync:
        """The state of the sync."""
        return QueueSync.objects.get(backend=self.backend)

    def _short(self, name: str) -> str:
        return name.removeprefix(self.name("")) if name != self.root else ""


@pytest.fixture
def lab(kube_namespace: KubeNamespace, db: None, monkeypatch: pytest.MonkeyPatch) -> SyncHarness:
    """A Kubernetes backend on the cluster of this test."""
    return make_lab(kube_namespace, monkeypatch)


@pytest.fixture
def fake_lab(db: None, monkeypatch: pytest.MonkeyPatch) -> SyncHarness:
    """The same on the fake cluster alone."""
    return make_lab(KubeNamespace(FakeCluster(namespaces=["t1"]), "t1"), monkeypatch)


def make_lab(kube_namespace: KubeNamespace, monkeypatch: pytest.MonkeyPatch) -> SyncHarness:
    """A Kubernetes backend on this cluster."""
    cluster = RecordingCluster(kube_namespace.cluster)
    monkeypatch.setattr(connections, "connect", lambda _: cluster)
    body = {"type": "kubernetes", "namespace": kube_namespace.namespace, "kubeconfig": yaml.safe_dump(KUBECONFIG)}
    backend = apply_change(PutBackend(name="lab", body=body)).row
    return SyncHarness(backend, cluster, kube_namespace.namespace)


def find_namespace(request: pytest.FixtureRequest) -> KubeNamespace:
    """A namespace of the cluster that the parameter of the fixture names."""
    if request.param == "real":
        found: KubeNamespace = request.getfixturevalue("kube")
        return found
    fake = FakeCluster(namespaces=["t1"])
    fake.install_kinds(CONFIG_MAP)
    return KubeNamespace(fake, "t1")


@pytest.fixture(params=FAKE_THEN_REAL)
def kube_namespace(request: pytest.FixtureRequest) -> KubeNamespace:
    """A cluster: first the fake cluster, then a real one."""
    return find_namespace(request)
