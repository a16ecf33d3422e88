"""The data directory: its place, its content, and the lock of the running server.

DIR/                    the marker `osmo-admin.json` says that osmo-admin created it
  postgres/             the cluster (or `postgres.location`, see `postgres_home`)
  valkey/               the broker's append-only file
  logs/                 one file per process
  metrics/              counters the web processes share, emptied at each start; on Linux in /dev/shm instead
  webhook/              the certificates of the webhook server
  run/                  sockets, removed when the server stops
  alive/                one file per process that works in the background, for `osmo-admin probe`
  secrets.json  0600    created once and kept
  runtime.json  0600    addresses of the running server, removed when it stops
  up.lock               locked while a server runs; the kernel unlocks it when the process dies
  children.json         process groups of the running server, for the cleanup after a crash
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.ops.programs.privileges import SystemAccount, can_reach, change_owner

MARKER_FILE = "osmo-admin.json"
ROOT_DEFAULT_DIRECTORY = Path("/var/lib/osmo-admin")


def default_data_directory() -> Path:
    """`$OSMO_ADMIN_HOME`, else the state directory of the user; for root a folder outside of root's private home."""
    if chosen := os.environ.get("OSMO_ADMIN_HOME"):
        return Path(chosen)
    if os.geteuid() == 0:
        return ROOT_DEFAULT_DIRECTORY
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "osmo-admin"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "osmo-admin"


def write_private_file(path: Path, text: str) -> None:
    """Write a file that only its owner can read, atomically."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as out:  # mkstemp sets the mode 0600
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_json_object(path: Path) -> dict[str, Any]:
    """A JSON object, or an empty one if there is no file. Raises OperationError if it is damaged."""
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as broken:
        raise OperationError(f"{path} is damaged ({broken}). Restore it from a backup or remove it.") from broken
    if not isinstance(content, dict):
        raise OperationError(f"{path} must hold a JSON object. Restore it from a backup or remove it.")
    return content


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The state of one installation on disk."""

    root: Path

    @classmethod
    def open(cls, path: Path | None) -> DataDirectory:
        """The directory at `path` (default: see `default_data_directory`), not yet created."""
        return cls((path or default_data_directory()).expanduser().absolute())

    def prepare(self) -> None:
        """Create missing folders. Raises OperationError for a folder that osmo-admin did not make."""
        try:
            if not self.root.exists():
                # For root the user of the database must pass through, but may not list it. Parents get default modes.
                self.root.parent.mkdir(parents=True, exist_ok=True)
                self.root.mkdir(mode=0o700)
                self.root.chmod(0o711 if os.geteuid() == 0 else 0o700)
            if not self.root.is_dir():
                raise OperationError(f"--data-dir {self.root} is not a directory. Name a new or an empty one.")
            if not self.marker.exists():
                if any(self.root.iterdir()):
                    raise OperationError(
                        f"--data-dir {self.root} holds other files and was not created by osmo-admin. "
                        "Name a new or an empty directory."
                    )
                write_private_file(self.marker, json.dumps({"layout": 1}) + "\n")
            for folder in (self.logs, self.valkey):
                folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as problem:
            raise OperationError(f"--data-dir {self.root} cannot be used: {problem}.") from problem

    @property
    def marker(self) -> Path:
        return self.root / MARKER_FILE

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def valkey(self) -> Path:
        return self.root / "valkey"

    @property
    def webhook(self) -> Path:
        return self.root / "webhook"

    @property
    def metrics(self) -> Path:
        return self.root / "metrics"

    @property
    def alive(self) -> Path:
        return self.root / "alive"

    @property
    def metrics_in_memory(self) -> Path:
        """The folder for the same in the memory of the machine, with a name of this directory."""
        return Path("/dev/shm") / f"osmo-admin-{hashlib.sha256(str(self.root).encode()).hexdigest()[:16]}"  # noqa: S108

    @property
    def secrets(self) -> Path:
        return self.root / "secrets.json"

    @property
    def runtime(self) -> Path:
        return self.root / "runtime.json"

    @property
    def children(self) -> Path:
        return self.root / "children.json"

    @property
    def lock(self) -> Path:
        return self.root / "up.lock"

    @property
    def postgres_location(self) -> Path:
        """The file with the path of the database folder, if that lies outside."""
        return self.root / "postgres.location"

    def postgres_home(self, account: SystemAccount | None) -> Path:
        """The folder of the database cluster, owned by the account.

        It lies inside the data directory if the account can reach it. Root's home and pytest's folders are closed to
        the account; then a folder outside is used and stored in `postgres.location`, so that no permission changes.
        """
        if self.postgres_location.exists():
            home = Path(self.postgres_location.read_text().strip())
        elif can_reach(account, self.root):
            home = self.root / "postgres"
        else:
            home = self._make_outside_folder()
            write_private_file(self.postgres_location, f"{home}\n")
        home.mkdir(mode=0o700, exist_ok=True)
        change_owner(account, home)
        return home

    def _make_outside_folder(self) -> Path:
        """A new temporary folder for a temporary data directory, else one below the state directory of the system."""
        scratch = Path(tempfile.gettempdir()).resolve()
        if not self.root.resolve().is_relative_to(scratch):
            scratch = ROOT_DEFAULT_DIRECTORY
            scratch.mkdir(mode=0o711, parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="osmo-admin-postgres-", dir=scratch))

    def remove(self) -> None:
        """Delete everything that `prepare` and the servers created, and nothing else."""
        if self.postgres_location.exists():
            shutil.rmtree(self.postgres_location.read_text().strip(), ignore_errors=True)
        folders = (self.root / "postgres", self.valkey, self.logs, self.metrics, self.metrics_in_memory, self.alive)
        for folder in (*folders, self.root / "run"):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self.secrets, self.runtime, self.children, self.postgres_location, self.marker, self.lock):
            file.unlink(missing_ok=True)
        if not any(self.root.iterdir()):
            self.root.rmdir()


class DataDirectoryLock:
    """The lock of a data directory, for one server at a time. The file holds the pid for `down` and `status`."""

    def __init__(self, data: DataDirectory) -> None:
        self.data = data
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Take the lock. Raises OperationError if another process holds it."""
        file = os.fdopen(os.open(self.data.lock, os.O_RDWR | os.O_CREAT, 0o600), "r+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pid = file.read().strip() or "unknown"
            file.close()
            url = read_json_object(self.data.runtime).get("OSMO_PUBLIC_URL", "")
            raise OperationError(
                f"osmo-admin is already running on {self.data.root} (process {pid}{', ' + url if url else ''}). "
                f"Stop it with: osmo-admin down --data-dir {self.data.root}"
            ) from None
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._file = file

    def release(self) -> None:
        """Release the lock."""
        if self._file is not None:
            self._file.close()
            self._file = None


def find_running_pid(data: DataDirectory) -> int | None:
    """The pid of the server that runs on this directory, or None."""
    try:
        with data.lock.open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return int(file.read().strip() or 0) or None
    except FileNotFoundError:
        return None
    return None
