"""Whatever anybody sends that the OpenAPI file allows, and much that it does not: never a 500, never a status or a body
that the file does not know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import GenerationConfig
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from pools.api import events
from pools.domain.changes.gpu_allocations import AllocateWorker
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.changes.tokens import CreateToken
from pools.models import User
from pools.security import tokens
from scheduling.services.seed import seed_defaults
from tests.support import database, world
from tests.support.services import Services

CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    allow_header_conformance,
]
IS_NIGHTLY = hypothesis.settings.get_current_profile_name() == "nightly"
SAMPLES = 150 if IS_NIGHTLY else 4
schema = schemathesis.openapi.from_path(Path(__file__).resolve().parents[2] / "docs" / "openapi.yaml")
schema.app = get_wsgi_application()
# A wrong value for each key, one by one, is soon refused. The right ones at each boundary, and every other method, are
# 5,000 requests that compute something; random bodies stand for them in the daily run.
if not IS_NIGHTLY:
    schema.config.phases.coverage.unexpected_methods = set()
    schema.config.phases.coverage.generation = GenerationConfig(modes=[GenerationMode.NEGATIVE])

# Random names hit nothing. Short ones (the first that are tried) stand for what is there.
KNOWN = (
    ("/api/configs/pool/", {"name": "team", "parent": "team", "subpool": "a", "platform": "default"}),
    ("/api/configs/backend/", {"name": "sim"}),
    ("/api/configs/history/", {"config_type": "pool"}),
    ("/api/backend/", {"backend": "sim"}),
    ("/api/auth/", {"user": "bob", "name": "ci", "role": "osmo-team-user"}),
    ("/api/pool/", {"pool": "team--a", "workflow": "job-1"}),
    ("/api/resources/", {"name": "sim-n1"}),
    ("/api/workflow/", {"name": "job-1"}),
    ("/api/configs/gpu_quota/", {"namespace": "team-a"}),
    ("/api/gpu_quota/", {"namespace": "team-a", "name": "w1"}),
)


@schema.hook
def map_path_parameters(context: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Put a name that exists in place of a short one."""
    known = next((names for prefix, names in KNOWN if context.operation.path.startswith(prefix)), {})
    return path_parameters and {
        key: known[key] if key in known and len(str(value)) <= 3 else value for key, value in path_parameters.items()
    }


class Installation:
    """Committed objects of every kind, and headers for users. It is made again before an operation that follows one
    which may have changed it."""

    is_fresh = False

    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self._headers: dict[str, dict[str, str]] = {}

    def renew(self) -> None:
        """As at the beginning."""
        if self.is_fresh:
            return
        self.remove()
        seed_defaults()
        world.make_pool("team", 100, a=30, b=20)
        world.make_user("root", "osmo-admin")
        world.make_user("bob", "osmo-team-user")
        world.apply_change(CreateToken(owner="bob", name="ci"))
        world.apply_change(PutGpuQuota(namespace="team-a", spec={"total": {"maxWorkers": 2}}))
        world.apply_change(AllocateWorker(namespace="team-a", id="w1"))
        for leaf in ("team", "team--a"):
            world.submit_workflow(User.objects.get(username="bob").as_actor(), leaf)

    def remove(self) -> None:
        """No objects."""
        self._headers.clear()
        database.restore_pristine(self._url)

    def sign_in(self, username: str) -> dict[str, str]:
        """Headers of this user."""
        if username not in self._headers:
            token = world.apply_change(CreateToken(owner=username, name="fuzz"))[0]
            self._headers[username] = {"Authorization": f"Bearer {tokens.issue_jwt(token)[0]}"}
        return self._headers[username]


@pytest.fixture(scope="module")
def installation(template: Services, django_db_setup: None, django_db_blocker: Any) -> Iterator[Installation]:
    """Without the reset of the database after each test, which most reads do not need."""
    # The client fires Django's request signals; their receiver would close the connection after every request.
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    with django_db_blocker.unblock():
        made = Installation(template.database_url(template.database_name("test")))
        yield made
        made.remove()
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def sign_in(
    installation: Installation, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], dict[str, str]]:
    """An installation as at the beginning, and headers for its users."""
    monkeypatch.setattr(tokens, "JWT_LIFETIME", timedelta(hours=1))
    monkeypatch.setattr(events, "STREAM_SECONDS", 0.0)
    installation.renew()
    installation.is_fresh = "[GET " in request.node.name
    return installation.sign_in


def _judge(case: Any, headers: dict[str, str]) -> None:
    response = case.call(headers=headers)
    # Without a worker the installation is not ready, which is a 503 that the file describes.
    checks = CHECKS if case.operation.path == "/ready" else [not_a_server_error, *CHECKS]
    case.validate_response(response, headers=headers, checks=checks)


sample = hypothesis.settings(
    max_examples=SAMPLES,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
    derandomize=not IS_NIGHTLY,
)


@schema.parametrize()
@sample
def test_as_an_admin(case: Any, sign_in: Callable[[str], dict[str, str]]) -> None:
    _judge(case, sign_in("root"))


# Their requests are made when they are collected, which takes seconds in each process of a daily run.
if IS_NIGHTLY:

    @pytest.mark.nightly
    @schema.parametrize()
    @sample
    def test_as_a_user(case: Any, sign_in: Callable[[str], dict[str, str]]) -> None:
        _judge(case, sign_in("bob"))
