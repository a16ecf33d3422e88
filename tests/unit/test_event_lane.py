"""A stream of events is made in the lane of streams from its first byte, however much it has to send."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from osmo_admin.serving.bodies import RequestBodies
from osmo_admin.serving.server import Server
from tests.support import coroutines
from tests.support.rsgi import Headers


class Granian:
    """The other side of the application: it takes what is sent."""

    def __init__(self) -> None:
        self.sent = b""

    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> Granian:
        """The begin of a stream."""
        assert status == 200
        return self

    async def send_bytes(self, data: bytes) -> None:
        """A part of it."""
        self.sent += data

    async def client_disconnect(self) -> None:
        """The client stays."""
        await asyncio.Event().wait()


def test_the_first_bytes_are_made_in_the_lane_of_streams() -> None:
    threads: list[str] = []

    def events() -> Iterator[bytes]:
        for number in range(3):
            threads.append(threading.current_thread().name)
            yield b"data: %d" % number

    class Response(SimpleNamespace):
        streaming, status_code, cookies = True, 200, SimpleNamespace(values=list)
        headers = {"Content-Type": "text/event-stream"}

        def __iter__(self) -> Iterator[bytes]:
            return events()

        def items(self) -> Any:
            return self.headers.items()

        def close(self) -> None:
            """Nothing to close."""

    async def serve() -> bytes:
        server = Server(lambda *_: Response(), threads=1, bodies=RequestBodies(seconds=1, limit=1, memory=1))
        server.__rsgi_init__(asyncio.get_running_loop())
        granian: Any = Granian()
        scope: Any = SimpleNamespace(
            path="/api/events", headers=Headers(), method="GET", query_string="", scheme="http", client="127.0.0.1:1",
            server="127.0.0.1:2", http_version="1.1", proto="http",
        )  # fmt: skip
        await server.__rsgi__(scope, granian)
        sent: bytes = granian.sent
        return sent

    assert coroutines.run(serve()) == b"data: 0data: 1data: 2"
    assert {name.partition("-")[0] for name in threads} == {"stream"}
