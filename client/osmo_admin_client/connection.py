"""The login of the generated client, and refusals as exceptions.

The generated modules are `api` (one module for each operation), `models` (one class for each object) and `client`.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx

from .client import AuthenticatedClient
from .models import Error

T = TypeVar("T")
LOGIN_PATH = "/api/auth/jwt/access_token"
RENEW_BEFORE = 30.0  # seconds before the end of a login


class Refused(Exception):
    """The server refused a request, or the access token. `error` has its message, its code and the details; `status` is
    the status of the answer (401: the token is wrong or has ended)."""

    def __init__(self, error: Error, status: int = 0) -> None:
        super().__init__(error.message)
        self.error = error
        self.status = status


class Unreachable(Exception):
    """There is no answer of OSMO Admin: no connection, no answer in time, or another server answered. Its cause is the
    error of httpx, if there is one. A change may have been made nevertheless."""


def connect(url: str, token: str, *, timeout: float = 60.0) -> AuthenticatedClient:
    """A client for the server at `url`, such as https://osmo.example.com, with an access token (`osmo token set`).

    `timeout` is in seconds. The login is made with the first request and renewed before it ends. Every request raises
    :class:`Refused` or :class:`Unreachable` and no error of httpx, so a wrong token is `Refused` by the first one. The
    client closes its connections at the end of a `with` block.
    """
    url = url.rstrip("/")
    client = AuthenticatedClient(base_url=url, token="", raise_on_unexpected_status=True)  # the login sets the header
    options: dict[str, Any] = {"base_url": url, "timeout": timeout, "auth": TokenLogin(url + LOGIN_PATH, token)}
    client.set_httpx_client(_Client(**options))
    return client.set_async_httpx_client(_AsyncClient(**options))


class _Client(httpx.Client):
    """Raises our own errors."""

    def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        with _own_errors(request):
            response = super().send(request, **options)
            if response.is_error:
                response.read()
        return _accepted(response)


class _AsyncClient(httpx.AsyncClient):
    """The same, for `asyncio`."""

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        with _own_errors(request):
            response = await super().send(request, **options)
            if response.is_error:
                await response.aread()
        return _accepted(response)


@contextmanager
def _own_errors(request: httpx.Request) -> Iterator[None]:
    """httpx's errors of a connection, an address or a body that cannot be decoded, as Unreachable."""
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        host = f"{request.url.scheme}://{request.url.netloc.decode()}"
        what = "did not answer in time" if isinstance(error, httpx.TimeoutException) else "cannot be reached"
        raise Unreachable(
            f"{host} {what} ({error or type(error).__name__}). Check the address and the network."
        ) from error


def _accepted(response: httpx.Response) -> httpx.Response:
    """The response, if it is an answer. Raises Refused, or Unreachable if the answer is not one of OSMO Admin."""
    is_page = response.headers.get("Content-Type", "").startswith("text/html")
    if response.is_success and not is_page:
        return response
    try:
        raise Refused(Error.from_dict(response.json()), response.status_code)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    host, status = f"{response.url.scheme}://{response.url.netloc.decode()}", response.status_code
    if response.is_client_error:
        message = f"{host} refused the request ({status} {response.reason_phrase})."
        raise Refused(Error(message, "USER", None, []), status)
    what = (
        f"sent you on to {response.headers.get('Location', 'another address')}" if response.is_redirect else "answered"
    )
    raise Unreachable(
        f"{host} {what} ({status}), but not as OSMO Admin does. Check the address, and the proxy before it."
    )


def checked(answer: Error | T | None) -> T:
    """The answer of an operation, without the type of its refusals, which are raised."""
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
            login = _accepted((yield httpx.Request("POST", self.url, json={"token": self.token}))).json()
            self._bearer, self._ends = login["token"], login["expires_at"]
        request.headers["Authorization"] = f"Bearer {self._bearer}"
        yield request
