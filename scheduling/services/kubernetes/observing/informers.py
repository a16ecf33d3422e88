"""The informers of an observed cluster: its nodes and all its pods, trimmed, in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scheduling.domain.cluster.node import trim_pod
from scheduling.domain.kubernetes_json import Object
from scheduling.kube.connection import resource_kinds
from scheduling.kube.connection.port import ClusterReader
from scheduling.kube.informer import Informer, InformerTiming
from scheduling.kube.informer_group import InformerGroup


def full_name(item: Object) -> str:
    """`namespace/name`."""
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def _trim(pod: Object) -> Object:
    trimmed = trim_pod(pod)
    kept = {key: pod["metadata"][key] for key in ("name", "resourceVersion")}
    return trimmed | {"metadata": trimmed["metadata"] | kept}


class ObservedInformers(InformerGroup):
    """The informers of one observed cluster."""

    def __init__(
        self, connect: Callable[[], ClusterReader | None], wake: Callable[[], None], timing: InformerTiming
    ) -> None:
        self._wake, self._nodes_changed = wake, True
        common: dict[str, Any] = {"connect": connect, "timing": timing, "name_of": full_name}
        self.pods: Informer[str] = Informer(
            resource_kinds.POD, key_of=full_name, on_change=lambda _: wake(), transform=_trim, **common
        )
        self.nodes: Informer[str] = Informer(
            resource_kinds.NODE,
            key_of=lambda node: str(node["metadata"]["name"]),
            on_change=self._on_node_change,
            **common | {"name_of": lambda node: str(node["metadata"]["name"])},
        )
        super().__init__(self.pods, self.nodes)

    @property
    def has_synced(self) -> bool:
        """Whether pods and nodes are known."""
        return all(informer.has_synced for informer in (self.pods, self.nodes))

    def pop_nodes_changed(self) -> bool:
        """Whether a node changed since the last call."""
        changed, self._nodes_changed = self._nodes_changed, False
        return changed

    def _on_node_change(self, _: str) -> None:
        self._nodes_changed = True
        self._wake()
