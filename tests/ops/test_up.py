"""`osmo-admin up` as a process: start, second start, stop, and the death of each part."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psycopg
import pytest

from osmo_admin.ops.files.data_directory import DataDirectory
from osmo_admin.ops.programs import process_commands
from osmo_admin.ops.programs.services import MANY_DEATHS
from tests.ops.test_support_bundle import read as read_bundle
from tests.ops.test_variables import MISTYPED
from tests.support.stack import SECRET_KEY, find_free_port
from tests.support.up import ADMIN_PASSWORD, UpProcess, is_running, live_processes, run_osmo_admin, run_preloaded

Start = Callable[..., UpProcess]
# All processes of an installation, with their names in children.json.
NAMES = {"postgres", "valkey", "preloaded", "web", "worker", "beat", "clusters"}
AS_ADMIN = {"x-osmo-user": "admin"}
STOP_SECONDS = 30.0  # 9 s of grace for all processes together, and what a busy machine adds


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpProcess]:
    """One running installation for tests that only read it. The user of the database cannot enter its folder: pytest
    makes its temporary folders private, as root's home is."""
    started = UpProcess(tmp_path_factory.mktemp("installation") / "data", env={"OSMO_LOCK_TIMEOUT": "5"})
    try:
        yield started.wait_ready()
    finally:
        started.kill()
        DataDirectory.open(started.data_dir).remove()  # the database lies outside, see DataDirectory.postgres_home


def bearer_client(up_process: UpProcess, token: str) -> httpx.Client:
    """A client logged in by access token, as the stock client does."""
    answer = httpx.post(f"{up_process.base_url}/api/auth/jwt/access_token", json={"token": token}, timeout=60)
    answer.raise_for_status()
    return httpx.Client(base_url=up_process.base_url, headers={"Authorization": f"Bearer {answer.json()['token']}"})


def test_a_first_start_leaves_no_error_in_the_log_of_the_database(installation: UpProcess) -> None:
    """First of all tests: nothing has asked for a table before it was there, so an ERROR line is worth reading."""
    lines = (installation.data_dir / "logs" / "postgres.log").read_text().splitlines()
    assert lines
    assert [line for line in lines if " ERROR: " in line or " FATAL: " in line] == []


def test_it_prints_its_addresses_and_keeps_secrets_private(installation: UpProcess) -> None:
    assert installation.base_url in installation.output_text()
    assert str(installation.data_dir) in installation.output_text()
    assert "osmo-admin down --data-dir" in installation.output_text()
    assert ADMIN_PASSWORD not in installation.output_text()
    runtime = installation.runtime_addresses()
    assert {"DATABASE_URL", "REDIS_URL", "OSMO_SECRET_KEY", "OSMO_PUBLIC_URL"} <= runtime.keys()
    assert runtime["OSMO_PUBLIC_URL"] == installation.base_url
    for name in ("runtime.json", "secrets.json", "children.json"):
        assert stat.S_IMODE((installation.data_dir / name).stat().st_mode) == 0o600


def test_parent_folders_keep_their_permissions(installation: UpProcess) -> None:
    # pytest makes its temporary folder private, as root's home is.
    for folder in [installation.data_dir.parent, installation.data_dir.parent.parent]:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    home = Path("/root") if os.geteuid() == 0 else Path.home()
    assert home.stat().st_mode == _HOME_MODE


_HOME_MODE = (Path("/root") if os.geteuid() == 0 else Path.home()).stat().st_mode


