"""Foreign objects with names like ours: no failure may ever change them."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduling.domain.kubernetes_json import Object
from scheduling.kube.connection import resource_kinds
from scheduling.kube.connection.port import Cluster, ResourceKind

FOREIGN_LABEL = "foreign"
"""The label by which tests that count pods leave them out."""

_FOREIGN_OWNER = "somebody"


@dataclass
class ForeignObjects:
    """A queue, a PodGroup, a pod and a Secret, created together with this value."""

    cluster: Cluster
    namespace: str
    _made: list[tuple[ResourceKind, str | None, Object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        quota = {"gpu": {"quota": 3, "limit": -1, "overQuotaWeight": 1}}
        self._make(resource_kinds.QUEUE, f"osmo-pool-{self.namespace}x-team", spec={"resources": quota})
        self._make(resource_kinds.POD_GROUP, "theirs", spec={"minMember": 1, "queue": "default-queue"})
        self._make(resource_kinds.POD, "theirs", spec={"containers": [{"name": "main", "image": "ubuntu"}]})
        self._make(resource_kinds.SECRET, "theirs", type="Opaque", data={"key": "dGhlaXJz"})

    def assert_untouched(self) -> None:
        """Each object is unchanged, with its version."""
        for kind, namespace, made in self._made:
            assert self.cluster.get(kind, made["metadata"]["name"], namespace=namespace) == made

    def _make(self, kind: ResourceKind, name: str, **body: object) -> None:
        namespace = None if kind is resource_kinds.QUEUE else self.namespace
        metadata = {"name": name, "labels": {FOREIGN_LABEL: "true"}} | ({"namespace": namespace} if namespace else {})
        self.cluster.create(kind, {"metadata": metadata, **body}, field_manager=_FOREIGN_OWNER)
        self._made.append((kind, namespace, self.cluster.get(kind, name, namespace=namespace)))
