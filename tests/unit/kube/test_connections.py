"""The pool of connections keeps a connection until the access to its backend changes."""

from __future__ import annotations

from typing import Any

from scheduling.kube.cluster_access import KubeconfigAccess
from scheduling.kube.connections import ConnectionPool


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
    assert pool.get(1, access, ("a",)) is pool.get(1, access, ("a",))


def test_a_changed_access_opens_another_connection() -> None:
    pool = ConnectionPool()
    first = pool.get(1, _access("https://one.example"), ("a",))
    second = pool.get(1, _access("https://two.example"), ("b",))
    assert second is not first
    assert pool.get(1, _access("https://two.example"), ("b",)) is second


def test_each_backend_has_its_own_connection() -> None:
    pool, access = ConnectionPool(), _access("https://one.example")
    assert pool.get(1, access, ("a",)) is not pool.get(2, access, ("a",))
