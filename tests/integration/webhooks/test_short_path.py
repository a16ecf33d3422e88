"""The short path of admission reviews gives the answers of the ordinary way, and leaves to it what it cannot answer."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from django.core.signals import request_started
from django.db import OperationalError, close_old_connections, connection
from django.test.client import ClientHandler
from django.test.utils import CaptureQueriesContext

from osmo_admin.web.review_path import ReviewPath
from pools.models import Backend
from scheduling.models import Bypass
from tests.integration.webhooks.conftest import marked, pod, pod_group, post, question

OWN = {"metadata": {"name": "p", "labels": {"kai.scheduler/queue": "default-queue"}}, "spec": {}}


class Ordinary:
    """Django's handler for tests, which keeps the connection of the test; it counts its requests."""

    def __init__(self) -> None:
        self.handler, self.calls = ClientHandler(enforce_csrf_checks=False), 0

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        self.calls += 1
        response: Any = self.handler(environ)
        start_response(f"{response.status_code} {response.reason_phrase}", list(response.items()))
        return [response.content]


@pytest.fixture(autouse=True)
def _keep_connection() -> Iterator[None]:
    """The connection of the test stays open, as Django's test client does it."""
    request_started.disconnect(close_old_connections)
    yield
    request_started.connect(close_old_connections)


def send(path: str, body: Any, **more: str) -> tuple[int, dict[str, str], Any, int]:
    """(status, headers, JSON of the answer, requests that went the ordinary way)."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "POST", "PATH_INFO": f"/webhooks/{path}", "QUERY_STRING": "", "SCRIPT_NAME": "",
        "SERVER_NAME": "127.0.0.1", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "127.0.0.1", "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(text)),
        "wsgi.input": io.BytesIO(text), "wsgi.url_scheme": "http", "wsgi.errors": io.StringIO(), **more,
    }  # fmt: skip
    ordinary, started = Ordinary(), []
    response: Any = ReviewPath(ordinary)(environ, lambda status, headers, _=None: started.append((status, headers)))
    [(status, headers)] = started
    return int(status[:3]), dict(headers), json.loads(b"".join(response)), ordinary.calls


def test_both_ways_give_the_same_answer(cluster: Backend) -> None:
    reviews = [
        (kind.lower() + marked("prod"), question(kind, item), is_allowed)
        for kind, item, is_allowed in (
            ("Pod", OWN, True),
            ("Pod", pod(), False),
            ("PodGroup", pod_group("default-queue"), True),
            ("PodGroup", pod_group("default-queue", minMember=-1), False),
            ("PodGroup", pod_group(minMember=1, minSubGroup=2), False),
        )
    ]
    answers = []
    for path, body, is_allowed in reviews:
        status, headers, answer, ordinary_calls = send(path, body)
        assert (status, ordinary_calls) == (200, 0)
        assert answer["response"]["allowed"] is is_allowed, body
        assert headers["Content-Type"] == "application/json"
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Request-ID"]
        answers.append(answer)
    assert Bypass.objects.get(kind="Pod").refused == 1
    assert [post(path, body).json() for path, body, _ in reviews] == answers


def test_an_allowed_pod_costs_one_statement(cluster: Backend) -> None:
    path = "pod" + marked("prod")
    with CaptureQueriesContext(connection) as captured:
        send(path, question("Pod", OWN))
    assert len(captured) == 1


def test_a_wrong_mark_is_answered_without_a_query_for_the_backend(cluster: Backend) -> None:
    status, _, answer, _ = send("pod/prod/guessed", question("Pod", pod()))
    assert (status, answer["response"]) == (200, {"uid": "0f1e2d3c", "allowed": True})
    assert not Bypass.objects.exists()


def test_everything_else_goes_the_ordinary_way(cluster: Backend) -> None:
    others: tuple[tuple[str, Any, dict[str, str], int], ...] = (
        ("pod", question("Pod", OWN), {}, 200),
        ("pod/prod", question("Pod", OWN), {}, 200),
        ("nothing/prod/mark", question("Pod", OWN), {}, 404),
        ("pod/prod/mark", b"{", {}, 400),
        ("pod/prod/mark", question("Node", OWN), {}, 400),
        ("pod/prod/mark", question("Pod", OWN), {"HTTP_CONTENT_ENCODING": "gzip"}, 415),
        ("pod/prod/mark", question("Pod", OWN), {"REQUEST_METHOD": "GET"}, 405),
        ("pod/prod/mark", question("Pod", OWN), {"CONTENT_LENGTH": str(10**12)}, 400),
    )
    for path, body, more, status in others:
        found, _, _, ordinary_calls = send(path, body, **more)
        assert (found, ordinary_calls) == (status, 1), (path, more)


def test_an_error_of_the_database_is_left_to_the_ordinary_way(
    cluster: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "pod" + marked("prod")

    def fail_once(*_: Any) -> None:
        monkeypatch.undo()
        raise OperationalError("the connection was lost")

    monkeypatch.setattr("scheduling.services.webhooks.marks._find_guard", fail_once)
    status, _, answer, ordinary_calls = send(path, question("Pod", OWN))
    assert (status, answer["response"]["allowed"], ordinary_calls) == (200, True, 1)
