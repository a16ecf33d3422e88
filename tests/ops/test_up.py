"""`osmo-admin up` as an operator meets it: start, second start, one at a time, stop, and every kind of death."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import psycopg
import pytest

from osmo_admin.ops import process_commands
from tests.ops.conftest import is_running
from tests.support.services import ROOT
from tests.support.up import ADMIN_PASSWORD, UpProcess, clean_env, run_osmo_admin

Start = Callable[..., UpProcess]
# All the processes of a house, as children.json names them.
NAMES = {"postgres", "valkey", "web", "worker", "beat", "clusters"}
STOP_SECONDS = 10.0


def live_processes(pids: dict[str, int]) -> list[int]:
    """Every process of these groups that is alive now."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            group = int((folder / "stat").read_text().rpartition(")")[2].split()[2])
        except (OSError, ValueError, IndexError):
            continue
        if group in pids.values() and is_running(int(folder.name)):
            found.append(int(folder.name))
    return found


def bearer_client(up_process: UpProcess, token: str) -> httpx.Client:
    """A client logged in by access token, as the stock client does."""
    answer = httpx.post(f"{up_process.base_url}/api/auth/jwt/access_token", json={"token": token}, timeout=10)
    answer.raise_for_status()
    return httpx.Client(base_url=up_process.base_url, headers={"Authorization": f"Bearer {answer.json()['token']}"})


def test_it_says_where_it_is_and_keeps_secrets_private(house: UpProcess) -> None:
    assert house.base_url in house.output_text()
    assert str(house.data_dir) in house.output_text()
    assert "osmo-admin down --data-dir" in house.output_text()
    assert ADMIN_PASSWORD not in house.output_text()
    runtime = house.runtime_addresses()
    assert {"DATABASE_URL", "REDIS_URL", "OSMO_SECRET_KEY", "OSMO_PUBLIC_URL"} <= runtime.keys()
    assert runtime["OSMO_PUBLIC_URL"] == house.base_url
    for name in ("runtime.json", "secrets.json", "children.json"):
        assert stat.S_IMODE((house.data_dir / name).stat().st_mode) == 0o600


def test_its_folders_above_keep_their_permissions(house: UpProcess) -> None:
    # pytest closes its temporary folder to everybody else; root's home is closed the same way.
    for folder in [house.data_dir.parent, house.data_dir.parent.parent]:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    home = Path("/root") if os.geteuid() == 0 else Path.home()
    assert home.stat().st_mode == _HOME_MODE


_HOME_MODE = (Path("/root") if os.geteuid() == 0 else Path.home()).stat().st_mode


def test_every_part_answers(house: UpProcess) -> None:
    assert house.get("/health").json() == {"status": "OK"}
    asked = ["database", "migrations", "redis", "worker", "beat", "clusters"]
    deadline = time.monotonic() + 60  # two of them are not waited for
    while True:
        checks = {name: check["ok"] for name, check in house.get("/ready").json()["checks"].items()}
        assert list(checks) == asked
        if all(checks.values()):
            break
        assert time.monotonic() < deadline, checks
        time.sleep(0.1)
    assert set(house.child_pids()) == NAMES
    # Both web processes count into one folder, so that /metrics speaks for both.
    assert list((house.data_dir / "metrics").glob("counter_*.db"))


def test_a_second_start_on_the_same_data_is_refused_in_one_sentence(house: UpProcess) -> None:
    answer = run_osmo_admin("up", "--data-dir", house.data_dir, "--no-demo")
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert answer.stderr.count("\n") == 1
    assert f"already running on {house.data_dir} (process {house.process.pid}, {house.base_url})" in answer.stderr
    assert house.get("/health").status_code == 200


