"""Addresses that a server refuses before it reads anything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from osmo_admin.serving.bodies import RequestBodies
from osmo_admin.serving.server import Server
from tests.support import coroutines
from tests.support.rsgi import Headers


class Granian:
    """The other side of the application: it records the statuses of answers."""

    def __init__(self) -> None:
        self.statuses: list[int] = []

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """An answer."""
        self.statuses.append(status)


def ask(path: str, **paths: tuple[str, ...]) -> list[int]:
    """The status that a server with these paths answers to a request with an endless body; 413: it would be read."""
    server = Server(lambda *_: None, threads=1, bodies=RequestBodies(seconds=1, limit=1, memory=1), **paths)  # type: ignore[arg-type]
    granian = Granian()
    scope: Any = SimpleNamespace(path=path, headers=Headers({"content-length": "1000"}))
    proto: Any = granian
    coroutines.run(server.__rsgi__(scope, proto))
    return granian.statuses


@pytest.mark.parametrize("path", ["/webhooks/pod", "//webhooks/pod", "///webhooks/gpu_quota/x"])
def test_webhooks_can_be_closed(path: str) -> None:
    assert ask(path, closed_paths=("/webhooks/",)) == [404]
    assert ask(path) == [413]


@pytest.mark.parametrize("path", ["/login/", "/", "/api/version", "/webhooks"])
def test_the_webhook_server_has_nothing_else(path: str) -> None:
    assert ask(path, only_paths=("/webhooks/", "/health")) == [404]