def test_every_part_answers(installation: UpProcess) -> None:
    assert installation.get("/health").json() == {"status": "OK"}
    names = ["database", "migrations", "redis", "worker", "secret_key", "events", "beat", "clusters", "disk"]
    deadline = time.monotonic() + 60  # `up` does not wait for two of them
    while True:
        checks = {name: check["ok"] for name, check in installation.get("/ready").json()["checks"].items()}
        assert list(checks) == names
        if all(checks.values()):
            break
        assert time.monotonic() < deadline, checks
        time.sleep(0.1)
    assert set(installation.child_pids()) == NAMES
    # Both web processes share the folder of the counters, so that /metrics includes both.
    folder = DataDirectory.open(installation.data_dir).metrics_in_memory
    assert list((folder if folder.parent.is_dir() else installation.data_dir / "metrics").glob("counter_*.db"))


@pytest.mark.parametrize("name", ["web", "worker", "beat", "clusters"])
def test_each_process_names_a_variable_that_nobody_reads_once(installation: UpProcess, name: str) -> None:
    log = installation.data_dir / "logs" / f"{name}.log"
    assert log.read_text().count(MISTYPED) == 1, log.read_text()


def test_a_second_start_on_the_same_data_is_refused_with_one_message(installation: UpProcess) -> None:
    answer = run_osmo_admin("up", "--data-dir", installation.data_dir, "--no-demo")
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert answer.stderr.count("\n") == 1
    assert (
        f"already running on {installation.data_dir} (process {installation.process.pid}, {installation.base_url})"
        in answer.stderr
    )
    assert installation.get("/health").status_code == 200


