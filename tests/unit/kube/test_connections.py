"""The pool of connections keeps a connection until the access to its backend changes."""

from __future__ import annotations

from typing import Any

from scheduling.kube.connection.call_limits import CallLimiter
from scheduling.kube.connection.cluster_access import KubeconfigAccess
from scheduling.kube.connection.connections import ConnectionPool

LIMITS = CallLimiter()


def _access(server: str) -> KubeconfigAccess:
    content: dict[str, Any] = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    return KubeconfigAccess(content)


def test_a_connection_is_kept_while_the_access_is_unchanged() -> None:
    pool, access = ConnectionPool(), _access("https://one.example")
    assert pool.get(1, access, ("a",), LIMITS) is pool.get(1, access, ("a",), LIMITS)


def test_a_changed_access_opens_another_connection() -> None:
    pool = ConnectionPool()
    first = pool.get(1, _access("https://one.example"), ("a",), LIMITS)
    second = pool.get(1, _access("https://two.example"), ("b",), LIMITS)
    assert second is not first
    assert pool.get(1, _access("https://two.example"), ("b",), LIMITS) is second


def test_each_backend_has_its_own_connection() -> None:
    pool, access = ConnectionPool(), _access("https://one.example")
    assert pool.get(1, access, ("a",), LIMITS) is not pool.get(2, access, ("a",), LIMITS)
