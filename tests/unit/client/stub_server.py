"""A stub of the OSMO server: it returns the replies of a test and records the requests."""

from __future__ import annotations

import base64
import functools
import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.product_source import described_addresses


@dataclass(frozen=True)
class ReceivedRequest:
    """A received request; `body` is the parsed JSON, None without one."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class StubReply:
    """A reply of the server; `drop` closes the connection instead."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    text: str | None = None
    drop: bool = False


@dataclass
class StubServer:
    """An OSMO server on loopback. Unexpected requests are answered with 500, so that a test notices."""

    url: str = ""
    requests: list[ReceivedRequest] = field(default_factory=list)
    replies: dict[tuple[str, str], list[StubReply]] = field(default_factory=dict)

    def on(self, method: str, path: str, *replies: Any) -> None:
        """The answers for one address, in order; the last one is repeated. A value that is not a `StubReply` is its
        JSON."""
        self.replies[method, path] = [reply if isinstance(reply, StubReply) else StubReply(reply) for reply in replies]

    def answer(self, request: ReceivedRequest) -> StubReply:
        self.requests.append(request)
        if unknown := _unknown_parameters(request):
            return StubReply({"message": f"{request.method} {request.path} has no {', '.join(unknown)}"}, status=500)
        replies = self.replies.get((request.method, request.path))
        if not replies:
            return StubReply({"message": f"not expected: {request.method} {request.path}"}, status=500)
        return replies.pop(0) if len(replies) > 1 else replies[0]

    def last_of(self, path: str) -> ReceivedRequest:
        """The last request of one address."""
        return [each for each in self.requests if each.path == path][-1]

    @property
    def last(self) -> ReceivedRequest:
        return self.requests[-1]


@functools.cache
def _operations() -> list[tuple[re.Pattern[str], dict[str, set[str]]]]:
    """The parameters of each method of each address, from the OpenAPI file."""
    return [
        (
            re.compile(re.sub(r"{\w+}", "[^/]+", path)),
            {method.upper(): {each["name"] for each in found.get("parameters", ())} for method, found in item.items()},
        )
        for path, item in described_addresses().items()
    ]


def _unknown_parameters(request: ReceivedRequest) -> set[str]:
    """The parameters that the server does not know."""
    for address, methods in _operations():
        if request.query and request.method in methods and address.fullmatch(request.path):
            return set(request.query) - methods[request.method]
    return set()


class StubHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_any(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        reply = self.server.stub.answer(  # type: ignore[attr-defined]
            ReceivedRequest(
                self.command,
                parts.path,
                parse_qs(parts.query, keep_blank_values=True),
                {key.lower(): value for key, value in self.headers.items()},
                json.loads(raw) if raw else None,
            )
        )
        if reply.drop:
            self.close_connection = True
            return
        content = (json.dumps(reply.body) if reply.text is None else reply.text).encode()
        self.send_response(reply.status)
        for key, value in reply.headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

    def log_message(self, *arguments: Any) -> None:
        """Requests are recorded, not printed."""


def make_jwt(**claims: Any) -> str:
    """A token in the format of a JWT; its signature is not checked here."""
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2ln"


class StubHttpServer(ThreadingHTTPServer):
    """Some tests close the connection of the client; the server does not report this as an error."""

    daemon_threads = True
    stub: StubServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def run_server() -> Iterator[StubHttpServer]:
    """A server on a free port of loopback, until the block ends; `stub` answers its requests."""
    server = StubHttpServer(("127.0.0.1", 0), StubHandler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
