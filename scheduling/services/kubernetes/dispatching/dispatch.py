"""Dispatches gangs to their cluster and deletes objects of ended gangs, as a comparison with the ledger requires.

Manifests are read before and results are written after the calls to the cluster; no transaction is open during the
calls. A gang whose dispatch failed is dispatched again after a growing pause and shows the reason meanwhile; a gang
that this cluster can never run ends with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from scheduling.domain.cluster.diff import confirm_lost_pods
from scheduling.domain.cluster.naming import FIELD_MANAGER, INSTALLATION_LABEL
from scheduling.domain.cluster.pods.pod_status import PodStatusReport
from scheduling.domain.kubernetes_json import Object
from scheduling.domain.reason_codes import ReasonCode
from scheduling.kube import gang_objects
from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.connection.backoff import Backoff
from scheduling.kube.connection.error_messages import error_message
from scheduling.kube.connection.errors import ClusterError
from scheduling.kube.connection.parallel import map_bounded
from scheduling.kube.connection.port import Cluster
from scheduling.kube.gang_objects import GangCreation, GangManifest
from scheduling.selectors.work.pending_manifests import ClusterContext, ImpossibleGang, pending_manifests
from scheduling.services.kubernetes.dispatching import observation
from scheduling.services.kubernetes.dispatching.dispatch_admission import admit_gangs
from scheduling.services.kubernetes.dispatching.dispatch_holds import hold_back, keep_without_queue

Item = TypeVar("Item")
BATCH_SIZE = 40  # gangs or objects between two renewals of the lease
FIRST_PAUSE, MAX_PAUSE = 1.0, 60.0  # seconds before another attempt to dispatch a gang
PATIENCE = 30.0  # seconds of faults, such as webhooks that time out, after which the rest waits for the next round


class Dispatcher:
    """Dispatches the gangs of one backend. It remembers failed gangs, and the time of their next attempt."""

    def __init__(self) -> None:
        self._pauses: dict[UUID, tuple[Backoff, float]] = {}

    def dispatch(
        self,
        cluster: Cluster,
        context: ClusterContext,
        groups: Collection[UUID],
        *,
        find_pod_group: Callable[[UUID], Object | None],
        before_batch: Callable[[], None],
        on_created: Callable[[GangCreation], None],
    ) -> tuple[set[UUID], ClusterError | None]:
        """Create the missing objects of these gangs, a batch at a time; `before_batch` is called before each batch,
        `on_created` with the result of each gang.
        Returns the gangs that ended because this cluster can never run them, and the error if the cluster stopped
        answering. `find_pod_group` finds the known PodGroup of a gang. While an admin requests the backend to be
        offline, nothing is dispatched; nor what a pool holds back for a gang that has waited long, nor what has no
        queue of ours."""
        if context.backend.offline_requested:
            return set(), None
        now = time.monotonic()
        due = [group for group in groups if group not in self._pauses or self._pauses[group][1] <= now]
        free, barred = hold_back(context.backend, due)
        sendable = keep_without_queue(context.backend, free)
        admitted = admit_gangs(context.backend, sendable, before_batch=before_batch, barred=barred)
        refused: set[UUID] = set()
        began = time.monotonic()
        for batch in _batches(sorted(admitted, key=lambda group: group in self._pauses)):  # what failed comes last
            before_batch()
            ended, faults = self._dispatch_batch(cluster, context, batch, find_pod_group, on_created)
            refused |= ended
            silence = next(filter(errors.is_silence, faults), None)
            if silence is not None or (faults and time.monotonic() - began > PATIENCE):
                return refused, silence
        return refused, None

    def _dispatch_batch(
        self,
        cluster: Cluster,
        context: ClusterContext,
        groups: Collection[UUID],
        find_pod_group: Callable[[UUID], Object | None],
        on_created: Callable[[GangCreation], None],
    ) -> tuple[set[UUID], list[ClusterError]]:
        plan = list(pending_manifests(context, groups, find_pod_group))
        refusals = {each.group_id: each.reason for each in plan if isinstance(each, ImpossibleGang)}
        manifests = [each for each in plan if isinstance(each, GangManifest)]
        results = map_bounded(
            manifests, lambda manifest: gang_objects.create_gang(cluster, manifest), lambda result: result.error
        )
        observation.mark_dispatched([task_id for result in results for task_id in result.created_pods])
        for result in results:
            on_created(result)
        refusals |= {result.group_id: result.refusal for result in results if result.refusal}
        observation.fail_refused_gangs(context.backend, refusals)
        self._record_results(results)
        return set(refusals), [result.error for result in results if result.error is not None]

    def _record_results(self, results: Iterable[GangCreation]) -> None:
        reasons: dict[UUID, Mapping[str, Any] | None] = {}
        for result in results:
            if result.error is None:
                self._pauses.pop(result.group_id, None)
                if result.created_pods and not result.refusal:
                    reasons[result.group_id] = None
                continue
            backoff, _ = self._pauses.get(result.group_id, (Backoff(FIRST_PAUSE, MAX_PAUSE), 0.0))
            self._pauses[result.group_id] = (backoff, time.monotonic() + backoff.next_pause(result.error.retry_after))
            reasons[result.group_id] = {"code": ReasonCode.CLUSTER_FAULT, "message": error_message(result.error)}
        observation.set_waiting_reasons(reasons)

    def forget_closed(self, open_groups: Collection[UUID]) -> None:
        """Forget the pauses of gangs that are no longer open."""
        self._pauses = {group: pause for group, pause in self._pauses.items() if group in open_groups}

    def clear_pauses(self) -> None:
        """The cluster answers again: gangs that failed because of it do not have to wait longer."""
        self._pauses.clear()


def delete_objects(
    cluster: Cluster, pod_groups: Sequence[Object], pods: Sequence[Object], *, before_batch: Callable[[], None]
) -> list[ClusterError]:
    """Delete these objects, a batch at a time; returns the errors."""
    found: list[ClusterError] = []
    for objects, delete in ((pod_groups, gang_objects.delete_pod_group), (pods, gang_objects.delete_pod)):
        for batch in _batches(objects):
            before_batch()
            found += _delete_batch(cluster, batch, delete)
    return found


def _delete_batch(
    cluster: Cluster, objects: Sequence[Object], delete: Callable[[Cluster, Object], None]
) -> Iterator[ClusterError]:
    results = map_bounded(objects, lambda item: _delete_error(cluster, item, delete), lambda error: error)
    yield from (error for error in results if error is not None)


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for first in range(0, len(items), BATCH_SIZE):
        yield items[first : first + BATCH_SIZE]


def _delete_error(cluster: Cluster, item: Object, delete: Callable[[Cluster, Object], None]) -> ClusterError | None:
    try:
        delete(cluster, item)
    except ClusterError as error:
        return error
    return None


def find_lost_pods(
    cluster: Cluster, context: ClusterContext, missing: Mapping[UUID, Collection[UUID]]
) -> dict[UUID, dict[UUID, PodStatusReport]]:
    """Reports of the attempts whose pods are gone for good. A pod that the informers do not see, because it lost our
    label, gets the label back. Raises ClusterError."""

    def get_pod(name: str) -> Object | None:
        try:
            pod = cluster.get(resource_kinds.POD, name, namespace=context.backend.namespace)
        except errors.ObjectNotFound:
            return None
        if (pod["metadata"].get("labels") or {}).get(INSTALLATION_LABEL) != context.installation_id:
            patch = {"metadata": {"labels": {INSTALLATION_LABEL: context.installation_id}}}
            cluster.merge(
                resource_kinds.POD, name, patch, field_manager=FIELD_MANAGER, namespace=context.backend.namespace
            )
        return pod

    return confirm_lost_pods(missing, get_pod)