def test_users_and_tokens_are_made_beside_the_running_server(house: UpProcess, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("a long enough pass phrase\nsecond line\n")
    made = run_osmo_admin(
        "user", "create", "vera", "--role", "osmo-viewer", "--password-file", secret, "--data-dir", house.data_dir
    )
    assert (made.returncode, made.stderr) == (0, "")
    token = run_osmo_admin("token", "create", "vera", "laptop", "--data-dir", house.data_dir)
    assert (token.returncode, token.stderr) == (0, "")
    assert token.stdout.strip() == token.stdout.rstrip("\n")
    with bearer_client(house, token.stdout.strip()) as client:
        profile = client.get("/api/profile/settings")
        assert profile.status_code == 200
        assert "osmo-viewer" in profile.json()["roles"]
        closed = run_osmo_admin("user", "disable", "vera", "--data-dir", house.data_dir)
        assert (closed.returncode, closed.stderr) == (0, "")
        assert client.get("/api/profile/settings").status_code == 401
    listed = run_osmo_admin("user", "list", "-o", "json", "--data-dir", house.data_dir)
    active = {each["id"]: each["active"] for each in json.loads(listed.stdout)["users"]}
    assert (active["admin"], active["vera"]) == (True, False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("user", "create", "eve", "--role", "osmo-emperor"), "There is no role osmo-emperor"),
        (("user", "create", "admin"), "User admin exists already"),
        (("user", "disable", "admin"), "admin has the last open account with the role osmo-admin"),
        (("token", "create", "nobody-here", "x"), "User nobody-here does not exist"),
        (("token", "create", "admin", "9 lives"), "is no token name"),
    ],
    ids=["role", "user", "last admin", "owner", "token name"],
)
def test_what_is_refused_is_a_sentence(house: UpProcess, arguments: tuple[str, ...], said: str) -> None:
    answer = run_osmo_admin(*arguments, "--data-dir", house.data_dir)
    assert answer.returncode == 1
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


def test_status_and_verify(house: UpProcess) -> None:
    status = run_osmo_admin("status", "--data-dir", house.data_dir)
    assert (status.returncode, status.stderr) == (0, "")
    assert f"at {house.base_url}" in status.stdout
    verified = run_osmo_admin("verify", "--data-dir", house.data_dir)
    assert (verified.returncode, verified.stderr) == (0, "")


def test_down_stops_it_and_reset_removes_it(up: Start, data_dir: Path) -> None:
    house = up().wait_ready()
    refused = run_osmo_admin("reset", "--yes", "--data-dir", data_dir)
    assert (refused.returncode, "is running" in refused.stderr) == (1, True)
    down = run_osmo_admin("down", "--data-dir", data_dir)
    assert (down.returncode, down.stdout) == (0, "Stopped.\n")
    assert house.wait() == 0
    assert run_osmo_admin("status", "--data-dir", data_dir).returncode == 1
    assert run_osmo_admin("down", "--data-dir", data_dir).returncode == 0
    assert run_osmo_admin("reset", "--yes", "--data-dir", data_dir).returncode == 0
    assert not data_dir.exists()


@pytest.mark.fault
@pytest.mark.parametrize("victim", ["postgres", "web", "worker"])
def test_a_child_that_dies_takes_the_rest_down_with_its_last_lines(up: Start, victim: str) -> None:
    house = up().wait_ready()
    pids = house.child_pids()
    began = time.monotonic()
    os.kill(pids[victim], signal.SIGKILL)
    assert house.wait() == 1
    assert time.monotonic() - began < STOP_SECONDS
    assert f"{victim} (process {pids[victim]}) was killed by SIGKILL; stopping everything." in house.output_text()
    assert f"{victim}.log" in house.output_text()
    assert live_processes(pids) == []


@pytest.mark.fault
def test_a_supervisor_that_is_killed_leaves_nothing_and_the_next_start_recovers(up: Start) -> None:
    first = up().wait_ready()
    pids = first.child_pids()
    first.process.kill()
    first.process.wait(5)
    second = up().wait_ready()
    assert live_processes(pids) == []
    assert set(second.child_pids().values()).isdisjoint(pids.values())
    assert second.stop() == 0


