"""An installation for a benchmark: `osmo-admin up` on a temporary data directory, stopped and removed afterwards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_SECONDS = 90
BACKEND = "bench"
ADMIN_PASSWORD = "bench-password-4711"
LIVE_WORKFLOWS = 1_000_000
"""The limit of one user's live workflows, because one user submits the whole load."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Address, data directory, and an access token of `admin`."""

    base_url: str
    data_dir: Path
    secret: str

    def login(self, secret: str | None = None) -> str:
        """A fresh JWT of `admin`, or of the owner of another access token; one lives five minutes."""
        request = urllib.request.Request(
            f"{self.base_url}/api/auth/jwt/access_token",
            data=json.dumps({"token": secret or self.secret}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            token: str = json.load(answer)["token"]
            return token


@contextmanager
def run_installation() -> Iterator[Installation]:
    """Start an installation, connect this process's Django to its database, and stop it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="osmo-bench-"))
    folder.chmod(0o755)
    data_dir, output = folder / "data", folder / "up.out"
    port = find_free_port()
    os.environ["OSMO_MAX_LIVE_WORKFLOWS"] = str(LIVE_WORKFLOWS)  # of this process, which calls services, too
    environment = {**os.environ, "OSMO_ADMIN_PASSWORD": ADMIN_PASSWORD}
    log = output.open("wb")
    process = subprocess.Popen(
        [find_command(), "up", "--data-dir", str(data_dir), "--port", str(port), "--no-demo"],
        env=environment,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    base_url = f"http://127.0.0.1:{port}"
    try:
        wait_until_ready(process, base_url, output)
        _use_installation(data_dir)
        yield Installation(base_url, data_dir, _create_token(data_dir))
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


def find_command() -> str:
    """The command in the directory of this interpreter."""
    command = Path(sys.executable).with_name("osmo-admin")
    return str(command) if command.exists() else "osmo-admin"


def find_free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(process: subprocess.Popen[bytes], base_url: str, output: Path) -> None:
    """Return when it is ready. Raises SystemExit with its output if it does not start."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"the installation did not start:\n{output.read_text()}")
        try:
            with urllib.request.urlopen(f"{base_url}/ready", timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.05)
    raise SystemExit("the installation was not ready in time")


def _use_installation(data_dir: Path) -> None:
    runtime = json.loads((data_dir / "runtime.json").read_text())
    os.environ.update({name: str(value) for name, value in runtime.items()})
    os.environ["DATABASE_URL"] = os.environ.pop("OSMO_OWNER_DATABASE_URL")  # VACUUM ANALYZE needs the owner
    os.environ["DJANGO_SETTINGS_MODULE"] = "osmo_admin.settings"
    import django

    django.setup()


def _create_token(data_dir: Path) -> str:
    return subprocess.run(
        [find_command(), "token", "create", "admin", "bench", "--data-dir", str(data_dir)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
