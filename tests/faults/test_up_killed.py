"""`osmo-admin up` and its processes are killed during work, as in a power failure."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx
import psycopg
import pytest

from tests.ops.test_up import AS_ADMIN, check_environments
from tests.support import database, world
from tests.support.stack import SECRET_KEY
from tests.support.up import UpProcess, live_processes, run_preloaded

pytestmark = pytest.mark.fault

WORKFLOWS = 24
GPUS = 8  # work runs in waves
PATIENCE = 90.0


def kill_the_supervisor(running: UpProcess) -> None:
    running.process.kill()


def kill_everything(running: UpProcess) -> None:
    for group in [running.process.pid, *running.child_pids().values()]:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


@pytest.mark.usefixtures("used_data_dir")
@pytest.mark.parametrize("kill", [kill_the_supervisor, pytest.param(kill_everything, marks=pytest.mark.nightly)])
def test_killed_at_work_and_started_again(
    up: Callable[..., UpProcess], django_db_blocker: Any, kill: Callable[[UpProcess], None]
) -> None:
    quick = {"OSMO_SIMULATED_RUNTIME": "0.5", "OSMO_SETTLE_INTERVAL": "0.5"}
    first = up(env=quick).wait_ready()
    with django_db_blocker.unblock(), database.use_database(first.runtime_addresses()["DATABASE_URL"]):
        world.make_pool("team", GPUS, on=world.make_backend("waves", gpus=GPUS, auto_end=True))
    token = run_preloaded("token", "create", "admin", "load", "--data-dir", first.data_dir).stdout.strip()
    workflows = submit_work(first, token)
    wait_until(first, lambda: count_by_status(first).get("COMPLETED", 0) > 0)
    old, holder = first.child_pids(), first.beat_lease()
    kill(first)
    first.process.wait(60)

    # With other options, which this start must not mix with what it finds: a new key, and logins by a header.
    former = json.loads((first.data_dir / "secrets.json").read_text())["OSMO_SECRET_KEY"]
    keys = {"OSMO_SECRET_KEY": SECRET_KEY, "OSMO_SECRET_KEY_FALLBACKS": former}
    second = up("--dev", env={**quick, **keys, "OSMO_ADMIN_PASSWORD": ""}).wait_ready()
    second.end_beat_lease(holder)
    assert "shown this once" not in second.output_text(), "it has users"
    assert second.get("/api/profile/settings", headers=AS_ADMIN).status_code == 200, "--dev trusts the header"
    check_environments(second.child_pids(), SECRET_KEY)
    assert live_processes(old) == []
    assert set(second.child_pids().values()).isdisjoint(old.values())
    assert submit_work(second, token) == workflows, "the stored answer of the key survived"
    wait_until(second, lambda: count_by_status(second) == {"COMPLETED": WORKFLOWS})
    for action in ("workflow.submitted", "workflow.started", "workflow.ended"):
        assert audited_workflows(second, action) == sorted(workflows)
    verified = run_preloaded("verify", "--data-dir", second.data_dir)
    assert (verified.returncode, verified.stderr) == (0, "")
    pids = second.child_pids()
    assert second.stop(signal.SIGHUP) == 0, "a closed terminal stops it as Ctrl-C does"
    assert live_processes(pids) == []


def submit_work(running: UpProcess, token: str) -> list[str]:
    """Submit the work, always with the same key; its workflows."""
    login = httpx.post(f"{running.base_url}/api/auth/jwt/access_token", json={"token": token}, timeout=30).json()
    answer = httpx.post(
        f"{running.base_url}/api/pool/team/workflows",
        json={"workflows": [{"file": world.workflow_file("wave")}] * WORKFLOWS},
        headers={"Authorization": f"Bearer {login['token']}", "Idempotency-Key": "wave"},
        timeout=30,
    )
    assert answer.status_code == 200, answer.text
    return [workflow["name"] for workflow in answer.json()["workflows"]]


def count_by_status(running: UpProcess) -> dict[str, int]:
    """Status → number of workflows."""
    return dict(query_rows(running, "SELECT status, count(*) FROM scheduling_workflow GROUP BY status"))


def audited_workflows(running: UpProcess, action: str) -> list[str]:
    """The workflows in the audit entries of this action, once for each entry."""
    found = query_rows(running, "SELECT object FROM pools_auditentry WHERE action = %s", action)
    return sorted(name.removeprefix("workflow/") for (name,) in found)


def query_rows(running: UpProcess, query: str, *parameters: str) -> list[Any]:
    with psycopg.connect(running.runtime_addresses()["DATABASE_URL"], autocommit=True) as session:
        return session.execute(query, parameters).fetchall()  # type: ignore[call-overload]


def wait_until(running: UpProcess, condition: Callable[[], bool]) -> None:
    """Raises AssertionError with the states of the work and the output."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{count_by_status(running)}\n{running.output_text()}\n{read_logs(running)}"
        time.sleep(0.05)


def read_logs(running: UpProcess) -> str:
    """The ends of its log files."""
    found = sorted(running.data_dir.rglob("*.log"))
    return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-2000:]}" for path in found)
