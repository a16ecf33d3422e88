"""Connections to the clusters of our backends: opened on first use, kept by each process, opened anew when the settings
moved. The official client is loaded here, by those who need a cluster, and not before."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from pools.models import Backend, KubernetesSettings
from pools.security.sealing import UnreadableSecret
from pools.services.cluster_credentials import load_kubeconfig
from scheduling.kube.cluster_access import ClusterAccess, InClusterAccess, KubeconfigAccess
from scheduling.kube.errors import BadCredentials
from scheduling.kube.port import Cluster

_Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Open:
    key: _Key
    cluster: Cluster


_open: dict[int, _Open] = {}
_lock = threading.Lock()  # of the table only: nobody speaks to a cluster while holding it


def connect(backend: Backend) -> Cluster:
    """The connection to a backend's cluster. Raises BadCredentials when what is configured cannot be tried; whether
    the cluster answers shows with the first call.

    A file is read anew each time, since its owner may renew the credential in it.
    """
    settings = kubernetes_settings(backend)
    access = cluster_access_of(settings)
    key = _key(settings, access)
    with _lock:
        kept = _open.get(backend.pk)
        if kept is not None and kept.key == key:
            return kept.cluster
    from scheduling.kube.client import KubernetesCluster  # noqa: PLC0415  (takes most of a second)

    cluster = KubernetesCluster(access)
    with _lock:
        _open[backend.pk] = _Open(key, cluster)
    return cluster


def kubernetes_settings(backend: Backend) -> KubernetesSettings:
    """The Kubernetes side of a backend, as it is now. Raises BadCredentials when it has none."""
    settings = KubernetesSettings.objects.filter(backend=backend).first()
    if settings is None:
        raise BadCredentials(f"Backend {backend.name} has no cluster configured: send it a kubeconfig.")
    return settings


def cluster_access_of(settings: KubernetesSettings) -> ClusterAccess:
    """Where and who. Raises BadCredentials."""
    if settings.access == KubernetesSettings.Access.IN_CLUSTER:
        return InClusterAccess()
    try:
        content, context = load_kubeconfig(settings)
    except UnreadableSecret as error:
        raise BadCredentials(str(error)) from error
    if not isinstance(content, dict):
        raise BadCredentials("The kubeconfig is no YAML object.")
    return KubeconfigAccess(content, context)


def _key(settings: KubernetesSettings, access: ClusterAccess) -> _Key:
    """What a connection was opened with; another key means another connection."""
    content = repr(access.content) if isinstance(access, KubeconfigAccess) and not settings.credential_mark else ""
    return (settings.access, settings.credential_mark, settings.kubeconfig_file, settings.context, content)
