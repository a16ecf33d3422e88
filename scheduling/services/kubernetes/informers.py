"""What an agent sees of its cluster: pods and PodGroups of this house, and all nodes, kept up in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

from scheduling.domain.cluster.naming import GROUP_UUID, house_selector, uuid_in
from scheduling.kube import kinds
from scheduling.kube.informer import Mirror, Pace
from scheduling.kube.port import Cluster, Object
from scheduling.kube.words import sentence_of
from scheduling.selectors.pending_manifests import Place


def gang_of(item: Object) -> UUID | None:
    """The gang that an object of ours belongs to; None when it does not say."""
    return uuid_in(item["metadata"].get("labels"), GROUP_UUID)


class Sights:
    """The mirrors of one cluster. They tell which gangs moved and that nodes did; whoever looks takes it from here."""

    def __init__(
        self, place: Place, connect: Callable[[], Cluster | None], wake: Callable[[], None], pace: Pace
    ) -> None:
        self.of_place = (place.backend.namespace, place.house)
        self._wake, self._lock = wake, threading.Lock()
        self._moved: set[UUID | None] = set()
        self._nodes_moved = True
        namespace, ours = place.backend.namespace, house_selector(place.house)
        common: dict[str, Any] = {"connect": connect, "pace": pace}
        of_gangs: dict[str, Any] = {"key": gang_of, "changed": self._gang_moved, "namespace": namespace, "labels": ours}
        self.pods: Mirror[UUID | None] = Mirror(kinds.POD, **of_gangs, **common)
        self.pod_groups: Mirror[UUID | None] = Mirror(kinds.POD_GROUP, **of_gangs, **common)
        self.nodes: Mirror[str] = Mirror(
            kinds.NODE, key=lambda node: str(node["metadata"]["name"]), changed=self._node_moved, **common
        )
        self._all: tuple[Mirror[Any], ...] = (self.pods, self.pod_groups, self.nodes)

    @property
    def is_ready(self) -> bool:
        """Pods and PodGroups are known; without the nodes work goes on."""
        return self.pods.is_ready and self.pod_groups.is_ready

    @property
    def fault(self) -> str:
        """Why something cannot be seen, in a sentence that names it; empty when everything can."""
        blind = next((mirror for mirror in self._all if mirror.fault is not None), None)
        return "" if blind is None or blind.fault is None else f"{blind.kind}: {sentence_of(blind.fault)}"

    def refresh(self) -> None:
        """List everything now, as far as the cluster lets us."""
        for mirror in self._all:
            mirror.refresh()

    def follow(self, stop: threading.Event, name: str) -> None:
        """Keep them up, each in a thread of its own, which does not keep the process and ends with the call it sits
        in."""
        for mirror in self._all:
            threading.Thread(
                target=mirror.follow, args=[stop], name=f"{name}-{mirror.kind.plural}", daemon=True
            ).start()

    def mark(self, gangs: set[UUID | None]) -> None:
        """These are to be looked at again."""
        with self._lock:
            self._moved |= gangs

    def take_moved(self) -> set[UUID | None]:
        """The gangs that moved since this was asked last."""
        with self._lock:
            taken, self._moved = self._moved, set()
        return taken

    def take_nodes_moved(self) -> bool:
        """Whether a node moved since this was asked last, and the nodes are known."""
        if not self.nodes.is_ready:
            return False
        moved, self._nodes_moved = self._nodes_moved, False
        return moved

    def _gang_moved(self, gang: UUID | None) -> None:
        self.mark({gang})
        self._wake()

    def _node_moved(self, _: str) -> None:
        self._nodes_moved = True
