"""The client, run in this process against a stub of the server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from osmo_admin.cli.base import output
from osmo_admin.cli.client import app
from tests.unit.client.stub_server import StubHttpServer, StubServer, run_server


@pytest.fixture(scope="session")
def stub_http_server() -> Iterator[StubHttpServer]:
    with run_server() as running:
        yield running


@pytest.fixture
def stub(stub_http_server: StubHttpServer) -> StubServer:
    stub_http_server.stub = StubServer(url=f"http://127.0.0.1:{stub_http_server.server_address[1]}")
    return stub_http_server.stub


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty configuration directory, and no variable of the real environment."""
    folder = tmp_path / "config"
    for name in ("OSMO_URL", "OSMO_TOKEN", "OSMO_USERNAME", "OSMO_POOL", "OSMO_OUTPUT", "NO_COLOR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OSMO_CONFIG_FILE_DIR", str(folder))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    return folder


class ClientRunner:
    """The client in this process, logged in to the stub as developer alice."""

    def __init__(self, stub: StubServer) -> None:
        self.stub = stub

    def __call__(self, *words: str, env: dict[str, str] | None = None, input: str | None = None) -> Result:  # noqa: A002
        login = {"OSMO_URL": self.stub.url, "OSMO_USERNAME": "alice"}
        return self.bare(*words, env=login | (env or {}), input=input)

    def bare(self, *words: str, env: dict[str, str] | None = None, input: str | None = None) -> Result:  # noqa: A002
        return CliRunner().invoke(app, list(words), env=env or {}, input=input, prog_name="osmo")

    def ok(self, *words: str, **more: str) -> str:
        result = self(*words, **more)
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout


@pytest.fixture
def osmo(stub: StubServer, home: Path) -> ClientRunner:
    return ClientRunner(stub)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The streams of this process pass for a terminal."""
    monkeypatch.setattr(output, "_is_terminal", lambda stream: True)


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses between attempts are recorded and not slept."""
    pauses: list[float] = []
    for module in ("base.http", "commands.work.workflow_submit"):
        monkeypatch.setattr(f"osmo_admin.cli.{module}.pause", pauses.append)
    return pauses
