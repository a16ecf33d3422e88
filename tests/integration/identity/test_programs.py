"""A request of a program is answered as one that passes every middleware."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import prometheus_client
import pytest
from django.conf import settings
from django.contrib.auth import middleware as logins
from django.contrib.messages import middleware as messages
from django.contrib.sessions import middleware as sessions
from django.db import transaction
from django.http import HttpRequest
from django.test import Client
from django.utils.module_loading import import_string

from osmo_admin.web import programs
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.models import AccessToken, AuditEntry
from pools.security.tokens import issue_jwt
from scheduling.api.work.workflows import WorkflowList
from tests.support import world
from tests.support.api_client import ApiClient
from tests.support.world import ModuleData

WORKERS = "/api/gpu_quota/ns/allocation"
WORKER = {"id": "w", "workload": "x", "request": {"tflops": "10", "vram": "1Gi"}, "count": 1}
ADMIN, NOBODY_S, REVOKED, NONE = "admin", "user without a role", "revoked token", "no token"
ID = "one-id.7"
FOREIGN_HOST = "a host of somebody else"

# method, path, body, headers, caller
REQUESTS: dict[str, tuple[str, str, str, dict[str, str], str]] = {
    "a read without the database": ("GET", "/api/version", "", {}, ADMIN),
    "a read": ("GET", "/api/profile/settings", "", {}, ADMIN),
    "a list": ("GET", "/api/workflow?all_pools=True&limit=5", "", {}, ADMIN),
    "HEAD": ("HEAD", "/api/workflow?all_pools=True", "", {}, ADMIN),
    "OPTIONS": ("OPTIONS", WORKERS, "", {}, ADMIN),
    "another method": ("PATCH", WORKERS, "{}", {}, ADMIN),
    "an address that does not exist": ("GET", "/api/nothing/here", "", {}, ADMIN),
    "a write": ("POST", WORKERS, json.dumps(WORKER), {}, ADMIN),
    "a write with a key": ("POST", WORKERS, json.dumps(WORKER), {"Idempotency-Key": "k"}, ADMIN),
    "a dry run": ("POST", f"{WORKERS}?dry_run=True", json.dumps(WORKER), {}, ADMIN),
    "a release": ("DELETE", f"{WORKERS}/known", "", {}, ADMIN),
    "an unknown worker": ("DELETE", f"{WORKERS}/unknown", "", {}, ADMIN),
    "over the limit": ("POST", WORKERS, json.dumps(WORKER | {"count": 900}), {}, ADMIN),
    "bad JSON": ("POST", WORKERS, '{"id": ', {}, ADMIN),
    "a duplicate key": ("POST", WORKERS, '{"id": "a", "id": "b"}', {}, ADMIN),
    "another content type": ("POST", WORKERS, json.dumps(WORKER), {"Content-Type": "text/plain"}, ADMIN),
    "a compressed body": ("POST", WORKERS, json.dumps(WORKER), {"Content-Encoding": "gzip"}, ADMIN),
    "a namespace without a quota": ("POST", WORKERS.replace("ns", "other"), json.dumps(WORKER), {}, ADMIN),
    "a namespace that cannot be": ("POST", WORKERS.replace("ns", "No_such"), json.dumps(WORKER), {}, ADMIN),
    "NUL in the address": ("GET", "/api/pool?name=a%00b", "", {}, ADMIN),
    "too many parameters": ("GET", "/api/workflow?" + "&".join(["a=1"] * 1100), "", {}, ADMIN),
    FOREIGN_HOST: ("GET", "/api/version", "", {"Host": "evil.example"}, ADMIN),
    "a header of a browser": ("GET", "/api/version", "", {"Accept": "text/html", "Accept-Encoding": "gzip"}, ADMIN),
    "two slashes": ("GET", "//api/version", "", {}, ADMIN),
    "an old client": ("GET", "/api/version", "", {"x-osmo-client-version": "5.0.0"}, ADMIN),
    "over TLS": ("GET", "/api/version", "", {"X-Forwarded-Proto": "https"}, ADMIN),
    "a wrong role": ("POST", WORKERS, json.dumps(WORKER), {}, NOBODY_S),
    "a revoked token": ("GET", "/api/profile/settings", "", {}, REVOKED),
    "a revoked token, write": ("POST", WORKERS, json.dumps(WORKER), {}, REVOKED),
    "a token that is none": ("GET", "/api/profile/settings", "", {"Authorization": "Bearer x.y.z"}, NONE),
}


@pytest.fixture(scope="module")
def tokens_once(admin_once: ApiClient, module_data: ModuleData) -> dict[str, str]:
    with module_data():
        world.make_pool("team")
        world.apply_change(PutGpuQuota(namespace="ns", spec={"total": {"requests": {"tflops": "100"}}}))
        assert admin_once("POST", WORKERS, WORKER | {"id": "known"}).status == 200
        world.make_user("nobody")
        found = {ADMIN: admin_once.token, NOBODY_S: world.call_as("nobody").token, REVOKED: world.call_as("root").token}
        encoded = {name: issue_jwt(token)[0] for name, token in found.items() if token is not None}
        AccessToken.objects.filter(pk=found[REVOKED].pk).delete()  # type: ignore[union-attr]
    return encoded


@pytest.fixture
def tokens(tokens_once: dict[str, str], db: None, settings: Any) -> dict[str, str]:
    """The JWT of each caller. A proxy may say that a request came over TLS."""
    settings.SECURE_PROXY_SSL_HEADER, settings.SECURE_HSTS_SECONDS = ("HTTP_X_FORWARDED_PROTO", "https"), 600
    return tokens_once


@pytest.mark.parametrize("case", REQUESTS)
def test_both_lists_of_middlewares_answer_the_same(
    case: str, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    method, path, body, headers, caller = REQUESTS[case]
    sent = {"X-Request-ID": ID, **headers}
    if caller in tokens:
        sent["Authorization"] = f"Bearer {tokens[caller]}"

    counted = [_samples()]

    def send() -> dict[str, Any]:
        caplog.clear()
        entries = set(AuditEntry.objects.values_list("pk", flat=True))
        with _rolled_back():
            response = Client(raise_request_exception=False).generic(
                method, path.removeprefix("/") if path.startswith("//") else path, body,
                content_type=headers.get("Content-Type", "application/json"), headers=sent,
                **({"PATH_INFO": path} if path.startswith("//") else {}),
            )  # fmt: skip
            audited = AuditEntry.objects.exclude(pk__in=entries).order_by("pk")
            counted.append(_samples())
            return {
                "status": response.status_code,
                "headers": {name: _masked(value) for name, value in response.items()},
                "cookies": dict(response.cookies),
                "body": _masked(response.content.decode()),
                "log": [_log_line(record) for record in caplog.records],
                "audit": list(audited.values_list("request_id", "actor", "action", "object")),
                "metrics": _difference(*counted[-2:]),
            }

    with caplog.at_level("INFO"):
        taken = _watch_paths(monkeypatch)
        short = send()
        assert taken == [True], "it was not the request of a program"
        monkeypatch.setattr(programs, "is_program_request", lambda request: False)
        long = send()
    assert short["headers"]["X-Frame-Options"] == "DENY"
    if case != FOREIGN_HOST:  # refused before the middleware that takes over the id
        assert short["headers"]["X-Request-ID"] == ID
    assert short == long
    assert short["log"], "there is a line for each request"
    assert short["metrics"]


def test_requests_of_programs_are_told_from_those_of_browsers() -> None:
    def takes(path: str, **variables: str) -> bool:
        request = HttpRequest()
        request.path_info, request.META = path, {"HTTP_AUTHORIZATION": "Bearer x", **variables}
        return programs.is_program_request(request)

    assert takes("/api/version")
    assert takes("/api/version", HTTP_AUTHORIZATION="bearer x")
    for path in ("/", "/metrics", "/health", "/pools", "/api/docs", "/api/schema", "/api/auth/login"):
        assert not takes(path), path
    assert not takes("/api/version", HTTP_COOKIE="sessionid=1")
    assert not takes("/api/version", HTTP_AUTHORIZATION="Basic x")
    assert not takes("/api/version", HTTP_AUTHORIZATION="")


def test_programs_skip_what_only_browsers_have() -> None:
    """Every other middleware answers both: hosts, headers, limits, snapshot, ids, log lines, metrics."""
    skips = [name for name in settings.MIDDLEWARE if issubclass(import_string(name), programs.SkippedByPrograms)]
    assert skips == settings.SKIPPED_BY_PROGRAMS
    browsers_own = [sessions.SessionMiddleware, logins.AuthenticationMiddleware, messages.MessageMiddleware]
    assert [import_string(name).__mro__[2] for name in skips] == browsers_own


def test_an_error_of_ours_is_reported_by_both_lists(
    tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(WorkflowList, "get", fail)
    answers = []
    for is_short in (True, False):
        if not is_short:
            monkeypatch.setattr(programs, "is_program_request", lambda request: False)
        caplog.clear()
        headers = {"Authorization": f"Bearer {tokens[ADMIN]}", "X-Request-ID": ID}
        response = Client(raise_request_exception=False).get("/api/workflow", headers=headers)
        failures = [record for record in caplog.records if isinstance(record.msg, dict)]
        answers.append((response.status_code, response.json(), dict(response.items()), len(failures)))
    assert answers[0] == answers[1]
    assert answers[0][0] == 500
    assert ID in answers[0][1]["message"]


def _watch_paths(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each request from now on is a program's."""
    taken: list[bool] = []
    decide = programs.is_program_request

    def watched(request: HttpRequest) -> bool:
        taken.append(decide(request))
        return taken[-1]

    monkeypatch.setattr(programs, "is_program_request", watched)
    return taken


@contextmanager
def _rolled_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def _masked(text: str) -> str:
    """Without times, which differ between two requests."""
    return re.sub(r"\d{4}-\d\d-\d\d[T ][\d:.]+", "TIME", text)


def _log_line(record: Any) -> Any:
    if isinstance(record.msg, dict):
        named = {name: value for name, value in record.msg.items() if name not in {"timestamp", "duration_ms"}}
        return record.levelname, named | {"has_duration": "duration_ms" in record.msg}
    return record.levelname, record.getMessage()


def _samples() -> dict[Any, float]:
    """All counters of requests; no sums of seconds."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for metric in prometheus_client.REGISTRY.collect()
        if metric.name.startswith("django_http")
        for sample in metric.samples
        if not sample.name.endswith(("_sum", "_created", "seconds_bucket", "by_view_method_bucket"))
    }


def _difference(before: dict[Any, float], after: dict[Any, float]) -> dict[Any, float]:
    return {key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)}
