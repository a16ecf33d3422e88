"""The embedded PostgreSQL of a data directory by itself, for a command that needs it while `osmo-admin up` does not
run."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from osmo_admin.ops.files.data_directory import DataDirectory, DataDirectoryLock
from osmo_admin.ops.programs.privileges import change_owner, find_database_account
from osmo_admin.ops.programs.processes import stop_children
from osmo_admin.ops.stores import postgres

STOP_SECONDS = 30.0


@contextmanager
def embedded_database(data: DataDirectory) -> Iterator[tuple[str, str]]:
    """Start the database, created if it is missing; yields the addresses of the role at run time and of the owner.

    Raises OperationError if OSMO Admin runs on this directory.
    """
    data.prepare()
    lock = DataDirectoryLock(data)
    lock.acquire()
    account = find_database_account()
    sockets = Path(tempfile.mkdtemp(prefix="osmo-", dir="/tmp"))  # private; the path must be short for a socket
    server: postgres.PostgresServer | None = None
    try:
        change_owner(account, sockets)
        home, log = data.postgres_home(account), data.logs / "postgres.log"
        server = postgres.launch_postgres(home, sockets, account, log=log)
        postgres.ensure_database(server)
        yield server.url(), server.url(user=postgres.OWNER)
    finally:
        if server is not None:
            stop_children([server.child], grace=STOP_SECONDS)
        shutil.rmtree(sockets, ignore_errors=True)
        lock.release()
