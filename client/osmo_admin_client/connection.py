"""The login of the generated client, and refusals as exceptions.

The generated modules are `api` (one module for each operation), `models` (one class for each object) and `client`.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TypeVar

import httpx

from .client import AuthenticatedClient
from .models import Error

T = TypeVar("T")
LOGIN_PATH = "/api/auth/jwt/access_token"
RENEW_BEFORE = 30.0  # seconds before the end of a login


class Refused(Exception):
    """The server refused a request. `error` has its message, its code and the details."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.message)
        self.error = error


def connect(url: str, token: str, *, timeout: float = 60.0) -> AuthenticatedClient:
    """A client for the server at `url`, such as https://osmo.example.com, with an access token (`osmo token set`).

    `timeout` is in seconds. The login is made with the first request and renewed before it ends; a wrong token is an
    :class:`httpx.HTTPStatusError` of that request. The client closes its connections at the end of a `with` block.
    """
    url = url.rstrip("/")
    return AuthenticatedClient(
        base_url=url,
        token="",  # the header is set by the login
        timeout=httpx.Timeout(timeout),
        raise_on_unexpected_status=True,
        httpx_args={"auth": TokenLogin(url + LOGIN_PATH, token)},
    )


def checked(answer: Error | T | None) -> T:
    """The answer of an operation. Raises :class:`Refused` if the server refused the request."""
    if isinstance(answer, Error):
        raise Refused(answer)
    if answer is None:
        raise ValueError("This operation answers nothing; use sync_detailed() and its status.")
    return answer


@dataclass
class TokenLogin(httpx.Auth):
    """Exchange the access token for a login of a few minutes, as the command line does, and renew it in time."""

    url: str
    token: str = field(repr=False)
    _bearer: str = field(default="", init=False, repr=False)
    _ends: float = field(default=0.0, init=False, repr=False)

    requires_response_body = True

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if time.time() > self._ends - RENEW_BEFORE:
            answer = yield httpx.Request("POST", self.url, json={"token": self.token})
            answer.raise_for_status()
            login = answer.json()
            self._bearer, self._ends = login["token"], login["expires_at"]
        request.headers["Authorization"] = f"Bearer {self._bearer}"
        yield request
