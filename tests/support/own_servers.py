"""A PostgreSQL and a Valkey that belong to one group of tests, which may kill and restart them.

PostgreSQL commits here as in production, because acknowledged data must survive a crash; only failures of the machine
itself are excluded.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from osmo_admin.ops.programs.privileges import change_owner, find_database_account
from osmo_admin.ops.programs.processes import stop_children
from osmo_admin.ops.stores import postgres, valkey
from tests.support.children import popen_of
from tests.support.services import Services

SETTINGS = dict(postgres.SETTINGS) | {"fsync": "off", "full_page_writes": "off", "shared_buffers": "64MB"}


@dataclass(frozen=True, slots=True)
class KillableServers(Services):
    """Both servers, on sockets in `folder`. Start them from the main thread: they end with the thread that
    started them."""

    _running: dict[str, postgres.PostgresServer | valkey.ValkeyServer] = field(default_factory=dict)

    @classmethod
    def create(cls, number: int) -> KillableServers:
        """A new folder, whose path is short enough for a socket; nothing runs yet."""
        folder = Path(tempfile.mkdtemp(prefix="osmo-test-", dir="/tmp"))
        (folder / "postgres").mkdir(mode=0o700)
        (folder / "valkey").mkdir()
        for path in (folder, folder / "postgres"):
            change_owner(find_database_account(), path)
        return cls(folder, number)

    def database_url(self, name: str) -> str:
        """The address of one database."""
        return f"postgresql://postgres@/{name}?host={self.folder}"

    def runtime_url(self, name: str) -> str:
        """The address of one database for the processes of an installation."""
        return f"postgresql://{postgres.RUNTIME}@/{name}?host={self.folder}"

    def redis_url(self, *, stack: bool = False) -> str:
        """The broker's address."""
        return f"unix://{self.folder}/valkey.sock?db={int(stack)}"

    def start_database(self) -> None:
        """Start it on its data; it answers when this returns."""
        home, log = self.folder / "postgres", self.folder / "postgres.log"
        self._running["database"] = postgres.launch_postgres(
            home, self.folder, find_database_account(), log=log, settings=SETTINGS, durable=False
        )

    def stop_database(self, how: signal.Signals) -> None:
        """SIGINT ends sessions in order (fast), SIGQUIT like a crash (immediate)."""
        self._stop("database", how)

    def start_broker(self) -> None:
        """Start it with its queued messages."""
        self._running["broker"] = valkey.launch_valkey(
            self.folder / "valkey", self.folder, log=self.folder / "valkey.log"
        )

    def stop_broker(self, how: signal.Signals) -> None:
        """Stop the broker."""
        self._stop("broker", how)

    @contextmanager
    def frozen_broker(self) -> Iterator[None]:
        """The broker accepts connections and does not answer."""
        child = self._running["broker"].child
        child.popen.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            child.popen.send_signal(signal.SIGCONT)

    def start_missing(self) -> None:
        """Start the servers that do not run."""
        for name, start in (("database", self.start_database), ("broker", self.start_broker)):
            if name not in self._running:
                start()

    def remove(self) -> None:
        """Stop both, without a last checkpoint, and leave nothing behind."""
        if "database" in self._running:
            self._running["database"].child.stop_signal = signal.SIGQUIT
        stop_children([server.child for server in self._running.values()], grace=5)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _stop(self, name: str, how: signal.Signals) -> None:
        child = self._running.pop(name).child
        child.popen.send_signal(how)
        popen_of(child).wait(60)
        child.kill_group()
