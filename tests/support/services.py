"""The PostgreSQL and Valkey of this test session: their addresses, and their start for the first test that needs them.

`TEST_DATABASE_URL` (a superuser's address) and `TEST_REDIS_URL` replace the embedded ones.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from osmo_admin.ops.programs.privileges import change_owner, find_database_account
from osmo_admin.ops.stores.postgres import RUNTIME
from tests.support import server_daemon

FOLDER = "OSMO_TEST_SERVICES"
START_SECONDS = 60.0
RUNTIME_PASSWORD = "only-for-tests"
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Services:
    """Addresses of the session's servers. `number` keeps xdist workers apart (0, 1, …)."""

    folder: Path
    number: int

    def database_url(self, name: str) -> str:
        """The address of one database."""
        if given := os.environ.get("TEST_DATABASE_URL"):
            return urlunsplit(urlsplit(given)._replace(path=f"/{name}"))
        return f"postgresql://postgres@/{name}?host={self.folder}"

    def runtime_url(self, name: str) -> str:
        """The address of one database for the processes of an installation: the role that reads and writes rows."""
        if given := os.environ.get("TEST_DATABASE_URL"):
            parts = urlsplit(given)
            host = parts.netloc.rpartition("@")[2]
            return urlunsplit(parts._replace(netloc=f"{RUNTIME}:{RUNTIME_PASSWORD}@{host}", path=f"/{name}"))
        return f"postgresql://{RUNTIME}@/{name}?host={self.folder}"

    def redis_url(self, *, stack: bool = False) -> str:
        """The broker's address; in-process tests and the running installation never share a queue."""
        number = 2 * self.number + int(stack)
        if given := os.environ.get("TEST_REDIS_URL"):
            return urlunsplit(urlsplit(given)._replace(path=f"/{number}"))
        return f"unix://{self.folder}/valkey.sock?db={number}"

    def database_name(self, purpose: str) -> str:
        """A name no other session or worker uses, also on a server that serves several sessions."""
        return f"{purpose}_{self.folder.name.removeprefix('osmo-test-').lower()}_{self.number}"

    @property
    def is_external(self) -> bool:
        """True if both servers are given by address, so there is none to start."""
        return bool(os.environ.get("TEST_DATABASE_URL") and os.environ.get("TEST_REDIS_URL"))

    @contextmanager
    def exclusive_lock(self, what: str) -> Iterator[None]:
        """A lock that one pytest worker at a time can hold."""
        with (self.folder / f"{what}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def ensure(self) -> None:
        """Start both servers unless they run. Raises RuntimeError with the reason if they do not answer."""
        if self.is_external:
            return
        with self.exclusive_lock("start"):
            if (self.folder / server_daemon.READY).exists():
                return
            controller = os.environ[f"{FOLDER}_PID"]
            command = [sys.executable, "-m", "tests.support.server_daemon", str(self.folder), controller]
            subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=True)
            deadline = time.monotonic() + START_SECONDS
            while not (self.folder / server_daemon.READY).exists():
                failed = self.folder / server_daemon.FAILED
                if failed.exists() or time.monotonic() > deadline:
                    reason = failed.read_text() if failed.exists() else f"no answer in {START_SECONDS:.0f} s"
                    raise RuntimeError(f"The tests' PostgreSQL and Valkey did not start: {reason}")
                time.sleep(0.05)


def open_session() -> None:
    """In the controlling process: choose a folder. A socket path has at most 100 characters, so its path is short."""
    if FOLDER in os.environ:
        return
    folder = Path(tempfile.mkdtemp(prefix="osmo-test-", dir="/tmp"))
    change_owner(find_database_account(), folder)
    os.environ[FOLDER] = str(folder)
    os.environ[f"{FOLDER}_PID"] = str(os.getpid())
    atexit.register(close_session)  # a session that fails while it is configured never gets to its end


def close_session() -> None:
    """In the controlling process: stop the servers and remove the folder."""
    if os.environ.get(f"{FOLDER}_PID") != str(os.getpid()):
        return
    folder = Path(os.environ.pop(FOLDER))
    del os.environ[f"{FOLDER}_PID"]
    pid_file = folder / server_daemon.PID
    if pid_file.exists():
        pid = int(pid_file.read_text())
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 10
        while folder.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
    for file in folder.glob("*") if folder.exists() else ():
        file.unlink(missing_ok=True)
    if folder.exists():
        folder.rmdir()


def current_services(worker: str | None) -> Services:
    """The services of an xdist worker, such as `gw3`; None for the only process."""
    number = int(worker.removeprefix("gw")) if worker else 0
    return Services(Path(os.environ[FOLDER]), number)
