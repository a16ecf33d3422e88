"""Keeps the test session's PostgreSQL and Valkey: `python -m tests.support.server_daemon FOLDER PID`.

A process of its own, because the pytest worker that first needs a server may end before the others. It stops both
after SIGTERM, or when process PID, the pytest controller, has ended, and removes FOLDER.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from pathlib import Path

from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.ops.programs.privileges import change_owner, find_database_account
from osmo_admin.ops.programs.processes import process_start_time, stop_children
from osmo_admin.ops.stores import postgres, valkey

READY = "ready"
FAILED = "failed"
PID = "server_daemon.pid"
# Throw-away data: no waiting for the disk. Races and fault tests open many sessions, hence the connections.
SETTINGS = dict(postgres.SETTINGS) | {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    "shared_buffers": "64MB",
}


def run_servers(folder: Path, controller: int) -> None:
    """Start both servers, write the file `ready`, wait, stop both."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    (folder / PID).write_text(str(os.getpid()))
    born = process_start_time(controller)
    children = []
    try:
        account = find_database_account()
        home = folder / "postgres"
        home.mkdir(mode=0o700)
        change_owner(account, home)
        (folder / "valkey").mkdir()
        log = folder / "postgres.log"
        children.append(
            postgres.launch_postgres(home, folder, account, log=log, settings=SETTINGS, durable=False).child
        )
        children.append(valkey.launch_valkey(folder / "valkey", folder, log=folder / "valkey.log", durable=False).child)
        (folder / READY).touch()
        while not stop.wait(0.5) and process_start_time(controller) == born:
            pass
    except OperationError as problem:
        (folder / FAILED).write_text(str(problem))
        stop.wait(10)  # leave the reason where the waiting test can read it
    finally:
        stop_children(reversed(children), grace=5)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    if os.fork():
        os._exit(0)  # the caller waits for this process only; the daemon outlives it
    os.setsid()
    run_servers(Path(sys.argv[1]), int(sys.argv[2]))
