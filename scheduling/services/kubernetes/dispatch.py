"""Carrying out what a comparison found: gangs are made in their cluster, and what is over is taken away.

The plan is read before and what became of it is written after; between them only the cluster is spoken to, and no
transaction is open. A gang that cannot be made is tried again, later each time, and says why it waits; one that can
never be made there ends with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from scheduling.domain.cluster.diff import CLUSTER_FAULT, confirm_lost_pods
from scheduling.domain.cluster.naming import FIELD_MANAGER, INSTALLATION_LABEL
from scheduling.domain.cluster.pod_status import PodStatusReport
from scheduling.domain.kubernetes_json import Object
from scheduling.kube import errors, gang_objects, resource_kinds
from scheduling.kube.backoff import Backoff
from scheduling.kube.error_messages import error_message
from scheduling.kube.errors import ClusterError
from scheduling.kube.gang_objects import GangCreation, GangManifest
from scheduling.kube.parallel import map_bounded
from scheduling.kube.port import Cluster
from scheduling.selectors.pending_manifests import ClusterContext, ImpossibleGang, pending_manifests
from scheduling.services.kubernetes import observation
from scheduling.services.kubernetes.dispatch_admission import admit_gangs

Item = TypeVar("Item")
BATCH_SIZE = 40  # gangs or objects between two looks at the lease
FIRST_PAUSE, MAX_PAUSE = 1.0, 60.0  # seconds before a gang that could not be made is tried again


class Dispatcher:
    """Makes and removes gangs of one backend. It remembers which could not be made, and until when to leave them."""

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
    ) -> tuple[set[UUID], ClusterError | None]:
        """Dispatch what is to be made of these gangs, some at a time; `before_batch` is called before each of these. Returns
        those that ended because they cannot be made, and the silence of the cluster if it stopped answering. `find_pod_group`
        finds a gang's PodGroup as it was last seen. Nothing is made while an admin keeps the backend offline."""
        if context.backend.offline_requested:
            return set(), None
        now = time.monotonic()
        ready = [group for group in groups if group not in self._pauses or self._pauses[group][1] <= now]
        ready = admit_gangs(context.backend, ready, before_batch=before_batch)
        refused: set[UUID] = set()
        for some in _some(ready):
            before_batch()
            ended, silence = self._make_some(cluster, context, some, find_pod_group)
            refused |= ended
            if silence is not None:
                return refused, silence
        return refused, None

    def _make_some(
        self, cluster: Cluster, place: ClusterContext, groups: Collection[UUID], there: Callable[[UUID], Object | None]
    ) -> tuple[set[UUID], ClusterError | None]:
        plan = list(pending_manifests(place, groups, there))
        refused = {each.group_id: each.reason for each in plan if isinstance(each, ImpossibleGang)}
        to_make = [order for order in plan if isinstance(order, GangManifest)]
        made = map_bounded(to_make, lambda order: gang_objects.create_gang(cluster, order), lambda done: done.error)
        observation.mark_dispatched([task for done in made for task in done.created_pods])
        refused |= {done.group_id: done.refusal for done in made if done.refusal}
        observation.fail_refused_gangs(place.backend, refused)
        self._note(made)
        return set(refused), next((done.error for done in made if isinstance(done.error, errors.Unreachable)), None)

    def _note(self, made: Iterable[GangCreation]) -> None:
        reasons: dict[UUID, Mapping[str, Any] | None] = {}
        for done in made:
            if done.error is None:
                self._pauses.pop(done.group_id, None)
                if done.created_pods and not done.refusal:
                    reasons[done.group_id] = None
                continue
            backoff, _ = self._pauses.get(done.group_id, (Backoff(FIRST_PAUSE, MAX_PAUSE), 0.0))
            self._pauses[done.group_id] = (backoff, time.monotonic() + backoff.next_pause(done.error.retry_after))
            reasons[done.group_id] = {"code": CLUSTER_FAULT, "message": error_message(done.error)}
        observation.set_waiting_reasons(reasons)

    def forget_closed(self, open_groups: Collection[UUID]) -> None:
        """Gangs that are over are waited for no more."""
        self._pauses = {group: pause for group, pause in self._pauses.items() if group in open_groups}

    def clear_pauses(self) -> None:
        """The cluster answers again: nobody has to wait for what was its silence."""
        self._pauses.clear()


def delete_objects(
    cluster: Cluster, pod_groups: Sequence[Object], pods: Sequence[Object], *, before_batch: Callable[[], None]
) -> list[ClusterError]:
    """Take these objects away, some at a time; what was wrong with those that stay."""
    found: list[ClusterError] = []
    for things, deed in ((pod_groups, gang_objects.delete_pod_group), (pods, gang_objects.delete_pod)):
        for some in _some(things):
            before_batch()
            found += _attempt(cluster, some, deed)
    return found


def _attempt(
    cluster: Cluster, things: Sequence[Object], deed: Callable[[Cluster, Object], None]
) -> Iterator[ClusterError]:
    done = map_bounded(things, lambda there: _fault(cluster, there, deed), lambda error: error)
    yield from (error for error in done if error is not None)


def _some(things: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for first in range(0, len(things), BATCH_SIZE):
        yield things[first : first + BATCH_SIZE]


def _fault(cluster: Cluster, there: Object, deed: Callable[[Cluster, Object], None]) -> ClusterError | None:
    try:
        deed(cluster, there)
    except ClusterError as error:
        return error
    return None


def find_lost_pods(
    cluster: Cluster, context: ClusterContext, missing: Mapping[UUID, Collection[UUID]]
) -> dict[UUID, dict[UUID, PodStatusReport]]:
    """Tries whose pods were there and are not seen any more: reports of those that are gone for good. One that is only
    out of our sight, because somebody took our mark off, gets it back. Raises ClusterError."""

    def look(name: str) -> Object | None:
        try:
            there = cluster.get(resource_kinds.POD, name, namespace=context.backend.namespace)
        except errors.ObjectNotFound:
            return None
        if (there["metadata"].get("labels") or {}).get(INSTALLATION_LABEL) != context.installation_id:
            mark = {"metadata": {"labels": {INSTALLATION_LABEL: context.installation_id}}}
            cluster.merge(
                resource_kinds.POD, name, mark, field_manager=FIELD_MANAGER, namespace=context.backend.namespace
            )
        return there

    return confirm_lost_pods(missing, look)
