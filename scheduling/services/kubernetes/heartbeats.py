"""Heartbeats of clusters: written by their agents, and compared with the current time (design, O5.3)."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import F, Q
from django.db.models.functions import Now

from pools.database.one_by_one import left_out_on_error
from pools.database.transactions import change
from pools.domain.people.roles import SYSTEM
from pools.domain.values.stored_text import as_storable
from pools.models import Backend
from scheduling.domain.cluster.heartbeat import HEARTBEAT_LIFETIME
from scheduling.domain.observed.seen_pods import SeenWork, UnreadObject
from scheduling.kube.connection import errors
from scheduling.kube.connection.error_messages import condition_reason
from scheduling.models import ClusterState, QueueSync
from scheduling.services import notifications

MAX_UNASSIGNED = MAX_UNREAD = 50
NOT_WRITTEN = "it could not be recorded; the log of the process `clusters` has the error"
_TOO_MANY_REQUESTS = condition_reason(errors.TooManyRequests(""))


def cluster_state(backend: Backend) -> ClusterState:
    """The state of this cluster; the first call creates its identity."""
    state, _ = ClusterState.objects.get_or_create(backend=backend)
    return state


def record_heartbeat(backend: Backend, problem: str = "") -> None:
    """The cluster answers and its pods are known: its pools are ONLINE, unless an admin requested OFFLINE. `problem` is
    what it refuses."""
    ClusterState.objects.filter(backend=backend).update(heartbeat_at=Now(), error=as_storable(problem))
    _set_offline(backend, is_offline=False, reason="the cluster answers")


def end_pauses(backend: Backend) -> None:
    """The cluster answers after an outage: the sync of its queues, and everything else that waits in a pause after a
    failure there, tries again now."""
    waiting = QueueSync.objects.filter(backend=backend, retry_at__gt=Now()).exclude(reason=_TOO_MANY_REQUESTS)
    if waiting.update(retry_at=None):
        notifications.enqueue_queue_sync(backend.pk)
    notifications.cluster_answers(backend.pk)


def record_cluster_error(backend: Backend, message: str) -> None:
    """Record an error of the cluster that occurred after, or together with, its last heartbeat."""
    message = as_storable(message)
    ClusterState.objects.filter(backend=backend).exclude(error=message).update(error=message)


def record_cluster_lease(backend: Backend, state: str, message: str) -> None:
    """Record the agent's view of the Lease object in the cluster; the time moves only with the state."""
    rows = ClusterState.objects.filter(backend=backend)
    rows.exclude(cluster_lease=state).update(cluster_lease=state, cluster_lease_since=Now())
    rows.exclude(cluster_lease_message=message).update(cluster_lease_message=message)


def record_uncounted(
    backend: Backend,
    unassigned: Iterable[tuple[SeenWork, str]],
    unread: Iterable[UnreadObject],
    failed: Iterable[SeenWork],
) -> None:
    """Record what of an observed cluster counts in no pool: the queues and namespaces of work that no pool takes, the
    most GPUs first, each with the pool that it names; the objects that cannot be read, and the work that could not be
    written, each with its problem."""
    found: dict[tuple[str, str], list[int]] = {}
    for work, pool in unassigned:
        counts = found.setdefault((as_storable(work.queue), pool), [0, 0])
        counts[0] += 1
        counts[1] += sum(pod.gpus for pod in work.pods if not pod.status.is_finished)
    ordered = sorted(found.items(), key=lambda each: (-each[1][1], each[0]))[:MAX_UNASSIGNED]
    rows = [
        {"queue": queue, "workloads": count, "gpus": gpus} | ({"pool": pool} if pool else {})
        for (queue, pool), (count, gpus) in ordered
    ]
    problems = [(each.kind, each.namespace, each.name, each.problem) for each in unread]
    problems += [(each.kind, each.namespace, each.name, NOT_WRITTEN) for each in failed]
    keys = ("kind", "namespace", "name", "problem")
    unread_rows = [dict(zip(keys, map(as_storable, row), strict=True)) for row in sorted(problems)[:MAX_UNREAD]]
    state = ClusterState.objects.filter(backend=backend).exclude(unassigned=rows, unread=unread_rows)
    state.update(unassigned=rows, unread=unread_rows)


def set_silent_offline() -> list[str]:
    """Set backends OFFLINE whose last heartbeat is too old or missing. Returns their names."""
    oldest = Now() - HEARTBEAT_LIFETIME
    silent = Backend.objects.filter(kind=Backend.Kind.KUBERNETES, offline=False).filter(
        Q(cluster_state=None) | Q(cluster_state__heartbeat_at=None) | Q(cluster_state__heartbeat_at__lt=oldest)
    )
    found = list(silent.order_by("name").annotate(heard_at=F("cluster_state__heartbeat_at")))
    minutes = int(HEARTBEAT_LIFETIME.total_seconds()) // 60
    for backend in found:
        reason = "the cluster has never answered" if backend.heard_at is None else f"no answer for {minutes} minutes"
        with left_out_on_error("a silent cluster", backend.name):
            _set_offline(backend, is_offline=True, reason=reason)
    return [backend.name for backend in found]


def _set_offline(backend: Backend, *, is_offline: bool, reason: str) -> None:
    rows = Backend.objects.filter(pk=backend.pk, offline_requested=False).exclude(offline=is_offline)
    if not rows.exists():
        return
    with change(actor=SYSTEM, description=reason):
        rows.update(offline=is_offline)
