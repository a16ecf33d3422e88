"""Callers of the API, and a small installation: backend `sim` (namespace `ns`, 4 nodes of 32 GPUs)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.tokens import CreateToken
from pools.domain.changes.users import CreateUser
from pools.domain.people.roles import SYSTEM, Actor
from pools.models import AccessToken, User
from pools.security.tokens import issue_jwt
from pools.services.configuration.backends import put_backend
from pools.services.people.access_tokens import create_token
from pools.services.people.users import create_user


@dataclass
class ApiAnswer:
    """A response: its status, its JSON, its headers."""

    status: int
    body: Any
    headers: Any

    @property
    def codes(self) -> set[tuple[str, str]]:
        """(path, code) of every fault."""
        return {(fault["path"], fault["code"]) for fault in self.body["details"]}


@dataclass
class ApiCaller:
    """A user who calls the API with a JWT, as the stock client does."""

    token: AccessToken
    sent: list[str] = field(default_factory=list)

    @property
    def actor(self) -> Actor:
        """The user as an actor of the services."""
        return self.token.owner.as_actor()

    def __call__(self, method: str, path: str, body: Any = None, *, query: Any = (), **headers: str) -> ApiAnswer:
        """One call; keyword arguments are headers (`if_match="*"`)."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent["Authorization"] = f"Bearer {issue_jwt(self.token)[0]}"
        address = f"{path}?{urlencode(query, doseq=True)}" if query else path
        data = "" if body is None else json.dumps(body)
        response = Client().generic(method, address, data, content_type="application/json", headers=sent)
        return ApiAnswer(response.status_code, response.json(), response.headers)


@pytest.fixture
def caller(db: None) -> Callable[..., ApiCaller]:
    """A function that creates a user with these roles."""

    def make(username: str, *roles: str) -> ApiCaller:
        user = User.objects.filter(username=username).first()
        if user is None:
            create_user(CreateUser(id=username, roles=roles), actor=SYSTEM)
        return ApiCaller(
            create_token(CreateToken(owner=username, name=f"t{AccessToken.objects.count()}"), actor=SYSTEM)[0]
        )

    return make


@pytest.fixture
def admin(caller: Callable[..., ApiCaller]) -> ApiCaller:
    """An osmo-admin."""
    return caller("root", "osmo-admin")


@pytest.fixture
def viewer(caller: Callable[..., ApiCaller]) -> ApiCaller:
    """Reads all, changes nothing."""
    return caller("vera", "osmo-viewer")


@pytest.fixture
def nobody(caller: Callable[..., ApiCaller]) -> ApiCaller:
    """Signed in, without a role."""
    return caller("nils")


@pytest.fixture
def sim(db: None) -> str:
    """A simulated backend of 4 nodes of 32 GPUs; work ends only by a report."""
    nodes = [{"name": f"n{number}", "gpus": 32} for number in range(1, 5)]
    put_backend(PutBackend(name="sim", body={"namespace": "ns", "nodes": nodes, "auto_end": False}), actor=SYSTEM)
    return "sim"


def pool_config(guarantee: int, maximum: int = -1, weight: int = 1, **more: Any) -> dict[str, Any]:
    """A pool's configuration on `sim`."""
    shares = {"guarantee": guarantee, "maximum": maximum, "weight": weight}
    return {"backend": "sim", "resources": {"gpu": shares}, **more}


@pytest.fixture
def team(sim: str, admin: ApiCaller) -> str:
    """Pool `team` with 100 GPUs."""
    assert admin("PUT", "/api/configs/pool/team", {"configs": pool_config(100)}).status == 200
    return "team"
