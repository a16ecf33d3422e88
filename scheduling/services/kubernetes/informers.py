"""What an agent sees of its cluster: pods and PodGroups of this house, and all nodes, kept up in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

from scheduling.domain.cluster.naming import GROUP_UUID, installation_selector, read_uuid_label
from scheduling.domain.kubernetes_json import Object
from scheduling.kube import resource_kinds
from scheduling.kube.error_messages import error_message
from scheduling.kube.informer import Informer, InformerTiming
from scheduling.kube.port import Cluster
from scheduling.selectors.pending_manifests import ClusterContext


def group_id_of(item: Object) -> UUID | None:
    """The gang that an object of ours belongs to; None when it does not say."""
    return read_uuid_label(item["metadata"].get("labels"), GROUP_UUID)


class ClusterInformers:
    """The mirrors of one cluster. They tell which gangs moved and that nodes did; whoever looks takes it from here."""

    def __init__(
        self,
        context: ClusterContext,
        connect: Callable[[], Cluster | None],
        wake: Callable[[], None],
        timing: InformerTiming,
    ) -> None:
        self.scope = (context.backend.namespace, context.installation_id)
        self._wake, self._lock = wake, threading.Lock()
        self._moved: set[UUID | None] = set()
        self._nodes_moved = True
        namespace, ours = context.backend.namespace, installation_selector(context.installation_id)
        common: dict[str, Any] = {"connect": connect, "timing": timing}
        of_gangs: dict[str, Any] = {
            "key_of": group_id_of,
            "on_change": self._gang_moved,
            "namespace": namespace,
            "labels": ours,
        }
        self.pods: Informer[UUID | None] = Informer(resource_kinds.POD, **of_gangs, **common)
        self.pod_groups: Informer[UUID | None] = Informer(resource_kinds.POD_GROUP, **of_gangs, **common)
        self.nodes: Informer[str] = Informer(
            resource_kinds.NODE, key_of=lambda node: str(node["metadata"]["name"]), on_change=self._node_moved, **common
        )
        self._all: tuple[Informer[Any], ...] = (self.pods, self.pod_groups, self.nodes)

    @property
    def has_synced(self) -> bool:
        """Pods and PodGroups are known; without the nodes work goes on."""
        return self.pods.has_synced and self.pod_groups.has_synced

    @property
    def error_message(self) -> str:
        """Why something cannot be seen, in a sentence that names it; empty when everything can."""
        blind = next((mirror for mirror in self._all if mirror.error is not None), None)
        return "" if blind is None or blind.error is None else f"{blind.kind}: {error_message(blind.error)}"

    def relist(self) -> None:
        """List everything now, as far as the cluster lets us."""
        for mirror in self._all:
            mirror.relist()

    def start(self, stop: threading.Event, name: str) -> None:
        """Keep them up, each in a thread of its own, which does not keep the process and ends with the call it sits
        in."""
        for mirror in self._all:
            threading.Thread(target=mirror.run, args=[stop], name=f"{name}-{mirror.kind.plural}", daemon=True).start()

    def mark_changed(self, group_ids: set[UUID | None]) -> None:
        """These are to be looked at again."""
        with self._lock:
            self._moved |= group_ids

    def pop_changed_gangs(self) -> set[UUID | None]:
        """The gangs that moved since this was asked last."""
        with self._lock:
            taken, self._moved = self._moved, set()
        return taken

    def pop_nodes_changed(self) -> bool:
        """Whether a node moved since this was asked last, and the nodes are known."""
        if not self.nodes.has_synced:
            return False
        moved, self._nodes_moved = self._nodes_moved, False
        return moved

    def _gang_moved(self, gang: UUID | None) -> None:
        self.mark_changed({gang})
        self._wake()

    def _node_moved(self, _: str) -> None:
        self._nodes_moved = True
