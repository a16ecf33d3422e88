"""The connection to a backend's cluster, opened with the credentials that are configured now."""

from __future__ import annotations

from django.conf import settings as django_settings

from pools.models import Backend, KubernetesSettings
from pools.security.sealing import UnreadableSecret
from pools.services.configuration.cluster_credentials import address_rule, load_kubeconfig
from scheduling.kube.connection.call_limits import CallLimiter
from scheduling.kube.connection.cluster_access import ClusterAccess, InClusterAccess, KubeconfigAccess
from scheduling.kube.connection.connections import ConnectionPool
from scheduling.kube.connection.errors import BadCredentials
from scheduling.kube.connection.port import Cluster

CONNECTIONS = ConnectionPool()
"""The connections of this process."""


def connect(backend: Backend) -> Cluster:
    """The connection to a backend's cluster. Raises BadCredentials when the configured access cannot be used at all;
    only the first call shows whether the cluster answers.

    A kubeconfig file is read on each call, since its owner may renew the credential in it.
    """
    settings = kubernetes_settings(backend)
    access = _cluster_access(settings)
    limiter = CallLimiter(backend.name, django_settings.OSMO.cluster_calls_per_second)
    return CONNECTIONS.get(backend.pk, access, _fingerprint(settings, access), limiter)


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
