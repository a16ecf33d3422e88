"""`osmo mcp --listen`: the tools of agents over HTTP, each request with the access token of its caller.

The process has no login of its own and stores nothing. It is in front of the API like any client, so roles, limits and
audit are those of the caller. It passes on the address of the caller, which a server believes that knows the process.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio.to_thread
import uvicorn
from mcp.server.mcpserver import Context
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.http import HttpClient
from osmo_admin.cli.mcp_server import build_server

PATH = "/mcp"
MAX_CALLERS = 256
"""Connections that are kept. A caller beyond that number logs in again with the next request."""
NO_TOKEN = "Send an access token (osmo token set) as the header Authorization: Bearer TOKEN."  # noqa: S105


class Callers:
    """The connection of each access token at each address. `connect` logs in; its ClientError is the refusal of the
    server."""

    def __init__(self, connect: Callable[[str, str | None], HttpClient]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._known: OrderedDict[str, HttpClient] = OrderedDict()

    def of(self, headers: Mapping[str, str], address: str | None) -> HttpClient:
        """The connection for a request with these headers from this address. Raises :class:`ClientError`."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise ClientError(NO_TOKEN, status=401)
        key = hashlib.sha256(f"{address} {token.strip()}".encode()).hexdigest()
        with self._lock:
            if (http := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return http
        http = self._connect(token.strip(), address)  # not under the lock: this asks the server
        with self._lock:
            self._known[key] = http
            if len(self._known) > MAX_CALLERS:
                self._known.popitem(last=False)
        return http


class LoginRequired:
    """Answer 401 to a request without a valid access token, before the protocol reads it."""

    def __init__(self, app: ASGIApp, callers: Callers) -> None:
        self._app, self._callers = app, callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                await anyio.to_thread.run_sync(self._callers.of, Headers(scope=scope), _peer(scope))
            except ClientError as refusal:
                refused = refusal.status is not None and refusal.status < 500
                answer = JSONResponse(
                    {"message": str(refusal)},
                    status_code=401 if refused else 503,
                    headers={"WWW-Authenticate": "Bearer"} if refused else None,
                )
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _peer(scope: Scope) -> str | None:
    client = scope.get("client")
    return client[0] if client else None


def serve(connect: Callable[[str, str | None], HttpClient], host: str, port: int, *, proxies: Sequence[str]) -> None:
    """Serve until a signal requests the stop. Requests share nothing but the connections of their callers. `proxies`
    are the addresses and networks whose `X-Forwarded-For` is believed."""
    callers = Callers(connect)

    def caller_of(context: Context[Any, Any]) -> HttpClient:
        request = context.request_context.request
        return callers.of(context.headers or {}, request.client.host if request and request.client else None)

    app = build_server(caller_of).streamable_http_app(
        streamable_http_path=PATH, json_response=True, stateless_http=True, host=host
    )
    uvicorn.run(
        LoginRequired(app, callers),
        host=host,
        port=port,
        log_level="warning",
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
    )
