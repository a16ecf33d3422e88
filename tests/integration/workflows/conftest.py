"""A small installation with users, and their API clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client

from pools.models import User
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.support import factories

Json = Any


class Caller:
    """One user of the API. Answers are parsed; `status` is that of the last answer."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.actor = user.as_actor()
        self._client = Client()
        self._client.force_login(user, "django.contrib.auth.backends.ModelBackend")
        self.last: HttpResponse = HttpResponse()

    @property
    def status(self) -> int:
        """HTTP status of the last answer."""
        return self.last.status_code

    def get(self, path: str, **query: Any) -> Json:
        """GET with a query; lists repeat their key."""
        return self._parse(self._client.get(path, query))

    def post(self, path: str, body: Any = None, *, query: str = "", **headers: str) -> Json:
        """POST with a JSON body, or without one."""
        content = "" if body is None else json.dumps(body)
        address = f"{path}?{query}" if query else path
        return self._parse(self._client.post(address, content, content_type="application/json", headers=headers))

    def submit(self, pool: str, file: str, *, query: str = "", **headers: str) -> Json:
        """Submit a file as the stock client does."""
        body = {"file": file, "set_variables": [], "set_string_variables": [], "uploaded_templated_spec": None}
        return self.post(f"/api/pool/{pool}/workflow", body, query=query, **headers)

    def _parse(self, response: Any) -> Json:
        self.last = response
        kind = response.headers.get("Content-Type", "")
        return response.json() if kind.startswith("application/json") else response.getvalue().decode()


@pytest.fixture
def caller(db: None) -> Callable[..., Caller]:
    """Creates (or finds) a user with roles and returns their client."""

    def make(name: str, *roles: str) -> Caller:
        user = User.objects.filter(username=name).first()
        if user is None:
            user = User.objects.get(username=factories.make_user(name, *roles).username)
        return Caller(user)

    return make


@pytest.fixture
def admin(caller: Callable[..., Caller]) -> Caller:
    """A platform admin."""
    return caller("root", "osmo-admin")


@pytest.fixture
def team(db: None) -> Any:
    """Pool `team` of 100 GPUs on a simulated backend of 4 × 32, nothing ends by itself; subpool `a` has 30."""
    return factories.make_pool("team", 100, a=30)


@pytest.fixture
def alice(team: Any, caller: Callable[..., Caller]) -> Caller:
    """Submits to `team`."""
    return caller("alice", "osmo-team-user")


@pytest.fixture
def reconcile_pool(team: Any) -> Callable[[], list[dict[str, Any]]]:
    """Runs scheduling and returns its steps."""

    def run() -> list[dict[str, Any]]:
        answer = reconcile_backend(team.backend_id)
        assert answer["settled"]
        steps: list[dict[str, Any]] = answer["steps"]
        return steps

    return run


@pytest.fixture
def other_connection(db: None) -> Iterator[psycopg.Connection[Any]]:
    """A second connection to the database of the test."""
    with psycopg.connect(**connection.get_connection_params() | {"cursor_factory": psycopg.Cursor}) as other:
        yield other
