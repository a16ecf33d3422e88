"""The embedded PostgreSQL trusts the user that started it and nobody else of the machine."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from osmo_admin.ops.programs import privileges
from osmo_admin.ops.programs.privileges import SystemAccount, change_owner, find_database_account
from osmo_admin.ops.programs.processes import stop_children
from osmo_admin.ops.stores import postgres

INSTALLATIONS = list(postgres.find_installations())
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to act as other users")
OTHERS = [name for name in ("postgres", "nobody", "www-data") if any(each.pw_name == name for each in pwd.getpwall())]


def prepare(folder: Path, account: SystemAccount | None) -> Path:
    folder.mkdir(mode=0o700)
    change_owner(account, folder)
    return folder


def launch(folder: Path, account: SystemAccount | None) -> postgres.PostgresServer:
    return postgres.launch_postgres(
        folder / "postgres", folder / "s", account, log=folder / "postgres.log", durable=False
    )


@pytest.fixture(scope="module", params=INSTALLATIONS, ids=lambda each: f"{each.major} in {each.bin.parent.name}")
def server(request: pytest.FixtureRequest) -> Iterator[postgres.PostgresServer]:
    account = find_database_account()
    folder = Path(tempfile.mkdtemp(prefix="osmo-db-", dir="/tmp"))
    change_owner(account, folder)
    for name in ("postgres", "s"):
        prepare(folder / name, account)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres, "find_installations", lambda: iter([request.param]))
        started = launch(folder, account)
    try:
        postgres.ensure_database(started)
        yield started
    finally:
        stop_children([started.child], grace=10)
        shutil.rmtree(folder)


@contextmanager
def open_folder(server: postgres.PostgresServer) -> Iterator[None]:
    """Inside, everyone can enter the folder of the socket."""
    server.socket_dir.parent.chmod(0o711)
    server.socket_dir.chmod(0o711)
    yield
    server.socket_dir.chmod(0o700)


def connect_as(user: str, server: postgres.PostgresServer, role: str) -> str:
    """What psql says when this system user connects as this role."""
    uid, gid = pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid
    psql = shutil.which("psql") or str(INSTALLATIONS[0].bin / "psql")
    done = subprocess.run(
        [psql, "-h", str(server.socket_dir), "-U", role, "-d", "postgres", "-Atc", "SELECT 'inside'"],
        user=uid, group=gid, extra_groups=[], cwd="/", capture_output=True, text=True, check=False, timeout=30,
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
    )  # fmt: skip
    return done.stdout + done.stderr


def test_the_user_that_started_it_connects_as_each_of_our_roles(server: postgres.PostgresServer) -> None:
    for role in (postgres.SUPERUSER, postgres.OWNER, postgres.RUNTIME):
        with psycopg.connect(server.url("postgres", role)) as session:
            assert session.execute("SELECT current_user").fetchone() == (role,)
    with psycopg.connect(server.url("postgres", postgres.SUPERUSER)) as session:
        rules = session.execute("SELECT type, auth_method FROM pg_hba_file_rules").fetchall()
    assert rules == [("local", "peer")]


@as_root
@pytest.mark.parametrize("user", OTHERS)
def test_another_user_of_the_machine_cannot_connect(server: postgres.PostgresServer, user: str) -> None:
    """Neither through the closed folder of the socket, nor if that folder were open to all."""
    for role in (postgres.SUPERUSER, postgres.OWNER, postgres.RUNTIME):
        assert "Permission denied" in connect_as(user, server, role)
    with open_folder(server):
        for role in (postgres.SUPERUSER, postgres.OWNER, postgres.RUNTIME):
            assert "Peer authentication failed" in connect_as(user, server, role)


@as_root
def test_its_files_belong_to_a_user_of_its_own(server: postgres.PostgresServer) -> None:
    account = find_database_account()
    assert account is not None
    entry = pwd.getpwnam(privileges.OWN_USER)
    assert (account.name, entry.pw_shell) == (privileges.OWN_USER, "/bin/false")
    data = server.socket_dir.parent / "postgres" / "data"
    assert {path.stat().st_uid for path in (data, *data.iterdir())} == {account.uid}
    assert stat.S_IMODE(data.stat().st_mode) == stat.S_IMODE(server.socket_dir.stat().st_mode) == 0o700
    assert Path(f"/proc/{server.child.pid}").stat().st_uid == account.uid


@as_root
def test_data_of_a_shared_user_that_trusted_everybody_is_converted(reachable_dir: Path) -> None:
    """As an earlier version left it: owned by `nobody`, with `trust`."""
    nobody = pwd.getpwnam("nobody")
    former = SystemAccount("nobody", nobody.pw_uid, nobody.pw_gid)
    for name in ("postgres", "s"):
        prepare(reachable_dir / name, former)
    first = launch(reachable_dir, former)
    with psycopg.connect(first.url("postgres", postgres.SUPERUSER), autocommit=True) as session:
        session.execute("CREATE TABLE kept AS SELECT 7 AS number")
    stop_children([first.child], grace=10)
    data = reachable_dir / "postgres" / "data"
    (data / "pg_hba.conf").write_text("local all all trust\n")
    outside = reachable_dir / "outside"
    outside.write_text("not ours")
    os.chown(outside, former.uid, former.gid)
    (data / "link").symlink_to(outside)
    os.chown(data / "link", former.uid, former.gid, follow_symlinks=False)

    account = find_database_account()
    assert account is not None
    for name in ("postgres", "s"):
        change_owner(account, reachable_dir / name)
    second = launch(reachable_dir, account)
    try:
        with psycopg.connect(second.url("postgres", postgres.SUPERUSER)) as session:
            assert session.execute("SELECT number FROM kept").fetchone() == (7,)
        with open_folder(second):
            assert "Peer authentication failed" in connect_as("nobody", second, postgres.SUPERUSER)
    finally:
        stop_children([second.child], grace=10)
    assert {path.lstat().st_uid for path in data.rglob("*")} == {account.uid}
    assert outside.stat().st_uid == former.uid, "a link is not followed"


def test_without_the_right_to_create_a_user_a_shared_one_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    shared = SystemAccount("nobody", 65534, 65534)
    monkeypatch.setattr(privileges, "_existing_account", lambda name: shared if name == "nobody" else None)
    monkeypatch.setattr(privileges.shutil, "which", lambda name: None)
    assert find_database_account() == shared


def test_an_ordinary_user_runs_it_as_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert find_database_account() is None


def test_the_current_user_has_a_name() -> None:
    assert privileges.current_user_name() == getpass.getuser()
