"""Each log line says which process wrote it and where, the line of a request its duration; commands print no log."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from django.test import Client

from osmo_admin.monitoring.logs import PROCESS_VARIABLE, formatter
from tests.support import database
from tests.support.services import Services
from tests.support.stack import SECRET_KEY
from tests.support.up import run_osmo_admin


def line_of(message: str) -> dict[str, Any]:
    record = logging.LogRecord("osmo_admin.test", logging.WARNING, __file__, 1, message, None, None)
    line: dict[str, Any] = json.loads(formatter("json").format(record))
    return line


@pytest.mark.parametrize("name", ["worker", None])
def test_a_line_has_the_process_and_its_place(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROCESS_VARIABLE, raising=False)
    if name:
        monkeypatch.setenv(PROCESS_VARIABLE, name)
    line = line_of("something happened")
    assert line["process"] == (name or "command")
    assert line["instance"] == f"{socket.gethostname()}/{os.getpid()}"


def test_the_line_of_a_request_has_its_duration(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    structlog.contextvars.clear_contextvars()  # a stream of another test leaves those of its request in this thread
    with caplog.at_level(logging.INFO, logger="django_structlog"):
        client.get("/health")
        client.get("/api/version")
    found = [record.msg for record in caplog.records if isinstance(record.msg, dict)]
    finished = [each for each in found if each["event"] == "request_finished"]
    assert finished
    assert all(0 <= each["duration_ms"] < 60_000 for each in finished)
    assert "duration_ms" not in structlog.contextvars.get_contextvars()


@pytest.mark.django_db
def test_a_line_hides_what_an_address_may_have_of_secrets(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    query = "env_vars=A%3DCanary7value&priority=LOW&code=Canary7value&env_vars=Canary7value;"
    with caplog.at_level(logging.INFO):
        client.post(f"/api/pool/x/workflow?{query}")
        client.get(f"/nowhere?{query}")
    lines = [formatter("json").format(record) for record in caplog.records]
    assert "env_vars=[hidden]&priority=LOW&code=[hidden]&env_vars=[hidden]" in "".join(lines)
    assert "Canary7value" not in "".join(lines)
    assert any('"request": "GET /nowhere?env_vars=[hidden]' in line for line in lines), "Django's own line"


@pytest.fixture
def env(template: Services) -> Iterator[dict[str, str]]:
    """The environment of commands on a database of their own, as its owner."""
    name = template.database_name("lines")
    database.copy_template(template, name)
    yield {
        "DATABASE_URL": template.database_url(name), "OSMO_SECRET_KEY": SECRET_KEY,
        "REDIS_URL": template.redis_url(stack=True), "OSMO_LOG_FORMAT": "json",
        "OSMO_ADMIN_PASSWORD": "only-for-tests-4711",
    }  # fmt: skip
    database.drop_database(template, name)


CONFIGURATION = "backends: {sim: {namespace: ns}}\npools: {team: {backend: sim, resources: {gpu: {guarantee: 32}}}}\n"


def check_lines(env: dict[str, str], *commands: list[str | Path]) -> None:
    """Each of these commands succeeds and prints no line of a log."""
    for arguments in commands:
        answer = run_osmo_admin(*arguments, env=env)
        assert answer.returncode == 0, answer.stderr
        lines = [*answer.stdout.splitlines(), *answer.stderr.splitlines()]
        assert not [line for line in lines if line.startswith("{") and json.loads(line).get("level")], arguments


def test_a_command_prints_no_log_between_its_lines(env: dict[str, str], tmp_path: Path) -> None:
    """What `apply` changes is sent to the worker, which is a line of the log."""
    (tmp_path / "all.yaml").write_text(CONFIGURATION)
    check_lines(env, ["serve", "prepare"], ["apply", "-f", tmp_path], ["token", "create", "admin", "t"], ["verify"])


@pytest.mark.nightly
def test_the_demo_prints_no_log_between_its_lines(env: dict[str, str]) -> None:
    """Its data: tests/integration/test_demo.py."""
    check_lines(env, ["serve", "prepare"], ["demo"], ["verify"])
