"""Rebuilding GPU quota by hand: every cluster is listed first, outside of any transaction, then each namespace is put
right under its own lock."""

from __future__ import annotations

from pools.domain.errors import BadInput, Busy
from pools.domain.gpu_quota.spec import namespace_violations
from pools.domain.roles import Actor
from pools.models import Backend
from pools.permissions import require_platform
from pools.services.gpu_rebuild import GpuRepair
from scheduling.kube.errors import ClusterError
from scheduling.services.gpu_quota.controller import rebuild_from_clusters
from scheduling.services.kubernetes import connections


def rebuild_from_all_clusters(*, actor: Actor, namespace: str | None = None) -> list[GpuRepair]:
    """Replace what was recorded of pods by what all clusters say now (of one namespace, if one is named), recount, and
    say what was repaired. `osmo-admin` only.

    A cluster that does not answer is Busy, and nothing was changed; BadInput for what is no namespace.
    """
    require_platform(actor)
    if namespace is not None and (faults := namespace_violations(namespace)):
        raise BadInput.of(faults)
    clusters = {}
    backend = None
    try:
        for backend in Backend.objects.filter(kind=Backend.Kind.KUBERNETES).order_by("name"):
            clusters[backend.pk] = connections.connect(backend)
        return rebuild_from_clusters(clusters, namespace)
    except ClusterError as error:
        where = f"of backend {backend.name} " if backend is not None and len(clusters) < 2 else ""
        said = f"A cluster {where}did not answer, so nothing was rebuilt: {error.message}"
        raise Busy(said, retry_after=5) from error
