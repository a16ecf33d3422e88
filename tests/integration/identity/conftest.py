"""Callers of the API, each with a session of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.test import Client

from pools.domain.changes.tokens import CreateToken
from pools.domain.changes.users import CreateUser
from pools.domain.people.roles import SYSTEM
from pools.models import AccessToken, User
from pools.security.tokens import issue_jwt
from pools.services.people.access_tokens import create_token
from pools.services.people.users import create_user


@dataclass
class ApiAnswer:
    """A response: its status, its JSON, its headers."""

    status: int
    body: Any
    headers: Any


@dataclass
class ApiCaller:
    """Somebody who calls the API. `token` is what the calls are made with; None: nobody in particular."""

    token: AccessToken | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> ApiAnswer:
        """One call; keyword arguments are headers (`if_match="*"`)."""
        sent = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if self.token is not None:
            sent = {"Authorization": f"Bearer {issue_jwt(self.token)[0]}", **sent}
        data = "" if body is None else json.dumps(body)
        response = Client().generic(method, path, data, content_type="application/json", headers=sent)
        is_json = (
            not response.streaming
            and response.content
            and response.headers["Content-Type"].startswith("application/json")
        )
        return ApiAnswer(response.status_code, response.json() if is_json else None, response.headers)


@pytest.fixture
def anonymous(db: None) -> ApiCaller:
    """Nobody."""
    return ApiCaller()


@pytest.fixture
def caller(db: None) -> Callable[..., ApiCaller]:
    """Makes a user with these roles (or takes the one there is) and calls as that user."""

    def make(username: str, *roles: str, token_roles: tuple[str, ...] | None = None) -> ApiCaller:
        user = User.objects.filter(username=username).first()
        if user is None:
            create_user(CreateUser(id=username, roles=roles), actor=SYSTEM)
        name = f"t{AccessToken.objects.count()}"
        return ApiCaller(create_token(CreateToken(owner=username, name=name, roles=token_roles), actor=SYSTEM)[0])

    return make


@pytest.fixture
def admin(caller: Callable[..., ApiCaller]) -> ApiCaller:
    """An osmo-admin called root."""
    return caller("root", "osmo-admin")
