"""Ports, secrets, log files, and the readiness request."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from osmo_admin.ops.files import keys, log_files
from osmo_admin.ops.files.data_directory import DataDirectory
from osmo_admin.ops.programs import ports, readiness
from osmo_admin.ops.programs.errors import OperationError


@pytest.fixture
def used_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_a_requested_port_in_use_is_an_error_with_a_remedy(used_port: int) -> None:
    with pytest.raises(OperationError, match=f"Port {used_port} on 127.0.0.1 is in use .* --port"):
        ports.choose_port("127.0.0.1", used_port)


def test_without_a_request_the_next_free_port_is_chosen(used_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "DEFAULT_PORT", used_port)
    chosen = ports.choose_port("127.0.0.1", None)
    assert used_port < chosen < used_port + 100


def test_when_no_port_is_free_the_range_is_named(used_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "DEFAULT_PORT", used_port)
    monkeypatch.setattr(ports, "_PORTS_TRIED", 1)
    with pytest.raises(OperationError, match=f"No port from {used_port} to {used_port}"):
        ports.choose_port("127.0.0.1", None)


def test_the_secret_key_is_created_once_and_private(tmp_path: Path) -> None:
    data = DataDirectory.open(tmp_path / "data")
    data.prepare()
    key = keys.load_secret_key(data)
    assert len(key) >= 50
    assert keys.load_secret_key(data) == key
    assert data.secrets.stat().st_mode & 0o077 == 0


def test_passwords_differ() -> None:
    assert len({keys.generate_password() for _ in range(50)}) == 50


def test_a_long_log_keeps_one_old_generation_while_its_writer_continues(tmp_path: Path) -> None:
    path = tmp_path / "web.log"
    with path.open("ab", buffering=0) as writer:
        writer.write(b"old\n" * 100)
        log_files.trim_logs(tmp_path, limit=100)
        writer.write(b"new\n")
    assert path.read_text() == "new\n"
    assert path.with_name("web.log.1").read_text() == "old\n" * 100


def test_a_short_log_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "web.log").write_text("x")
    log_files.trim_logs(tmp_path, limit=100)
    assert [path.name for path in tmp_path.iterdir()] == ["web.log"]


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("::1", "http://[::1]:80"),
        ("osmo.example", "http://osmo.example:80"),
    ],
)
def test_the_local_url_of_the_server(host: str, url: str) -> None:
    assert readiness.local_url(host, 80) == url


def test_a_missing_server_is_not_ready(used_port: int) -> None:
    answer = readiness.check_readiness(f"http://127.0.0.1:{_find_closed_port()}", timeout=1)
    assert (answer.is_ready, "does not answer" in answer.reason) == (False, True)


def _find_closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