def test_a_stop_during_the_start_is_heard(up: Start) -> None:
    house = up()
    deadline = time.monotonic() + 20
    while not (house.data_dir / "children.json").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    pids = house.child_pids()
    assert house.stop(signal.SIGINT) == 0
    assert "Ready:" not in house.output_text()
    assert live_processes(pids) == []


def test_a_port_that_is_taken_is_an_error_when_it_was_asked_for(data_dir: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        answer = run_osmo_admin("up", "--data-dir", data_dir, "--port", str(port))
    assert answer.returncode == 1
    assert f"Port {port} on 127.0.0.1 is taken" in answer.stderr
    assert not (data_dir / "postgres").exists()


def test_dev_login_is_not_offered_to_other_machines(data_dir: Path) -> None:
    answer = run_osmo_admin("up", "--data-dir", data_dir, "--dev", "--host", "0.0.0.0")
    assert answer.returncode == 1
    assert "--dev lets anybody enter under any name" in answer.stderr
    assert not data_dir.exists()


def test_dev_mode_believes_the_header_and_other_modes_do_not(up: Start, house: UpProcess) -> None:
    dev = up("--dev").wait_ready()
    as_admin = {"x-osmo-user": "admin"}
    assert httpx.get(f"{dev.base_url}/api/profile/settings", headers=as_admin, timeout=10).status_code == 200
    assert httpx.get(f"{house.base_url}/api/profile/settings", headers=as_admin, timeout=10).status_code == 401


def test_addresses_in_the_environment_replace_the_embedded_servers(up: Start, house: UpProcess, data_dir: Path) -> None:
    runtime = house.runtime_addresses()
    with psycopg.connect(
        runtime["DATABASE_URL"].replace("/osmo?", "/postgres?").replace("osmo@", "postgres@")
    ) as admin:
        admin.autocommit = True
        admin.execute("CREATE DATABASE elsewhere OWNER osmo")
    env = {
        "DATABASE_URL": runtime["DATABASE_URL"].replace("/osmo?", "/elsewhere?"),
        "REDIS_URL": runtime["REDIS_URL"].replace("db=0", "db=7"),
    }
    other = up(env=env).wait_ready()
    assert set(other.child_pids()) == NAMES - {"postgres", "valkey"}
    assert not (data_dir / "postgres").exists()
    assert other.stop() == 0
    assert house.get("/ready").status_code == 200


def test_verify_names_a_difference_and_fails(house: UpProcess) -> None:
    token = run_osmo_admin("token", "create", "admin", "verify", "--data-dir", house.data_dir).stdout.strip()
    body = {"configs": {"backend": "simulated", "resources": {"gpu": {"guarantee": 8, "maximum": -1, "weight": 1}}}}
    with bearer_client(house, token) as client:
        client.put("/api/configs/pool/counted", json=body).raise_for_status()
    with psycopg.connect(house.runtime_addresses()["DATABASE_URL"], autocommit=True) as session:
        session.execute("ALTER TABLE pools_leafusage DISABLE TRIGGER USER")
        session.execute("UPDATE pools_leafusage SET used = used + 7, total_usage = total_usage + 7")
        try:
            answer = run_osmo_admin("verify", "--data-dir", house.data_dir)
        finally:
            session.execute("UPDATE pools_leafusage SET used = used - 7, total_usage = total_usage - 7")
            session.execute("ALTER TABLE pools_leafusage ENABLE TRIGGER USER")
    assert answer.returncode == 1
    assert "counted" in answer.stdout
    assert "7" in answer.stdout
    assert run_osmo_admin("verify", "--data-dir", house.data_dir).returncode == 0


def test_ctrl_c_stops_everything_in_time_and_the_next_start_finds_the_data(up: Start) -> None:
    # No password given: one is made up, works, and is printed at the first start only.
    first = up(env={"OSMO_ADMIN_PASSWORD": ""}).wait_ready()
    pids = first.child_pids()
    key = first.runtime_addresses()["OSMO_SECRET_KEY"]
    line = next(line for line in first.output_text().splitlines() if line.startswith("Login:"))
    assert "shown this once" in line
    assert _browser_login(first, line.split()[3]) == 302
    made = run_osmo_admin("user", "create", "keeper", "--data-dir", first.data_dir)
    assert made.returncode == 0, made.stderr
    began = time.monotonic()
    assert first.stop(signal.SIGINT) == 0
    assert time.monotonic() - began < STOP_SECONDS
    assert live_processes(pids) == []
    assert not (first.data_dir / "runtime.json").exists()

    second = up(env={"OSMO_ADMIN_PASSWORD": ""}).wait_ready()
    assert second.runtime_addresses()["OSMO_SECRET_KEY"] == key
    assert "shown this once" not in second.output_text()
    again = run_osmo_admin("user", "create", "keeper", "--data-dir", second.data_dir)
    assert "User keeper exists already" in again.stderr
    # A terminal that closes stops the house as Ctrl-C does.
    pids = second.child_pids()
    assert second.stop(signal.SIGHUP) == 0
    assert live_processes(pids) == []


def _browser_login(house: UpProcess, password: str) -> int:
    """The status that the login form answers: 302 is in, 200 is the form again."""
    with httpx.Client(base_url=house.base_url, timeout=10) as client:
        client.get("/login/").raise_for_status()
        form = {"username": "admin", "password": password, "csrfmiddlewaretoken": client.cookies["csrftoken"]}
        return client.post("/login/", data=form, headers={"Referer": house.base_url}).status_code


def test_check_exits_0_after_a_round_trip(up: Start) -> None:
    checked = up("--check")
    assert checked.wait(seconds=90) == 0, checked.output_text()
    assert "Check passed: osmo-check-1 was accepted by the API and started by the worker" in checked.output_text()


def test_a_round_trip_can_be_made_again_and_leaves_nothing(house: UpProcess) -> None:
    for _ in range(2):
        made = run_round_trip(house)
        assert (made.returncode, made.stderr) == (0, "")
        assert "Check passed: osmo-check-" in made.stdout
    token = run_osmo_admin("token", "create", "admin", "look", "--data-dir", house.data_dir).stdout.strip()
    with bearer_client(house, token) as client:
        assert "osmo-check" not in client.get("/api/configs/pool").json()["pools"]
        live = {"all_users": "True", "limit": 10, "statuses": ["PENDING", "RUNNING"]}
        assert client.get("/api/workflow", params=live).json()["workflows"] == []
        names = [token["token_name"] for token in client.get("/api/auth/access_token").json()]
    assert "look" in names
    assert [name for name in names if name.startswith("check-")] == []
    assert run_osmo_admin("verify", "--data-dir", house.data_dir).returncode == 0


def test_a_round_trip_that_fails_says_why(house: UpProcess) -> None:
    with psycopg.connect(house.runtime_addresses()["DATABASE_URL"], autocommit=True) as session:
        session.execute("UPDATE pools_user SET is_active = false WHERE username = 'admin'")
        try:
            failed = run_round_trip(house)
        finally:
            session.execute("UPDATE pools_user SET is_active = true WHERE username = 'admin'")
    assert failed.returncode == 1
    assert "needs a user with the role osmo-admin" in failed.stderr
    assert "Traceback" not in failed.stderr


def run_round_trip(house: UpProcess) -> subprocess.CompletedProcess[str]:
    """What `--check` runs, against a house that is up already."""
    return subprocess.run(
        process_commands.round_trip_command(house.base_url), env=clean_env(house.runtime_addresses()), capture_output=True, text=True,
        timeout=90, check=False, cwd=ROOT,
    )  # fmt: skip
