"""Puts back the fields of our PodGroups and pods that other clients changed.

An object is verified once after each change of the fields of ours: its manifest is made again from the ledger and
compared with it. What was verified is remembered, so that an object that nobody touches costs a comparison of versions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pools.database.one_by_one import left_out_on_error
from scheduling.domain.cluster.drift import FieldDrift, find_drift, pod_content, pod_group_content
from scheduling.domain.cluster.naming import pod_name
from scheduling.domain.cluster.pods.pod import pod_manifest
from scheduling.domain.kubernetes_json import Object
from scheduling.kube import gang_objects
from scheduling.kube.connection import errors, metrics
from scheduling.kube.connection.backoff import Backoff
from scheduling.kube.connection.error_messages import error_message
from scheduling.kube.connection.errors import ClusterError
from scheduling.kube.connection.parallel import map_bounded
from scheduling.kube.connection.port import Cluster, ResourceKind
from scheduling.kube.connection.resource_kinds import POD, POD_GROUP
from scheduling.kube.events import EventReason, EventSubject, EventWriter
from scheduling.kube.gang_objects import GangCreation, GangManifest
from scheduling.selectors.work.pending_manifests import ClusterContext, pending_manifests

logger = logging.getLogger(__name__)

MAX_GANGS_PER_ROUND = 50  # after a start every object is verified once; new work does not wait for all of them
FIRST_PAUSE, MAX_PAUSE = 1.0, 300.0  # seconds between repairs of an object that another client keeps changing
_QUIET_SECONDS = 600.0  # after which a change of an object is repaired at once again


@dataclass(frozen=True, slots=True)
class _Verified:
    """The version of an object when its content was as we wrote it."""

    version: str
    content: Any


@dataclass(frozen=True, slots=True)
class _Repair:
    """One object with fields to put back."""

    kind: ResourceKind
    observed: Object
    drift: tuple[FieldDrift, ...]


class DriftRepair:
    """The verified objects of one backend, by uid."""

    def __init__(self, events: EventWriter) -> None:
        self._events = events
        self._verified: dict[str, _Verified] = {}
        self._pauses: dict[str, tuple[Backoff, float]] = {}
        self._refused: dict[str, str] = {}

    @property
    def problem(self) -> str:
        """Why the cluster does not let an object be put back; empty where it does."""
        return next(iter(self._refused.values()), "")

    def is_verified(self, item: Object) -> bool:
        """Whether nothing has to be done about an observed object: it is as it was when it was verified, is being
        deleted, or was repaired so recently that the next repair waits."""
        metadata = item["metadata"]
        if metadata.get("deletionTimestamp"):
            return True
        known = self._verified.get(metadata["uid"])
        if known is not None:
            if known.version == metadata["resourceVersion"]:
                return True
            if known.content == _content(item):
                self._verified[metadata["uid"]] = _Verified(metadata["resourceVersion"], known.content)
                return True
        pause = self._pauses.get(metadata["uid"])
        return pause is not None and time.monotonic() < pause[1]

    def remember_created(self, creation: GangCreation) -> None:
        """Objects that were just created are as we wrote them."""
        for item in (*creation.pods, *([creation.pod_group] if creation.pod_group is not None else [])):
            self._remember(item)

    def forget_missing(self, uids: Collection[str]) -> None:
        """Keep only what is known of these objects."""
        self._verified = {uid: each for uid, each in self._verified.items() if uid in uids}
        self._refused = {uid: each for uid, each in self._refused.items() if uid in uids}
        now = time.monotonic()
        self._pauses = {
            uid: pause for uid, pause in self._pauses.items() if uid in uids and now - pause[1] < _QUIET_SECONDS
        }

    def repair(
        self,
        cluster: Cluster,
        context: ClusterContext,
        groups: Collection[UUID],
        *,
        find_pod_group: Callable[[UUID], Object | None],
        find_pod: Callable[[str], Object | None],
        before_batch: Callable[[], None],
    ) -> tuple[bool, ClusterError | None]:
        """Verify the objects of these gangs, some of them only if there are many. Returns whether gangs are left, and
        the error if the cluster stopped answering."""
        batch = list(groups)[:MAX_GANGS_PER_ROUND]
        before_batch()
        repairs: list[_Repair] = []
        for manifest in pending_manifests(context, batch, find_pod_group):
            if isinstance(manifest, GangManifest):
                with left_out_on_error("the comparison of a gang's objects", manifest.group_id):
                    repairs += self._find_repairs(manifest, find_pod)
        results = map_bounded(repairs, lambda each: self._put_back(cluster, context, each), lambda error: error)
        silence = next((error for error in results if errors.is_silence(error)), None)
        return len(groups) > len(batch), silence

    def _find_repairs(self, manifest: GangManifest, find_pod: Callable[[str], Object | None]) -> Iterator[_Repair]:
        shard_key = manifest.gang_context.target.shard_key
        pairs: list[tuple[ResourceKind, Object, Object | None]] = [
            (POD_GROUP, manifest.pod_group, manifest.current_pod_group)
        ]
        for task in (*manifest.created_tasks, *manifest.tasks):
            if (pod := find_pod(pod_name(task.uuid))) is not None:
                metadata = pod_manifest(manifest.gang_context, task)["metadata"]
                pairs.append((POD, {"metadata": metadata}, pod))
        for kind, desired, observed in pairs:
            if observed is None or self.is_verified(observed):
                continue
            if drift := find_drift(desired, observed, shard_key=shard_key):
                yield _Repair(kind, observed, tuple(drift))
            else:
                self._remember(observed)

    def _put_back(self, cluster: Cluster, context: ClusterContext, repair: _Repair) -> ClusterError | None:
        """Put the fields of one object back. The result counts as verified even if the API server dropped a field that
        it does not know. A conflict means that the object changed meanwhile; the next comparison sees it."""
        uid = repair.observed["metadata"]["uid"]
        backoff, _ = self._pauses.get(uid, (Backoff(FIRST_PAUSE, MAX_PAUSE), 0.0))
        try:
            self._remember(gang_objects.put_back(cluster, repair.kind, repair.observed, repair.drift))
        except (errors.WriteConflict, errors.ObjectNotFound):
            return None
        except ClusterError as error:
            self._pauses[uid] = (backoff, time.monotonic() + backoff.next_pause(error.retry_after))
            logger.warning("%s: %s: %s", context.backend.name, repair.drift[0].sentence, error)
            if not errors.is_silence(error) and not isinstance(error, errors.TooManyRequests):
                self._refused[uid] = f"A change by another client stays: {error_message(error)}"
            return error
        self._pauses[uid] = (backoff, time.monotonic() + backoff.next_pause())
        name = repair.observed["metadata"]["name"]
        for each in repair.drift:
            metrics.count_repair(context.backend.name, repair.kind.name, each.bounded_field)
            logger.warning("backend %s: %s %s: %s", context.backend.name, repair.kind.name, name, each.sentence)
        message = "Another client changed what OSMO Admin owns: " + "; ".join(each.sentence for each in repair.drift)
        self._events.record(EventSubject.of(repair.kind, repair.observed), EventReason.REPAIRED, message)
        return None

    def _remember(self, item: Object) -> None:
        metadata = item["metadata"]
        self._verified[metadata["uid"]] = _Verified(metadata["resourceVersion"], _content(item))
        self._refused.pop(metadata["uid"], None)


def _content(item: Object) -> Any:
    return pod_group_content(item) if item["kind"] == POD_GROUP.name else pod_content(item)
