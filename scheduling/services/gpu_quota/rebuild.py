"""The manual rebuild of GPU usage: lists every cluster first, outside of any transaction, then repairs each namespace
under its own lock."""

from __future__ import annotations

from pools.domain.errors import BadInput, Busy
from pools.domain.gpu_quota.spec import namespace_violations
from pools.domain.people.roles import Actor
from pools.permissions import require_platform
from pools.selectors.clusters import managed_clusters
from pools.services.gpu_quota.gpu_rebuild import GpuRepair
from scheduling.kube.connection.errors import ClusterError
from scheduling.services.gpu_quota.controller import rebuild_from_clusters
from scheduling.services.kubernetes import connections


def rebuild_from_all_clusters(*, actor: Actor, namespace: str | None = None) -> list[GpuRepair]:
    """Replace the recorded pods (of one namespace, or all) by the pods of all clusters, and recount; returns the
    repairs. `osmo-admin` only.

    Raises Busy when a cluster does not answer (then nothing was changed), BadInput for an invalid namespace.
    """
    require_platform(actor)
    if namespace is not None and (faults := namespace_violations(namespace)):
        raise BadInput.of(faults)
    clusters = {}
    backend = None
    try:
        for backend in managed_clusters().order_by("name"):
            clusters[backend.pk] = connections.connect(backend)
        return rebuild_from_clusters(clusters, namespace)
    except ClusterError as error:
        where = f"of cluster {backend.name} " if backend is not None and len(clusters) < 2 else ""
        message = f"A cluster {where}did not answer, so nothing was rebuilt: {error.message}"
        raise Busy(message, retry_after=5) from error
