"""Processes die while a firm moves in: an import, an `apply`, a proof and a cancellation are whole, or not there."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import httpx
import pytest

from osmo_admin.ops.programs import process_commands
from tests.faults.installation import FaultyInstallation
from tests.support.services import ROOT
from tests.support.up import run_osmo_admin, run_preloaded
from tests.unit.replay.test_proof import job
from tests.unit.replay.test_sacct import HEADER

pytestmark = pytest.mark.fault

POOLS = 6
MADE = "SELECT name FROM pools_pool WHERE name LIKE %s"
AUDIT = "SELECT object FROM pools_auditentry WHERE object LIKE %s"
LIST = "/workflows"


def accounts(prefix: str) -> str:
    """A dump with some accounts."""
    rows = "".join(f"Account - '{prefix}{number}':GrpTRES=gres/gpu=4\n" for number in range(POOLS))
    return f"Cluster - '{prefix}top'\nParent - 'root'\nAccount - '{prefix}lab'\nParent - '{prefix}lab'\n{rows}"


def made(installation: FaultyInstallation, prefix: str) -> tuple[int, int]:
    """The pools of this import, and the entries about them in the audit trail."""
    audited = {row["object"] for row in installation.query(AUDIT, f"pool/{prefix}%")}
    return len(installation.query(MADE, f"{prefix}%")), len(audited)


@contextmanager
def osmo_admin(env: Mapping[str, str], *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """One `osmo-admin` command that runs."""
    words = [sys.executable, "-m", "osmo_admin.cli.server", *map(str, arguments)]
    with subprocess.Popen(
        words, env=dict(env), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def finished(env: Mapping[str, str], *arguments: str | Path) -> tuple[int, str]:
    """The exit code and the output of one command."""
    done = run_preloaded(*arguments, env=env, seconds=120)
    return done.returncode, done.stdout + done.stderr


class Browser:
    """A person's session on the running web server."""

    def __init__(self, installation: FaultyInstallation) -> None:
        name, value = installation.sign_in("admin")
        self.client = installation.anonymous_client(cookies={name: value})
        assert self.client.get("/import").status_code == 200

    def post(self, address: str, fields: Mapping[str, object], **files: object) -> httpx.Response:
        """A form that was sent."""
        data = {**fields, "csrfmiddlewaretoken": self.client.cookies["csrftoken"]}
        headers = {"Referer": f"{self.client.base_url}/", "Origin": str(self.client.base_url).rstrip("/")}
        return self.client.post(address, data=data, headers=headers, **files)  # type: ignore[arg-type]

    def preview_of_import(self, text: str, backend: str) -> dict[str, str]:
        """What the button of the preview of an import sends."""
        fields = {"kind": "slurm", "step": "preview", "backend": backend}
        sent = self.post("/import", fields, files={"upload": ("tux.cfg", text.encode())})
        assert sent.status_code == 302, sent.text
        page = self.client.get(sent.headers["Location"])
        found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text)
        return {**{name: unescape(value) for name, value in found}, "step": "confirm"}


def test_killed_while_an_import_is_written(installation: FaultyInstallation, tmp_path: Path) -> None:
    """By the page, and by `apply`."""
    prefix = installation.unique_name("in").replace("_", "-")
    (tmp_path / "tux.cfg").write_text(accounts(prefix))
    importing = ("import", "slurm", tmp_path / "tux.cfg", "-o", tmp_path / "config", "--backend", f"{prefix}-sim")
    assert run_osmo_admin(*importing, env=installation.env).returncode == 2
    browser = Browser(installation)
    hidden = browser.preview_of_import(accounts(prefix), f"{prefix}-sim")
    with killed_web(installation, "pools_auditentry"):
        browser.post("/import", hidden)
    check_nothing_written(installation, prefix)
    installation.restart_dead()
    installation.wait_ready()
    applying = ("apply", "-f", tmp_path / "config")
    with installation.hold_tables("pools_auditentry"), osmo_admin(installation.env, *applying) as process:
        installation.wait_until(installation.is_waiting_for_lock, what="the command writes")
        process.kill()
        process.wait()
    check_nothing_written(installation, prefix)
    code, output = finished(installation.env, *applying)
    assert code == 0, output
    assert made(installation, prefix) == (POOLS, POOLS)
    assert run_osmo_admin("diff", "-f", tmp_path / "config", env=installation.env).returncode == 0
    installation.assert_consistent()


