"""Connection tests: a worker runs them, so that no page waits for a cluster that does not answer."""

from __future__ import annotations

from django.utils import timezone

from pools.domain.errors import Conflict
from pools.domain.people.roles import Actor
from pools.models import Backend
from pools.permissions import require_platform
from pools.services.configuration.backends import get_backend
from scheduling.domain.queues.desired import QueueTarget
from scheduling.kube.connection.errors import ClusterError
from scheduling.kube.connection_checks import (
    ConnectionReport,
    check_cluster,
    check_observed_cluster,
    unreachable_report,
)
from scheduling.models import ClusterState, QueueSync
from scheduling.services import notifications
from scheduling.services.kubernetes import connections


def request_connection_test(*, actor: Actor, backend: str) -> QueueSync:
    """Let a worker test the connection; the row will hold its report. `osmo-admin` only."""
    require_platform(actor)
    row = _stored_row(get_backend(backend))
    row.connection_test_requested_at = timezone.now()
    row.save(update_fields=["connection_test_requested_at"])
    notifications.enqueue_connection_test(row.pk)
    return row


def require_cluster(backend: Backend) -> None:
    """Raises Conflict for a simulated backend."""
    if backend.kind != Backend.Kind.KUBERNETES:
        raise Conflict(f"Cluster {backend.name} is simulated; it has no connection.")


def _stored_row(backend: Backend) -> QueueSync:
    require_cluster(backend)
    return QueueSync.objects.get_or_create(backend=backend)[0]


def run_connection_test(backend_id: int) -> ConnectionReport | None:
    """Test the connection and save the report. None when the backend was removed."""
    backend = Backend.objects.filter(pk=backend_id).first()
    if backend is None:
        return None
    row = _stored_row(backend)
    notifications.connection_test_started(backend_id)
    report = connection_report(backend)
    row.connection_test, row.connection_tested_at = report.as_json(), timezone.now()
    row.save(update_fields=["connection_test", "connection_tested_at"])
    return report


def connection_report(backend: Backend) -> ConnectionReport:
    """Test the connection now; waits for the cluster."""
    try:
        settings = connections.kubernetes_settings(backend)
        if settings.is_observed:
            return check_observed_cluster(connections.connect_reader(backend))
        cluster = connections.connect(backend)
    except ClusterError as error:
        return unreachable_report(error)
    identity = ClusterState.objects.get_or_create(backend=backend)[0].identity
    return check_cluster(
        cluster, QueueTarget(backend.namespace, str(identity), settings.node_pool_key, settings.node_pool)
    )
