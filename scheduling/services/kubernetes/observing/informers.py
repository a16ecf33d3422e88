"""The informers of an observed cluster: its nodes, all its pods (trimmed), the PodGroups of KAI, the Workloads of Kueue
and the priority classes, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.domain.kubernetes_json import Object
from scheduling.domain.observed.kueue_work import trim_workload
from scheduling.domain.observed.readable import trimmed_or_marked
from scheduling.domain.observed.seen_work import has_ended, trim_observed_pod
from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.connection.error_messages import error_message
from scheduling.kube.connection.port import ClusterReader
from scheduling.kube.informer import Informer, InformerTiming
from scheduling.kube.informer_group import InformerGroup
from scheduling.kube.observed_kinds import LOCAL_QUEUES, WORKLOADS


def full_name(item: Object) -> str:
    """`namespace/name`."""
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


_OPTIONAL = (resource_kinds.POD_GROUP, *WORKLOADS, *LOCAL_QUEUES)


def _is_not_served(informer: Informer[Any]) -> bool:
    """Whether the cluster goes without this kind. Of the priority classes only the default one is read, which few
    clusters have, so an account may go without the right, too."""
    if informer.kind == resource_kinds.PRIORITY_CLASS:
        return isinstance(informer.error, errors.AccessDenied)
    return informer.kind in _OPTIONAL and isinstance(informer.error, errors.KindMissing)


def _newest(informers: Iterable[Informer[str]]) -> Iterable[Object]:
    found = next((each for each in informers if each.has_synced and not _is_not_served(each)), None)
    return () if found is None else found.objects().values()


@dataclass(frozen=True, slots=True)
class DeletedObjects:
    """The last states of deleted objects, by uid: pods that had ended, and all PodGroups and Workloads."""

    pods: Mapping[str, Object]
    pod_groups: Mapping[str, Object]
    workloads: Mapping[str, Object]


class ObservedInformers(InformerGroup):
    """The informers of one observed cluster."""

    def __init__(
        self, connect: Callable[[], ClusterReader | None], wake: Callable[[], None], timing: InformerTiming
    ) -> None:
        self._wake, self._nodes_changed, self._changed = wake, True, True
        self.owner_label = ""
        """It is kept of objects that are read from now on."""
        common: dict[str, Any] = {"connect": connect, "timing": timing, "name_of": full_name}
        self.pods: Informer[str] = Informer(
            resource_kinds.POD,
            key_of=full_name,
            on_change=self._on_change,
            transform=trimmed_or_marked(lambda pod: trim_observed_pod(pod, self.owner_label)),
            keeps_deleted=has_ended,
            **common,
        )
        self.pod_groups: Informer[str] = Informer(
            resource_kinds.POD_GROUP,
            key_of=full_name,
            on_change=self._on_change,
            keeps_deleted=lambda _: True,
            **common,
        )
        self._workloads: tuple[Informer[str], ...] = tuple(
            Informer(
                kind,
                key_of=full_name,
                on_change=self._on_change,
                transform=trimmed_or_marked(lambda item: trim_workload(item, self.owner_label)),
                keeps_deleted=lambda _: True,
                **common,
            )
            for kind in WORKLOADS
        )
        self._local_queues: tuple[Informer[str], ...] = tuple(
            Informer(kind, key_of=full_name, on_change=self._on_change, **common) for kind in LOCAL_QUEUES
        )
        self.priority_classes: Informer[str] = Informer(
            resource_kinds.PRIORITY_CLASS, key_of=full_name, on_change=self._on_change, **common
        )
        self.nodes: Informer[str] = Informer(
            resource_kinds.NODE,
            key_of=lambda node: str(node["metadata"]["name"]),
            on_change=self._on_node_change,
            **common | {"name_of": lambda node: str(node["metadata"]["name"])},
        )
        super().__init__(
            self.pods,
            self.pod_groups,
            *self._workloads,
            *self._local_queues,
            self.priority_classes,
            self.nodes,
        )

    def workloads(self) -> Iterable[Object]:
        """Kueue's Workloads, of the newest version that is served."""
        return _newest(self._workloads)

    def read_deleted(self) -> DeletedObjects:
        """The last states of what was deleted since they were forgotten last."""
        workloads = {uid: item for each in self._workloads for uid, item in each.deleted().items()}
        return DeletedObjects(self.pods.deleted(), self.pod_groups.deleted(), workloads)

    def forget_deleted(self, known: DeletedObjects) -> None:
        """These are written."""
        self.pods.forget_deleted(known.pods)
        self.pod_groups.forget_deleted(known.pod_groups)
        for informer in self._workloads:
            informer.forget_deleted(known.workloads)

    def local_queues(self) -> Iterable[Object]:
        """Kueue's LocalQueues, of the newest version that is served."""
        return _newest(self._local_queues)

    @property
    def has_synced(self) -> bool:
        """Whether everything is known that the cluster serves."""
        return all(informer.has_synced or _is_not_served(informer) for informer in self._all)

    @property
    def error_message(self) -> str:
        """As of every group. A cluster has the kinds of its own scheduler alone: that is not a fault."""
        failed = next((each for each in self._all if each.error is not None and not _is_not_served(each)), None)
        return "" if failed is None or failed.error is None else f"{failed.kind}: {error_message(failed.error)}"

    def pop_nodes_changed(self) -> bool:
        """Whether a node changed since the last call."""
        changed, self._nodes_changed = self._nodes_changed, False
        return changed

    def pop_changed(self) -> bool:
        """Whether anything changed since the last call."""
        changed, self._changed = self._changed, False
        return changed

    def _on_change(self, _: str) -> None:
        self._changed = True
        self._wake()

    def _on_node_change(self, _: str) -> None:
        self._nodes_changed = self._changed = True
        self._wake()