def check_nothing_written(installation: FaultyInstallation, prefix: str) -> None:
    installation.wait_until(lambda: not installation.is_in_transaction(), what="the killed session is gone")
    assert made(installation, prefix) == (0, 0)
    installation.assert_consistent()


@contextmanager
def killed_web(installation: FaultyInstallation, table: str) -> Iterator[None]:
    """The web server dies during the request, when it waits for this table."""

    def kill() -> None:
        installation.wait_until(installation.is_waiting_for_lock, what="the page writes")
        installation.kill_process(process_commands.WEB)

    killer = threading.Thread(target=kill)
    with installation.hold_tables(table):
        killer.start()
        with pytest.raises(httpx.TransportError):
            yield
        killer.join()


def test_killed_while_many_workflows_are_cancelled(installation: FaultyInstallation) -> None:
    pool, name = installation.make_pools(1)[0], installation.unique_name("many")
    assert installation.submit(pool, name, count=40).status_code == 200
    installation.wait_all_running(name)
    browser = Browser(installation)
    fields = {"name": sorted(installation.workflow_statuses(name)), "step": "confirm"}
    with killed_web(installation, "pools_auditentry"):
        browser.post(f"{LIST}/-/cancel", fields)
    installation.wait_until(lambda: not installation.is_in_transaction(), what="the killed session is gone")
    assert set(installation.workflow_statuses(name).values()) == {"RUNNING"}
    assert installation.audited_workflows("workflow.canceled", name) == []
    installation.assert_consistent()
    installation.restart_dead()
    installation.wait_ready()
    answer = Browser(installation).post(f"{LIST}/-/cancel", fields)
    assert answer.status_code == 200, answer.text
    assert set(installation.workflow_statuses(name).values()) == {"FAILED_CANCELED"}
    installation.assert_consistent()


def test_killed_while_a_proof_runs(installation: FaultyInstallation, tmp_path: Path) -> None:
    """The former page and file of jobs stay whole; another run writes both."""
    config, out = tmp_path / "config", tmp_path / "proof"
    (tmp_path / "tux.cfg").write_text("Cluster - 'tux'\nParent - 'root'\nAccount - 'bio':GrpTRES=gres/gpu=8\n")
    importing = ("import", "slurm", tmp_path / "tux.cfg", "-o", config, "--guarantee", "limit")
    assert finished(installation.env, *importing)[0] == 2
    month = tmp_path / "month.txt"
    proving = ("prove", "-f", config, "--history", month, "--nodes", "4x8", "-o", out)
    month.write_text(HEADER + job(1, 0, 1, AllocTRES="gres/gpu=1"))
    assert finished(installation.env, *proving)[0] == 0
    former = {path.name: path.read_bytes() for path in out.iterdir()}
    assert sorted(former) == ["jobs.csv", "proof.html"]
    rows = (job(n, n % 7, 1, AllocTRES="gres/gpu=2", User=f"u{n}") for n in range(3_000))
    month.write_text(HEADER + "".join(rows))
    # In place of the file that it writes, a pipe that holds less than that, and that nobody empties.
    partial = out / ".jobs.csv.partial"
    os.mkfifo(partial)
    with osmo_admin(installation.env, *proving) as process:
        reader = os.open(partial, os.O_RDONLY | os.O_NONBLOCK)
        assert select.select([reader], [], [], 60)[0], "it writes"
        process.kill()
        process.wait()
        os.close(reader)
    partial.unlink()
    assert {name: (out / name).read_bytes() for name in former} == former
    assert sorted(path.name for path in out.iterdir()) == sorted(former)
    month.write_text(HEADER + job(1, 0, 1, AllocTRES="gres/gpu=1") + job(2, 1, 1, AllocTRES="gres/gpu=1"))
    assert finished(installation.env, *proving)[0] == 0
    assert sorted(path.name for path in out.iterdir()) == ["jobs.csv", "proof.html"]
    assert len((out / "jobs.csv").read_text().splitlines()) == 3
