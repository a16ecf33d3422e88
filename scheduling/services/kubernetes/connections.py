"""The connection to a backend's cluster, opened with the credentials that are configured now."""

from __future__ import annotations

from django.conf import settings as django_settings

from pools.domain.errors import Conflict, Fault, Violation
from pools.models import Backend, KubernetesSettings
from pools.security.sealing import UnreadableSecret
from pools.services.configuration.cluster_credentials import address_rule, load_kubeconfig
from scheduling.kube.connection.call_limits import CallLimiter
from scheduling.kube.connection.cluster_access import ClusterAccess, InClusterAccess, KubeconfigAccess
from scheduling.kube.connection.connections import ConnectionPool
from scheduling.kube.connection.errors import BadCredentials, ClusterObserved
from scheduling.kube.connection.port import Cluster, ClusterReader

CONNECTIONS = ConnectionPool()
"""The connections of this process."""


def connect(backend: Backend) -> Cluster:
    """The connection to a backend's cluster. Raises BadCredentials when the configured access cannot be used at all;
    only the first call shows whether the cluster answers. Raises ClusterObserved for an observed cluster, before
    anything that could write to it is made.

    A kubeconfig file is read on each call, since its owner may renew the credential in it.
    """
    settings = kubernetes_settings(backend)
    if settings.is_observed:
        raise ClusterObserved(observed_message(backend.name))
    access = _cluster_access(settings)
    return CONNECTIONS.get(backend.pk, access, _fingerprint(settings, access), _limiter(backend))


def connect_reader(backend: Backend) -> ClusterReader:
    """A connection that only reads, to a managed or an observed cluster. Raises BadCredentials."""
    settings = kubernetes_settings(backend)
    if not settings.is_observed:
        return connect(backend)
    access = _cluster_access(settings)
    return CONNECTIONS.get_reader(backend.pk, access, _fingerprint(settings, access), _limiter(backend))


def observed_message(name: str) -> str:
    """Why nothing is written to this cluster."""
    return f"Cluster {name} is observed; OSMO Admin only reads there."


def require_managed(backend: Backend, settings: KubernetesSettings) -> None:
    """Raises Conflict for an observed cluster, to which nothing is written."""
    if settings.is_observed:
        message = f"{observed_message(backend.name)} Set its mode to manage first."
        raise Conflict(message, [Violation("mode", Fault.CLUSTER_OBSERVED, message)])


def _limiter(backend: Backend) -> CallLimiter:
    return CallLimiter(backend.name, django_settings.OSMO.cluster_calls_per_second)


def kubernetes_settings(backend: Backend) -> KubernetesSettings:
    """The current Kubernetes settings of a backend. Raises BadCredentials when it has none."""
    settings = KubernetesSettings.objects.filter(backend=backend).first()
    if settings is None:
        raise BadCredentials(f"Cluster {backend.name} has no access configured: send it a kubeconfig.")
    return settings


def _cluster_access(settings: KubernetesSettings) -> ClusterAccess:
    """The address of the cluster and the credential for it. Raises BadCredentials."""
    if settings.access == KubernetesSettings.Access.IN_CLUSTER:
        return InClusterAccess()
    try:
        content, context = load_kubeconfig(settings)
    except UnreadableSecret as error:
        raise BadCredentials(str(error)) from error
    if not isinstance(content, dict):
        raise BadCredentials("The kubeconfig is not a YAML object.")
    is_sent = settings.access == KubernetesSettings.Access.KUBECONFIG
    return KubeconfigAccess(content, context, address_rule() if is_sent else None)


def _fingerprint(settings: KubernetesSettings, access: ClusterAccess) -> tuple[str, ...]:
    """Identifies the address and the credential of a connection: a sealed credential by its stored mark, a file by its
    content."""
    content = repr(access.content) if isinstance(access, KubeconfigAccess) and not settings.credential_mark else ""
    return (settings.access, settings.credential_mark, settings.kubeconfig_file, settings.context, content)
