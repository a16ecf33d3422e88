"""The server of the database: poolers, several hosts, a standby, and versions (docs/database.md)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured

from osmo_admin.processes import database_server
from osmo_admin.processes.database_server import refuse_unfit_server
from osmo_admin.settings import database_settings
from tests.support.plain_servers import PgBouncer, PlainPostgres
from tests.support.stack import SECRET_KEY, find_free_port
from tests.support.up import run_osmo_admin, run_preloaded

TRANSACTION = "gives each transaction another session"
OPTIONS = "refuses the parameter `options`"
IGNORED = {"ignore_startup_parameters": "options"}


@pytest.fixture(scope="module")
def server() -> Iterator[PlainPostgres]:
    with PlainPostgres() as started:
        yield started


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`osmo-admin ARGUMENTS` against these addresses; the supervisor is a process of its own."""
    env = {"OSMO_ADMIN_HOME": str(folder), "OSMO_SECRET_KEY": SECRET_KEY, **variables}
    start = run_osmo_admin if arguments[0] == "up" else run_preloaded
    found: subprocess.CompletedProcess[str] = start(*arguments, env=env, seconds=200)
    return found


@pytest.mark.pgbouncer
@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("more", [{}, {"default_pool_size": "1"}, {"server_round_robin": "1"}], ids=str)
def test_a_pooler_without_sessions_is_found(server: PlainPostgres, mode: str, more: dict[str, str]) -> None:
    with PgBouncer(server, pool_mode=mode, **IGNORED, **more) as pooler:
        for _ in range(3):  # also when the pooler has open sessions from the last time
            with pytest.raises(ImproperlyConfigured, match=TRANSACTION):
                refuse_unfit_server({"conninfo": pooler.url()})


@pytest.mark.pgbouncer
@pytest.mark.parametrize("size", ["1", "40"])
def test_a_pooler_with_sessions_is_accepted(server: PlainPostgres, size: str) -> None:
    with PgBouncer(server, pool_mode="session", default_pool_size=size, **IGNORED) as pooler:
        refuse_unfit_server({"conninfo": pooler.url()})


def test_a_server_is_accepted(server: PlainPostgres) -> None:
    refuse_unfit_server({"conninfo": server.url()})


@pytest.mark.pgbouncer
@pytest.mark.parametrize(
    ("arguments", "settings", "sentence"),
    [
        (["serve", "worker"], {}, OPTIONS),
        (["serve", "worker"], IGNORED, TRANSACTION),
        (["check"], {}, OPTIONS),
        (["check"], IGNORED, TRANSACTION),
        (["up", "--port", "0"], IGNORED, TRANSACTION),
        (["manage", "migrate"], IGNORED, TRANSACTION),
    ],
    ids=str,
)
def test_each_way_to_begin_refuses_it(
    server: PlainPostgres, arguments: list[str], settings: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    """That each process has the checks of `serve`: tests/ops/test_keys_of_processes.py."""
    arguments = [each if each != "0" else str(find_free_port()) for each in arguments]
    with PgBouncer(server, pool_mode="transaction", **settings) as pooler:
        answer = run(tmp_path, *arguments, DATABASE_URL=pooler.url(), REDIS_URL="redis://127.0.0.1:1/0")
    assert answer.returncode == 1, answer
    assert sentence in answer.stderr + answer.stdout
    assert "Traceback" not in answer.stderr + answer.stdout


@pytest.mark.pgbouncer
def test_session_mode_works_with_another_address_for_the_owner(server: PlainPostgres, tmp_path: Path) -> None:
    with PgBouncer(server, pool_mode="session", **IGNORED) as pooler:
        owner, runtime = server.url("osmo"), pooler.url()
        answer = run(
            tmp_path, "up", "--check", "--port", str(find_free_port()), DATABASE_URL=runtime,
            OSMO_OWNER_DATABASE_URL=owner,
        )  # fmt: skip
        assert answer.returncode == 0, answer
        assert "Check passed: osmo-check-1 was accepted by the API and started by the worker" in answer.stdout
        assert run(tmp_path, "check", DATABASE_URL=runtime, OSMO_OWNER_DATABASE_URL=owner).returncode == 0


def test_two_databases_are_refused(server: PlainPostgres, tmp_path: Path) -> None:
    server.query("CREATE DATABASE other OWNER osmo")
    answer = run(
        tmp_path, "manage", "migrate", DATABASE_URL=server.url(), OSMO_OWNER_DATABASE_URL=server.url("osmo", "other")
    )
    assert answer.returncode == 1
    assert "lead to two different databases" in answer.stderr
    assert server.query("SELECT FROM pg_class WHERE relname = 'django_migrations'", database="other") == []


def test_an_old_server_is_refused_before_anything_else(server: PlainPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_server, "OLDEST_VERSION", 99)
    with pytest.raises(ImproperlyConfigured, match=r"^PostgreSQL 99 or newer is needed \(\d+\.\d+ found\)\.$"):
        refuse_unfit_server({"conninfo": server.url()})


# --- several hosts ---
@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("postgresql://u:p@h1:5432,h2:5433/osmo", "h1,h2", "5432,5433"),
        ("postgresql://u:p@h1,h2/osmo", "h1,h2", ""),
        ("postgresql://u:p@h1,h2:5433/osmo", "h1,h2", ",5433"),
        ("postgresql://u:p@[::1]:5432/osmo", "::1", "5432"),
        ("postgresql://u:p@/osmo?host=h1,h2&port=1,2", "h1,h2", "1,2"),
        ("postgresql://u:p%40@h1/osmo", "h1", ""),
        ("postgresql:///osmo?host=/run/pg", "/run/pg", ""),
        ("postgresql:///osmo", "", ""),
    ],
)
def test_addresses(url: str, host: str, port: str) -> None:
    found = database_settings(url)
    assert (found["HOST"], found["PORT"]) == (host, port)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p@h1:x/osmo",
        "postgresql://u:p/q@h1/osmo",
        "postgresql://u:p@[::1/osmo",
        "postgresql://h/d?hots=x",
    ],
)
def test_bad_addresses_are_refused_without_their_value(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL") as refusal:
        database_settings(url)
    assert "p/q" not in str(refusal.value)


def test_the_first_host_is_dead_and_the_second_a_standby(server: PlainPostgres, tmp_path: Path) -> None:
    with PlainPostgres(primary=server) as standby:
        hosts = ",".join(f"127.0.0.1:{port}" for port in (find_free_port(), standby.port, server.port))
        end = "osmo?target_session_attrs=read-write"
        runtime, owner = f"postgresql://osmo_app:x@{hosts}/{end}", f"postgresql://osmo:x@{hosts}/{end}"
        variables = {"DATABASE_URL": runtime, "OSMO_OWNER_DATABASE_URL": owner}
        assert run(tmp_path, "serve", "prepare", **variables).returncode == 0
        answer = run(tmp_path, "backup", str(tmp_path / "backup"), **variables)
        assert answer.returncode == 0, answer
        answer = run(tmp_path, "user", "list", **variables)
        assert answer.returncode == 0, answer
        with psycopg.connect(standby.url()) as session:
            assert session.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)
