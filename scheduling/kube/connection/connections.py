"""Open connections, one for each backend's cluster. The official client is loaded by the first connection, because the
import takes most of a second and most processes never speak to a cluster."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from scheduling.kube.connection.call_limits import CallLimiter
from scheduling.kube.connection.cluster_access import ClusterAccess
from scheduling.kube.connection.port import Cluster, ClusterReader


@dataclass(frozen=True, slots=True)
class _OpenConnection:
    fingerprint: tuple[str, ...]
    cluster: Cluster


@dataclass(frozen=True, slots=True)
class _OpenReader:
    fingerprint: tuple[str, ...]
    reader: ClusterReader


class ConnectionPool:
    """Keeps the connection of each backend until its access changes. Safe to use from several threads."""

    def __init__(self) -> None:
        self._open: dict[int, _OpenConnection] = {}
        self._readers: dict[int, _OpenReader] = {}
        self._lock = threading.Lock()  # of the table only; no thread speaks to a cluster while it holds the lock

    def get(
        self, backend_id: int, access: ClusterAccess, fingerprint: tuple[str, ...], limiter: CallLimiter
    ) -> Cluster:
        """The connection of a backend. Another `fingerprint` than before means another access and opens a new one,
        with the limits of `limiter`.

        Raises BadCredentials when the access cannot be used at all; only the first call shows whether the cluster
        answers.
        """
        with self._lock:
            known = self._open.get(backend_id)
            if known is not None and known.fingerprint == fingerprint:
                return known.cluster
        from scheduling.kube.connection.client import KubernetesCluster  # noqa: PLC0415  (takes most of a second)

        cluster = KubernetesCluster(access, limiter=limiter)
        with self._lock:
            self._open[backend_id] = _OpenConnection(fingerprint, cluster)
        return cluster

    def get_reader(
        self, backend_id: int, access: ClusterAccess, fingerprint: tuple[str, ...], limiter: CallLimiter
    ) -> ClusterReader:
        """The same for an observed cluster: a connection without a call that writes."""
        with self._lock:
            known = self._readers.get(backend_id)
            if known is not None and known.fingerprint == fingerprint:
                return known.reader
        from scheduling.kube.connection.client import KubernetesReader  # noqa: PLC0415  (takes most of a second)

        reader = KubernetesReader(access, limiter=limiter)
        with self._lock:
            self._readers[backend_id] = _OpenReader(fingerprint, reader)
        return reader
