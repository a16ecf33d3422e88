"""Whatever anybody sends that the OpenAPI file allows, and much that it does not: never a 500, never a status or a body
that the file does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
import yaml
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
OPENAPI = Path(__file__).resolve().parents[2] / "docs" / "openapi.yaml"
AREAS = (
    "^/api/configs/pool", "^/api/configs/(?!pool)", "^/api/(?!configs/)[a-f]", "^/api/[g-o]", "^/api/[p-z]",
    "^(?!/api/[a-z])",
)  # fmt: skip
"""Each address is in one of them, and each of them is one test."""

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


def map_path_parameters(context: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Put a name that exists in place of a short one."""
    known = next((names for prefix, names in KNOWN if context.operation.path.startswith(prefix)), {})
    return path_parameters and {
        key: known[key] if key in known and len(str(value)) <= 3 else value for key, value in path_parameters.items()
    }


@pytest.fixture(params=AREAS)
def area(described: dict[str, Any], request: pytest.FixtureRequest) -> Any:
    """The operations of an area. They are read here and not where the tests are collected, in each process of a run."""
    paths = {path: of_path for path, of_path in described["paths"].items() if re.match(request.param, path)}
    schema = schemathesis.openapi.from_dict({**described, "paths": paths})
    schema.app = get_wsgi_application()
    schema.hook(map_path_parameters)
    # A wrong value for each key, one by one, is soon refused. The right ones at each boundary, and every other method,
    # are 5,000 requests that compute something; random bodies stand for them in the daily run.
    if not IS_NIGHTLY:
        schema.config.phases.coverage.unexpected_methods = set()
        schema.config.phases.coverage.generation = GenerationConfig(modes=[GenerationMode.NEGATIVE])
    request.node._nodeid = request.node.nodeid  # Schemathesis reads it there, where pytest 9.2 no longer has it
    return schema


@pytest.fixture(scope="module")
def described() -> Any:
    """The OpenAPI file."""
    return yaml.load(OPENAPI.read_text(), yaml.CSafeLoader)


class Installation:
    """Committed objects of every kind, and headers for users. It is made again before an operation that follows one
    which may have changed it."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self._headers: dict[str, dict[str, str]] = {}
        self._operation: Any = None
        self._tried: set[tuple[Any, ...]] = set()
        self._count = 0

    def judge(self, case: Any, username: str) -> None:
        """Send the request as this user; raises for an answer that the OpenAPI file does not describe."""
        if case.operation.label != self._operation:
            if not str(self._operation).startswith("GET "):
                self._renew()
            self._operation = case.operation.label
            self._tried.clear()
        if not IS_NIGHTLY and self._is_like_another(case):
            return
        headers = self._sign_in(username)
        response = case.call(headers=headers)
        # Without a worker the installation is not ready, which is a 503 that the file describes.
        checks = CHECKS if case.operation.path == "/ready" else [not_a_server_error, *CHECKS]
        case.validate_response(response, headers=headers, checks=checks)

    def _is_like_another(self, case: Any) -> bool:
        """Whether a value of a wrong type has been sent for the same key. The daily run sends one for each key, and
        some more, so that each type is among them."""
        wrong = case.meta.phase.data
        if getattr(wrong, "scenario", None) != "incorrect_type":
            return False
        before = len(self._tried)
        self._tried.add((wrong.parameter_location, wrong.parameter, wrong.location))
        self._count += 1
        return len(self._tried) == before and self._count % 7 > 0

    def _renew(self) -> None:
        """As at the beginning."""
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

    def _sign_in(self, username: str) -> dict[str, str]:
        """Headers of this user."""
        if username not in self._headers:
            token = world.apply_change(CreateToken(owner=username, name="fuzz"))[0]
            self._headers[username] = {"Authorization": f"Bearer {tokens.issue_jwt(token)[0]}"}
        return self._headers[username]


@pytest.fixture(scope="module")
def installation(template: Services, django_db_setup: None, django_db_blocker: Any) -> Iterator[Installation]:
    """Without the reset of the database after each operation, which most reads do not need."""
    # The client fires Django's request signals; their receiver would close the connection after every request.
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "JWT_LIFETIME", timedelta(hours=1))
        patch.setattr(events, "STREAM_SECONDS", 0.0)
        made = Installation(template.database_url(template.database_name("test")))
        yield made
        made.remove()
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


sample = hypothesis.settings(
    max_examples=SAMPLES,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
    derandomize=not IS_NIGHTLY,
)


operations = schemathesis.pytest.from_fixture("area")


@operations.parametrize()
@sample
def test_as_an_admin(case: Any, installation: Installation) -> None:
    installation.judge(case, "root")


@pytest.mark.nightly
@operations.parametrize()
@sample
def test_as_a_user(case: Any, installation: Installation) -> None:
    installation.judge(case, "bob")
