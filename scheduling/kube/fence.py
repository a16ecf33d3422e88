"""A connection that writes only while its user may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from scheduling.kube.connection.port import Cluster

_WRITES = frozenset({"apply", "create", "merge", "delete"})


def fence(cluster: Cluster, require_lease: Callable[[], None]) -> Cluster:
    """The connection, with a call of `require_lease` before each write, which raises what ends the writer's work. It is
    called from any thread."""
    return cast("Cluster", _FencedCluster(cluster, require_lease))


class _FencedCluster:
    def __init__(self, real: Cluster, require_lease: Callable[[], None]) -> None:
        self._real, self._require_lease = real, require_lease

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if name not in _WRITES:
            return real

        def write(*arguments: Any, **options: Any) -> Any:
            self._require_lease()
            return real(*arguments, **options)

        return write