def test_users_and_tokens_are_created_beside_the_running_server(installation: UpProcess, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("a long enough pass phrase\nsecond line\n")
    made = run_osmo_admin(
        *("user", "create", "vera", "--role", "osmo-viewer", "--password-file", secret),
        *("--data-dir", installation.data_dir),
    )
    assert (made.returncode, made.stderr) == (0, "")
    token = run_osmo_admin("token", "create", "vera", "laptop", "--data-dir", installation.data_dir)
    assert (token.returncode, token.stderr) == (0, "")
    assert token.stdout.strip() == token.stdout.rstrip("\n")
    with bearer_client(installation, token.stdout.strip()) as client:
        profile = client.get("/api/profile/settings")
        assert profile.status_code == 200
        assert "osmo-viewer" in profile.json()["roles"]
        closed = run_preloaded("user", "disable", "vera", "--data-dir", installation.data_dir)
        assert (closed.returncode, closed.stderr) == (0, "")
        assert client.get("/api/profile/settings").status_code == 401


def test_status_and_verify(installation: UpProcess) -> None:
    status = run_osmo_admin("status", "--data-dir", installation.data_dir)
    assert (status.returncode, status.stderr) == (0, "")
    assert f"at {installation.base_url}" in status.stdout
    verified = run_preloaded("verify", "--data-dir", installation.data_dir)
    assert (verified.returncode, verified.stderr) == (0, "")


def test_the_doctor_hears_every_process(installation: UpProcess) -> None:
    """Every process answers, from wherever the command runs."""
    deadline = time.monotonic() + 60
    while True:
        ran = run_osmo_admin("doctor", "--json", "--seconds", "30", "--data-dir", installation.data_dir)
        found = json.loads(ran.stdout)
        failed = [each for each in found["findings"] if not each["ok"] and each["check"] != "disk"]
        if not failed or time.monotonic() > deadline:
            break
    assert (failed, ran.stderr) == ([], "")
    kinds = {each["place"].partition(" ")[0] for each in found["findings"]}
    assert kinds == {"here", "installation", "web", "worker", "beat", "clusters"}
    assert ran.returncode == (0 if found["ok"] else 1)


def test_a_support_bundle_has_every_log_and_no_secret(installation: UpProcess, tmp_path: Path) -> None:
    ran = run_osmo_admin(
        "support-bundle", tmp_path / "b.tar.gz", "--seconds", "30", "--data-dir", installation.data_dir
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    files = read_bundle(tmp_path / "b.tar.gz")
    assert {f"logs/{name}.log" for name in ("web", "worker", "beat", "clusters", "postgres", "valkey")} <= files.keys()
    secrets = json.loads((installation.data_dir / "secrets.json").read_text())
    assert not [name for name, text in files.items() if any(str(value) in text for value in secrets.values())]
    assert not [name for name in files if name.endswith(".missing.txt")], files["README.txt"]


@pytest.mark.fault
def test_after_the_death_of_every_process_at_once_it_is_whole_again(up: Start, used_data_dir: Path) -> None:
    """It stops in time then. What a killed supervisor leaves, and the next start: tests/faults/test_up_killed.py."""
    former = json.loads((used_data_dir / "secrets.json").read_text())["OSMO_SECRET_KEY"]
    first = up("--webhook-port", str(find_free_port())).wait_ready()
    assert first.runtime_addresses()["OSMO_SECRET_KEY"] == former
    old = first.child_pids()
    assert set(old) == {*NAMES, process_commands.WEBHOOK}
    check_environments(old, former)
    holder = first.beat_lease()
    for pid in old.values():
        os.kill(pid, signal.SIGKILL)
    check_whole_again(first, old, set(old), holder)
    pids = first.child_pids()
    check_environments(pids, former)
    status = run_osmo_admin("status", "--data-dir", used_data_dir)
    assert "web died and was started again: 1 × since the start" in status.stdout
    began = time.monotonic()
    assert first.stop(signal.SIGINT) == 0
    assert time.monotonic() - began < STOP_SECONDS
    assert live_processes(pids) == []
    assert not (used_data_dir / "runtime.json").exists()


@pytest.mark.fault
@pytest.mark.nightly
@pytest.mark.usefixtures("used_data_dir")
def test_after_the_death_of_each_process_in_turn_it_is_whole_again(up: Start) -> None:
    installation = up("--webhook-port", str(find_free_port())).wait_ready()
    dead: set[str] = set()
    for victim in [*NAMES, process_commands.WEBHOOK]:
        old = installation.child_pids()
        os.kill(old[victim], signal.SIGKILL)
        dead.add(victim)
        check_whole_again(installation, {victim: old[victim]}, dead)
        assert {**installation.child_pids(), victim: old[victim]} == old, "no other process was started again"
        assert f"{victim} (process {old[victim]}) was killed by SIGKILL; starting it again now." in (
            installation.output_text()
        )


@pytest.mark.fault
@pytest.mark.nightly
@pytest.mark.usefixtures("used_data_dir")
def test_a_process_that_dies_again_and_again_stops_no_other(up: Start) -> None:
    installation = up().wait_ready()
    seen: set[int] = set()
    pids = installation.child_pids()
    deadline = time.monotonic() + 120
    while len(seen) < MANY_DEATHS and time.monotonic() < deadline:
        beat = installation.child_pids().get("beat", 0)
        if beat and beat not in seen:
            seen.add(beat)
            os.kill(beat, signal.SIGKILL)
        time.sleep(0.05)
    assert len(seen) == MANY_DEATHS
    time.sleep(2)
    assert installation.process.poll() is None
    assert "beat has died 6 times in 5 minutes. It is started again and again" in installation.output_text()
    answer = installation.get("/ready")
    assert answer.status_code == 200, "without beat, only periodic tasks pause"
    assert answer.json()["restarts"]["beat"]["keeps_dying"] is True
    status = run_osmo_admin("status", "--data-dir", installation.data_dir)
    assert "beat keeps dying and is started again and again. The reason is in" in status.stdout
    now = installation.child_pids()
    assert {name: now[name] for name in pids if name != "beat"} == {n: p for n, p in pids.items() if n != "beat"}
    deadline = time.monotonic() + 60
    while "beat" not in installation.child_pids() and time.monotonic() < deadline:
        time.sleep(0.5)
    assert "beat" in installation.child_pids(), "it is tried again"
    assert installation.stop() == 0


@pytest.mark.fault
@pytest.mark.usefixtures("used_data_dir")
def test_a_database_whose_data_has_disappeared_is_not_replaced_by_an_empty_one(up: Start) -> None:
    installation = up().wait_ready()
    pids = installation.child_pids()
    location = installation.data_dir / "postgres.location"
    home = Path(location.read_text().strip()) if location.exists() else installation.data_dir / "postgres"
    os.kill(installation.process.pid, signal.SIGSTOP)
    os.kill(pids["postgres"], signal.SIGKILL)
    (home / "data").rename(home / "elsewhere")
    os.kill(installation.process.pid, signal.SIGCONT)
    assert installation.wait() == 1
    assert "has disappeared; PostgreSQL is not started again." in installation.output_text()
    assert not (home / "data").exists()
    assert live_processes(pids) == []


def check_whole_again(installation: UpProcess, old: dict[str, int], dead: set[str], holder: UUID | None = None) -> None:
    """All processes run and work again, and the restarts are reported. The lease of beat of a killed `holder` is ended
    here; that it ends by itself: tests/faults/test_two_beats.py, and at night the death of each process in turn."""
    deadline = time.monotonic() + 90
    body: dict[str, Any] = {}
    while time.monotonic() < deadline:
        with suppress(httpx.TransportError, ValueError):
            body = installation.get("/ready").json()
            if set(body.get("restarts", {})) == dead and all(each["ok"] for each in body["checks"].values()):
                break
        with suppress(psycopg.OperationalError):
            installation.end_beat_lease(holder)
        time.sleep(0.1)
    assert set(body.get("restarts", {})) == dead, installation.output_text()
    assert {name: check for name, check in body["checks"].items() if not check["ok"]} == {}
    new = installation.child_pids()
    assert all(is_running(pid) for pid in new.values())
    assert live_processes(old) == []
    made = run_round_trip(installation)
    assert (made.returncode, made.stderr) == (0, "")


def check_environments(pids: dict[str, int], key: str) -> None:
    """No process has the password of the first user, and the servers of others have none of our variables."""
    found: dict[str, set[bytes]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            group, session = map(int, (folder / "stat").read_text().rpartition(")")[2].split()[2:4])
            variables = set((folder / "environ").read_bytes().split(b"\0"))
        except (OSError, ValueError, IndexError):
            continue
        for name, pid in pids.items():
            if pid in (group, session, _parent_of(folder)):
                found.setdefault(name, set()).update(variables)
    assert found.keys() == pids.keys()
    for name, variables in found.items():
        names = {variable.partition(b"=")[0] for variable in variables}
        assert b"OSMO_ADMIN_PASSWORD" not in names, name
        assert not any(ADMIN_PASSWORD.encode() in variable for variable in variables), name
        if name in ("postgres", "valkey"):
            assert not any(each.startswith((b"OSMO_", b"DATABASE_", b"REDIS_", b"PYTHON")) for each in names), name
            assert not any(key.encode() in variable for variable in variables), name


def _parent_of(folder: Path) -> int:
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_a_stop_during_the_start_is_obeyed(up: Start) -> None:
    installation = up()
    deadline = time.monotonic() + 20
    while not (installation.data_dir / "children.json").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    pids = installation.child_pids()
    assert installation.stop(signal.SIGINT) == 0
    assert "Ready:" not in installation.output_text()
    assert live_processes(pids) == []


def test_a_requested_port_in_use_is_an_error(data_dir: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        answer = run_osmo_admin("up", "--data-dir", data_dir, "--port", str(port))
    assert answer.returncode == 1
    assert f"Port {port} on 127.0.0.1 is in use" in answer.stderr
    assert not (data_dir / "postgres").exists()


@pytest.mark.parametrize(
    ("name", "arguments", "env"), [("--dev", ["--dev"], {}), ("OSMO_DEV_LOGIN", [], {"OSMO_DEV_LOGIN": "yes"})]
)
def test_dev_login_is_refused_on_a_public_address(
    data_dir: Path, name: str, arguments: list[str], env: dict[str, str]
) -> None:
    answer = run_osmo_admin("up", "--data-dir", data_dir, "--host", "0.0.0.0", *arguments, env=env)
    assert answer.returncode == 1
    assert f"{name} lets everyone log in under any name" in answer.stderr
    assert not data_dir.exists()


def test_only_dev_mode_trusts_the_header(installation: UpProcess) -> None:
    """The other half: tests/faults/test_up_killed.py."""
    assert installation.get("/api/profile/settings", headers=AS_ADMIN).status_code == 401


def elsewhere(installation: UpProcess) -> dict[str, str]:
    """The addresses of another installation's database on the servers of this one."""
    runtime = installation.runtime_addresses()
    with psycopg.connect(installation.owner_url().replace("osmo@/osmo?", "postgres@/postgres?")) as admin:
        admin.autocommit = True
        with suppress(psycopg.errors.DuplicateDatabase):
            admin.execute("CREATE DATABASE elsewhere OWNER osmo")
    return {
        "DATABASE_URL": runtime["DATABASE_URL"].replace("/osmo?", "/elsewhere?"),
        "OSMO_OWNER_DATABASE_URL": installation.owner_url().replace("/osmo?", "/elsewhere?"),
        "REDIS_URL": runtime["REDIS_URL"].replace("db=0", "db=7"),
        "OSMO_SECRET_KEY": SECRET_KEY,
    }


def test_the_processes_use_the_role_without_powers(installation: UpProcess) -> None:
    superuser = installation.owner_url().replace("osmo@/osmo?", "postgres@/osmo?")
    with psycopg.connect(superuser) as session:
        query = "SELECT DISTINCT usename FROM pg_stat_activity WHERE application_name = 'osmo-admin'"
        assert session.execute(query).fetchall() == [("osmo_app",)]
    with psycopg.connect(installation.runtime_addresses()["DATABASE_URL"], autocommit=True) as session:
        for attack in ("ALTER TABLE pools_auditentry DISABLE TRIGGER USER", "TRUNCATE pools_auditentry"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute(attack)
    checked = run_preloaded("check", "--data-dir", installation.data_dir)
    assert (checked.returncode, checked.stderr) == (0, "")
    migrated = run_preloaded("manage", "migrate", "--data-dir", installation.data_dir)
    assert migrated.returncode == 0, migrated.stderr


def test_an_installation_of_one_role_is_warned_and_keeps_working(
    up: Start, installation: UpProcess, data_dir: Path
) -> None:
    """As before two roles: `DATABASE_URL` names the owner of everything. The addresses of the environment replace the
    embedded servers; a first start generates a password if none is given, and prints it this once; `down` stops it and
    `reset` removes it."""
    env = {**elsewhere(installation), "OSMO_ADMIN_PASSWORD": ""}
    env["DATABASE_URL"] = env.pop("OSMO_OWNER_DATABASE_URL")
    other = up(env=env).wait_ready()
    assert set(other.child_pids()) == NAMES - {"postgres", "valkey"}
    assert not (data_dir / "postgres").exists()
    line = next(line for line in other.output_text().splitlines() if line.startswith("Login:"))
    assert "shown this once" in line
    assert _browser_login(other, line.split()[3]) == 302
    assert "The role osmo of DATABASE_URL owns tables" in (data_dir / "logs" / "bootstrap.log").read_text()
    checked = run_preloaded("check", "--data-dir", data_dir)
    assert checked.returncode == 1
    assert "The role osmo of DATABASE_URL owns tables" in checked.stderr
    refused = run_osmo_admin("reset", "--yes", "--data-dir", data_dir)
    assert (refused.returncode, "is running" in refused.stderr) == (1, True)
    down = run_osmo_admin("down", "--data-dir", data_dir)
    assert (down.returncode, down.stdout) == (0, "Stopped.\n")
    assert other.wait() == 0
    assert installation.get("/ready").status_code == 200, "the servers of others go on"
    assert run_osmo_admin("status", "--data-dir", data_dir).returncode == 1
    assert run_osmo_admin("down", "--data-dir", data_dir).returncode == 0
    assert run_osmo_admin("reset", "--yes", "--data-dir", data_dir).returncode == 0
    assert not data_dir.exists()


def test_verify_names_a_difference_and_fails(installation: UpProcess) -> None:
    token = run_preloaded("token", "create", "admin", "verify", "--data-dir", installation.data_dir).stdout.strip()
    body = {"configs": {"backend": "simulated", "resources": {"gpu": {"guarantee": 8, "maximum": -1, "weight": 1}}}}
    with bearer_client(installation, token) as client:
        client.put("/api/configs/pool/counted", json=body).raise_for_status()
    with psycopg.connect(installation.owner_url(), autocommit=True) as session:
        session.execute("ALTER TABLE pools_leafusage DISABLE TRIGGER USER")
        session.execute("UPDATE pools_leafusage SET used = used + 7, total_usage = total_usage + 7")
        try:
            answer = run_preloaded("verify", "--data-dir", installation.data_dir)
        finally:
            session.execute("UPDATE pools_leafusage SET used = used - 7, total_usage = total_usage - 7")
            session.execute("ALTER TABLE pools_leafusage ENABLE TRIGGER USER")
    assert answer.returncode == 1
    assert "counted" in answer.stdout
    assert "7" in answer.stdout
    assert run_preloaded("verify", "--data-dir", installation.data_dir).returncode == 0


def _browser_login(installation: UpProcess, password: str) -> int:
    """The status of the login form: 302 is a success, 200 is the form again."""
    with httpx.Client(base_url=installation.base_url, timeout=60) as client:
        client.get("/login/").raise_for_status()
        form = {"username": "admin", "password": password, "csrfmiddlewaretoken": client.cookies["csrftoken"]}
        return client.post("/login/", data=form, headers={"Referer": installation.base_url}).status_code


def test_a_check_can_be_repeated_and_leaves_nothing(installation: UpProcess) -> None:
    for _ in range(2):
        made = run_round_trip(installation)
        assert (made.returncode, made.stderr) == (0, "")
        assert "Check passed: osmo-check-" in made.stdout
    token = run_preloaded("token", "create", "admin", "second", "--data-dir", installation.data_dir).stdout.strip()
    with bearer_client(installation, token) as client:
        assert "osmo-check" not in client.get("/api/configs/pool").json()["pools"]
        live = {"all_users": "True", "limit": 10, "statuses": ["PENDING", "RUNNING"]}
        assert client.get("/api/workflow", params=live).json()["workflows"] == []
        names = [token["token_name"] for token in client.get("/api/auth/access_token").json()]
    assert "second" in names
    assert [name for name in names if name.startswith("check-")] == []
    assert run_preloaded("verify", "--data-dir", installation.data_dir).returncode == 0


def test_a_failed_check_names_the_reason(installation: UpProcess) -> None:
    with psycopg.connect(installation.runtime_addresses()["DATABASE_URL"], autocommit=True) as session:
        session.execute("UPDATE pools_user SET is_active = false WHERE username = 'admin'")
        try:
            failed = run_round_trip(installation)
        finally:
            session.execute("UPDATE pools_user SET is_active = true WHERE username = 'admin'")
    assert failed.returncode == 1
    assert "needs a user with the role osmo-admin" in failed.stderr
    assert "Traceback" not in failed.stderr


def run_round_trip(installation: UpProcess) -> subprocess.CompletedProcess[str]:
    """The check of `--check`, on a running installation."""
    module, url = process_commands.round_trip_command(installation.base_url)[2:]
    return run_preloaded(url, module=module, env=installation.runtime_addresses(), seconds=150)
