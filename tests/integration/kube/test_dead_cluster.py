"""A cluster that never answers: no entry point waits for it, because none of them calls it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from django.test import Client

from pools.domain.changes.backends import PutBackend
from pools.models import Backend
from scheduling.services import notifications
from scheduling.services.kubernetes import connections
from scheduling.services.kubernetes.heartbeats import set_silent_offline
from tests.integration.kube.conftest import KUBECONFIG
from tests.support import world
from tests.support.world import apply_change, sign_in


class UnansweringCluster:
    """A connection that would hang for ever: every call is recorded and fails."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def call(*_: Any, **__: Any) -> Any:
            self.calls.append(verb)
            raise AssertionError(f"a request called the dead cluster: {verb}")

        return call


@pytest.fixture
def dead(ledger: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[UnansweringCluster]:
    """Backend `dead` with pool `theirs`, next to the simulated backend `sim` with pool `ours`. Notifications go to a
    worker that does not run."""
    cluster = UnansweringCluster()
    monkeypatch.setattr(connections, "connect", lambda _: cluster)
    monkeypatch.setattr(notifications, "_send", lambda *_, **__: None)
    monkeypatch.setattr(notifications, "_enqueue", lambda *_, **__: None)
    content = yaml.safe_dump(KUBECONFIG)
    apply_change(PutBackend(name="dead", body={"type": "kubernetes", "namespace": "t1", "kubeconfig": content}))
    world.make_pool("theirs", 10, on=Backend.objects.get(name="dead"), a=4)
    world.make_pool("ours", 10)
    set_silent_offline()
    yield cluster
    assert cluster.calls == []


@pytest.fixture
def web(dead: UnansweringCluster) -> Client:
    world.admin_actor()
    return sign_in("root-admin")


WORKFLOW_BODY = {"file": world.workflow_file(), "set_variables": [], "set_string_variables": []}
SUBPOOL_URL = "/api/configs/pool/theirs/subpool"


REQUESTS: list[tuple[str, str, dict[str, Any] | None]] = [
    ("GET", "/api/pool", None),
    ("GET", "/api/pool_quota", None),
    ("GET", "/api/resources?all_pools=true", None),
    ("GET", "/api/configs/backend", None),
    ("GET", "/api/configs/backend/dead", None),
    ("PUT", "/api/configs/backend/dead", {"description": "It is away."}),
    ("GET", "/api/backend/dead/sync", None),
    ("POST", "/api/backend/dead/sync", {}),
    ("POST", "/api/backend/dead/test", {}),
    ("GET", "/api/queue", None),
    ("GET", "/api/workflow", None),
    ("POST", "/api/pool/theirs/workflow", WORKFLOW_BODY),
    ("POST", "/api/pool/ours/workflow", WORKFLOW_BODY),
    ("POST", SUBPOOL_URL, {"subpool_name": "b", "quota": 2}),
    ("PATCH", f"{SUBPOOL_URL}/a", {"quota": 5}),
    ("DELETE", f"{SUBPOOL_URL}/a", None),
    ("GET", "/clusters", None),
    ("GET", "/clusters/dead", None),
    ("GET", "/pools/theirs", None),
    ("GET", "/health", None),
]


def test_no_request_calls_it(web: Client) -> None:
    for method, path, body in REQUESTS:
        content = b"" if body is None else json.dumps(body).encode()
        answer = web.generic(method, path, content, "application/json")
        assert answer.status_code < 400, (path, answer.content[:300])


def test_its_work_is_accepted_and_waits_and_can_be_cancelled(web: Client) -> None:
    name = web.post("/api/pool/theirs/workflow", WORKFLOW_BODY, "application/json").json()["name"]
    (entry,) = web.get("/api/queue").json()["entries"]
    assert (entry["workflow"], entry["reason"]["code"]) == (name, "backend_offline")
    assert web.post(f"/api/workflow/{name}/cancel", {}, "application/json").status_code == 200
    assert web.get(f"/api/workflow/{name}").json()["status"] == "FAILED_CANCELED"
