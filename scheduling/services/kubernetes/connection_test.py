"""Whether a cluster can be worked with: asked for by people, found out by a worker, so that no page waits for a cluster
that does not answer."""

from __future__ import annotations

from django.utils import timezone

from pools.domain.errors import Conflict
from pools.domain.roles import Actor
from pools.models import Backend
from pools.permissions import require_house
from pools.services.backends import get_backend
from scheduling.domain.queues.desired import Place
from scheduling.kube import connections
from scheduling.kube.errors import ClusterError
from scheduling.kube.probe import Report, probe, unreachable
from scheduling.models import ClusterState, QueueSync
from scheduling.services import notifications


def ask_for_test(*, actor: Actor, backend: str) -> QueueSync:
    """Let a worker try the cluster out; its report stands in the row soon. `osmo-admin` only."""
    require_house(actor)
    row = cluster_row(get_backend(backend))
    row.connection_asked_at = timezone.now()
    row.save(update_fields=["connection_asked_at"])
    notifications.ask_to_test(row.pk)
    return row


def cluster_row(backend: Backend) -> QueueSync:
    """What is known of this backend's cluster. Raises Conflict for one that is none."""
    if backend.kind != Backend.Kind.KUBERNETES:
        raise Conflict(f"Backend {backend.name} is simulated; only a Kubernetes backend has a cluster.")
    return QueueSync.objects.get_or_create(backend=backend)[0]


def run_test(backend_id: int) -> Report | None:
    """Try the cluster out and keep the report. None when the backend is gone."""
    backend = Backend.objects.filter(pk=backend_id).first()
    if backend is None:
        return None
    row = cluster_row(backend)
    notifications.taken_to_test(backend_id)
    report = report_of(backend)
    row.connection, row.connection_at = report.as_json(), timezone.now()
    row.save(update_fields=["connection", "connection_at"])
    return report


def report_of(backend: Backend) -> Report:
    """Try the cluster out, now, and wait for it."""
    try:
        settings = connections.settings_of(backend)
        cluster = connections.connect(backend)
    except ClusterError as error:
        return unreachable(error)
    identity = ClusterState.objects.get_or_create(backend=backend)[0].identity
    return probe(cluster, Place(backend.namespace, str(identity), settings.node_pool_key, settings.node_pool))
