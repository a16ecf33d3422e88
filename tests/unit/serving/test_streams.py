"""The server sends a stream until it ends or its client has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from osmo_admin.serving import server as serving
from osmo_admin.serving.bodies import RequestBodies
from osmo_admin.serving.server import Server
from tests.support import coroutines
from tests.support.rsgi import Headers


class _Scope:
    path, method, query_string, client, server = "/api/events", "GET", "", "127.0.0.1:1", "127.0.0.1:2"
    http_version, scheme = "1.1", "http"
    headers = Headers()


class _Response:
    """A stream; it is silent after its first chunk, for ever or until it has been asked `asks` times."""

    streaming, status_code, cookies = True, 200, dict[str, Any]()
    headers = {"Content-Type": "text/event-stream"}

    def __init__(self, asks: int | None = None) -> None:
        self.asks, self.is_closed = asks, False

    def __iter__(self) -> Iterator[bytes]:
        yield b"first"
        while self.asks is None or self.asks > 0:
            yield b""
            self.asks = None if self.asks is None else self.asks - 1
        yield b"last"

    def items(self) -> list[tuple[str, str]]:
        return []

    def close(self) -> None:
        self.is_closed = True


class _Client:
    """A client's connection; sends never fail, as those of a server that notices a closed connection late."""

    def __init__(self) -> None:
        self.sent, self.left = b"", asyncio.Event()

    async def client_disconnect(self) -> None:
        await self.left.wait()

    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> _Client:
        return self

    async def send_bytes(self, data: bytes) -> None:
        self.sent += data


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses."""
    monkeypatch.setattr(serving, "STREAM_PAUSE", 0.001)


async def _serve(response: _Response, client: _Client) -> None:
    bodies = RequestBodies(seconds=1, limit=1, memory=1)
    server = Server(lambda environ, start: response, threads=1, bodies=bodies)
    server.__rsgi_init__(asyncio.get_running_loop())
    proto: Any = client
    scope: Any = _Scope()
    await server.__rsgi__(scope, proto)
    while not response.is_closed:
        await asyncio.sleep(0.001)


def test_a_stream_is_sent_to_its_end() -> None:
    async def serve() -> bytes:
        client = _Client()
        await asyncio.wait_for(_serve(_Response(asks=3), client), 20)
        return client.sent

    assert coroutines.run(serve()) == b"firstlast"


def test_a_silent_stream_ends_when_its_client_has_gone() -> None:
    """Its place is free before it has anything to send."""

    async def serve() -> bytes:
        client, response = _Client(), _Response()
        serving_it = asyncio.create_task(_serve(response, client))
        while not client.sent:
            await asyncio.sleep(0.001)
        assert not response.is_closed
        client.left.set()
        await asyncio.wait_for(serving_it, 20)
        return client.sent

    assert coroutines.run(serve()) == b"first"
