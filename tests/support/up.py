"""`osmo-admin up` as a process of its own, to be stopped, killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psycopg

from osmo_admin.ops.programs.processes import kill_process_group
from tests.support import preloading
from tests.support.services import ROOT
from tests.support.stack import NO_TLS, find_free_port

START_SECONDS = 150.0
ADMIN_PASSWORD = "only-for-tests-4711"


def run_osmo_admin(*arguments: str | Path, env: Mapping[str, str] | None = None, seconds: float = 60) -> Any:
    """Run one `osmo-admin` command to its end. Returns the completed process (text)."""
    return subprocess.run(
        [sys.executable, "-m", "osmo_admin.cli.server", *map(str, arguments)],
        env=clean_env(env or {}), capture_output=True, text=True, timeout=seconds, check=False, cwd=ROOT,
    )  # fmt: skip


def run_preloaded(
    *arguments: str | Path, env: Mapping[str, str] | None = None, seconds: float = 60, module: str = ""
) -> subprocess.CompletedProcess[str]:
    """In place of `run_osmo_admin`, for a command that another test has run in a process of its own. `module`: another
    program."""
    command = [sys.executable, "-m", module or "osmo_admin.cli.server", *map(str, arguments)]
    with tempfile.TemporaryDirectory(prefix="osmo-command-") as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        child = preloading.start_service("command", command, log=output, env=clean_env(env or {}), errors=errors)
        try:
            code = child.popen.wait(seconds)  # type: ignore[call-arg]
        finally:
            child.kill_group()
        return subprocess.CompletedProcess(command, int(code or 0), output.read_text(), errors.read_text())


def clean_env(extra: Mapping[str, str]) -> dict[str, str]:
    """This environment without variables that point a command at another installation."""
    ours = {"DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE"}
    kept = {name: value for name, value in os.environ.items() if name not in ours and not name.startswith("OSMO_")}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**kept, "PYTHONPATH": path, **extra}


def is_running(pid: int) -> bool:
    """True for a running process that is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def live_processes(pids: dict[str, int]) -> list[int]:
    """All running processes of these groups."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            group = int((folder / "stat").read_text().rpartition(")")[2].split()[2])
        except (OSError, ValueError, IndexError):
            continue
        if group in pids.values() and is_running(int(folder.name)):
            found.append(int(folder.name))
    return found


class UpProcess:
    """One start of `osmo-admin up` on `data_dir`. `output` is the file with its output."""

    def __init__(self, data_dir: Path, *options: str, env: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir
        self.port = find_free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.output = data_dir.parent / f"{data_dir.name}-output-{self.port}.txt"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "osmo_admin.cli.server", "up", "--data-dir", str(data_dir), "--no-demo",
                 "--port", str(self.port), *options],
                env=clean_env({"OSMO_ADMIN_PASSWORD": ADMIN_PASSWORD, **(env or {})}),
                stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=ROOT, start_new_session=True,
            )  # fmt: skip

    def wait_ready(self) -> UpProcess:
        """Raises AssertionError with the output when it does not come up."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if "Ready:" in self.output_text():
                return self
            time.sleep(0.1)
        raise AssertionError(f"osmo-admin up is not ready (exit code {self.process.poll()}):\n{self.output_text()}")

    def output_text(self) -> str:
        """The output so far."""
        return self.output.read_text(errors="replace")

    def runtime_addresses(self) -> dict[str, str]:
        """The addresses that it wrote for other commands."""
        found: dict[str, str] = json.loads((self.data_dir / "runtime.json").read_text())
        return found

    def owner_url(self) -> str:
        """The address of its embedded database with the role that owns the tables."""
        return self.runtime_addresses()["OSMO_OWNER_DATABASE_URL"]

    def beat_lease(self) -> UUID | None:
        """Who holds the lease of beat."""
        with psycopg.connect(self.owner_url(), autocommit=True) as session:
            row = session.execute("SELECT lease_holder FROM scheduling_beatlease").fetchone()
        return row[0] if row else None

    def end_beat_lease(self, holder: UUID | None) -> None:
        """The lease of a killed beat ends now and not in 15 s. That its successor waits no longer than that:
        tests/faults/test_two_beats.py."""
        with psycopg.connect(self.owner_url(), autocommit=True) as session:
            session.execute(
                "UPDATE scheduling_beatlease SET lease_expires_at = now() WHERE lease_holder = %s", [holder]
            )

    def child_pids(self) -> dict[str, int]:
        """Process ids by name, as written for clean-up after a crash."""
        entries = json.loads((self.data_dir / "children.json").read_text())["children"]
        return {entry["name"]: entry["pid"] for entry in entries}

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """One anonymous request."""
        return httpx.get(self.base_url + path, headers=headers, timeout=60, verify=NO_TLS)

    def stop(self, how: signal.Signals = signal.SIGINT, *, seconds: float = 60) -> int:
        """Signal it and wait. Returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(seconds)

    def kill(self) -> None:
        """End all of it at once."""
        groups = list(self.child_pids().values()) if (self.data_dir / "children.json").exists() else []
        self.process.kill()
        self.process.wait(60)
        for group in groups:
            kill_process_group(group)

    def wait(self, *, seconds: float = 60) -> int:
        """The exit code once it has ended by itself."""
        return self.process.wait(seconds)
