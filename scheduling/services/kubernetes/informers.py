"""The informers of a cluster's agent: they hold our pods, PodGroups and queues, and the nodes of our shard, in
memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

from scheduling.domain.cluster.naming import (
    FIELD_MANAGER,
    GROUP_UUID,
    installation_selector,
    pod_group_name,
    read_uuid_label,
)
from scheduling.domain.kubernetes_json import Object
from scheduling.kube.connection import resource_kinds
from scheduling.kube.connection.port import Cluster
from scheduling.kube.informer import Informer, InformerTiming
from scheduling.kube.informer_group import InformerGroup
from scheduling.selectors.work.pending_manifests import ClusterContext


def group_id_of(item: Object) -> UUID | None:
    """The id of the gang that an object of ours belongs to; None when its label is missing."""
    return read_uuid_label(item["metadata"].get("labels"), GROUP_UUID)


def uuid_name(item: Object) -> UUID | None:
    """The name of an object of ours as an id; None if it is none."""
    return read_uuid_label({"name": item["metadata"]["name"]}, "name")


def informer_scope(context: ClusterContext) -> tuple[str, ...]:
    """What the informers select by; with another scope they must be made anew."""
    return context.backend.namespace, context.installation_id, context.shard_selector


def _queue_state(queue: Object) -> Object:
    """What others could change of a queue, and whether the last writer was this software."""
    metadata = queue["metadata"]
    writes = [each for each in metadata.get("managedFields") or [] if not each.get("subresource")]
    latest = max((each.get("time") or "" for each in writes), default="")
    last_writers = {each.get("manager") for each in writes if (each.get("time") or "") == latest}
    return {
        "metadata": {"name": metadata["name"], "resourceVersion": metadata["resourceVersion"]},
        "state": [metadata.get("labels"), queue.get("spec"), metadata.get("deletionTimestamp")],
        "ours": last_writers == {FIELD_MANAGER},
    }


class ClusterInformers(InformerGroup):
    """The informers of one cluster. They collect the ids of changed gangs, whether a node changed, and whether another
    client changed a queue of ours."""

    def __init__(
        self,
        context: ClusterContext,
        connect: Callable[[], Cluster | None],
        wake: Callable[[], None],
        timing: InformerTiming,
    ) -> None:
        self.scope = informer_scope(context)
        self._wake, self._lock = wake, threading.Lock()
        self._changed_gangs: set[UUID | None] = set()
        self._nodes_changed = True
        namespace, ours = context.backend.namespace, installation_selector(context.installation_id)
        common: dict[str, Any] = {"connect": connect, "timing": timing}
        of_gangs: dict[str, Any] = {
            "key_of": group_id_of,
            "on_change": self._on_gang_change,
            "namespace": namespace,
            "labels": ours,
        }
        self.pods: Informer[UUID | None] = Informer(resource_kinds.POD, **of_gangs, **common)
        self.pod_groups: Informer[UUID | None] = Informer(resource_kinds.POD_GROUP, **of_gangs, **common)
        self.nodes: Informer[str] = Informer(
            resource_kinds.NODE,
            key_of=lambda node: str(node["metadata"]["name"]),
            on_change=self._on_node_change,
            labels=context.shard_selector,
            **common,
        )
        self.queues: Informer[str] = Informer(
            resource_kinds.QUEUE,
            key_of=lambda queue: str(queue["metadata"]["name"]),
            on_change=self._on_queue_change,
            labels=ours,
            transform=_queue_state,
            **common,
        )
        self._queue_states: dict[str, Object] = {}
        self._queues_changed = False
        # Without the right to watch queues, their changes wait for the regular sync: that is not a fault.
        super().__init__(self.pods, self.pod_groups, self.nodes, others=(self.queues,))

    @property
    def has_synced(self) -> bool:
        """Whether pods and PodGroups are known. The agent can work without nodes."""
        return self.pods.has_synced and self.pod_groups.has_synced

    def find_pod_group(self, group: UUID) -> Object | None:
        """The known PodGroup of a gang."""
        return self.pod_groups.get(pod_group_name(group))

    def known_uids(self) -> set[str]:
        """The uids of all known pods and PodGroups."""
        objects = (*self.pods.objects().values(), *self.pod_groups.objects().values())
        return {item["metadata"]["uid"] for item in objects}

    def mark_changed(self, group_ids: set[UUID | None]) -> None:
        """Compare these gangs again."""
        with self._lock:
            self._changed_gangs |= group_ids

    def pop_changed_gangs(self) -> set[UUID | None]:
        """The gangs that changed since the last call."""
        with self._lock:
            changed, self._changed_gangs = self._changed_gangs, set()
        return changed

    def pop_nodes_changed(self) -> bool:
        """Whether a node changed since the last call, and the nodes are known."""
        if not self.nodes.has_synced:
            return False
        changed, self._nodes_changed = self._nodes_changed, False
        return changed

    @property
    def queues_changed(self) -> bool:
        """Whether another client changed or deleted a queue of ours since :meth:`forget_changed_queues`."""
        return self._queues_changed

    def forget_changed_queues(self) -> None:
        """The changes so far are taken care of."""
        self._queues_changed = False

    def _on_queue_change(self, name: str) -> None:
        """Our own writes, and KAI's writes of a status, are not news."""
        known, queue = self._queue_states.get(name), self.queues.get(name)
        if queue is None:
            self._queue_states.pop(name, None)
            is_news = known is not None
        else:
            self._queue_states[name] = queue["state"]
            is_news = queue["state"] != known and not queue["ours"]
        if is_news and self.queues.has_synced:
            self._queues_changed = True
            self._wake()

    def _on_gang_change(self, gang: UUID | None) -> None:
        self.mark_changed({gang})
        self._wake()

    def _on_node_change(self, _: str) -> None:
        self._nodes_changed = True
