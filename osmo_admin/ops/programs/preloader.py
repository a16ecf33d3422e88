"""The supervisor's side of `osmo_admin.processes.preloaded`: services that begin with the whole program loaded.

Only Linux gives an orphan to a chosen ancestor. Elsewhere each service is a program of its own: it starts more slowly
and takes more memory.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.ops.programs.processes import (
    ChildProcess,
    ForkedProcess,
    adopt_orphans,
    process_start_time,
    start_child,
)

NAME = "preloaded"
LOAD_SECONDS = 90.0


class Preloader:
    """The process that forks the services, and the socket to it."""

    def __init__(self, *, log: Path, env: Mapping[str, str]) -> None:
        adopt_orphans()
        self._log, self._env = log, env
        self._requests: socket.socket | None = None

    def start(self) -> ChildProcess:
        """Start the process. It loads the program while the caller goes on."""
        ours, theirs = socket.socketpair()
        with theirs:
            child = start_child(
                NAME,
                [sys.executable, "-m", "osmo_admin.processes.preloaded", str(theirs.fileno())],
                log=self._log,
                env=self._env,
                pass_fds=[theirs.fileno()],
            )
        ours.settimeout(LOAD_SECONDS)
        self.close()
        self._requests = ours
        return child

    def close(self) -> None:
        """Close the socket, so that the process ends."""
        if self._requests is not None:
            self._requests.close()

    def start_service(self, name: str, command: Sequence[str], *, log: Path, env: Mapping[str, str]) -> ChildProcess:
        """Fork a service that runs `command`, which is `python -m MODULE ARGUMENTS`. Raises OperationError."""
        python, option, module, *arguments = command
        assert (python, option) == (sys.executable, "-m"), command
        request = {"name": name, "module": module, "arguments": arguments, "env": dict(env), "log": str(log)}
        assert self._requests is not None, "the process was started"
        try:
            self._requests.sendall(json.dumps(request).encode() + b"\n")
            answer = self._requests.recv(1000)
        except OSError as problem:
            raise OperationError(
                f"The process that starts {name} does not answer ({problem}); see {self._log}."
            ) from problem
        if not answer:
            raise OperationError(f"The process that starts {name} has ended; see {self._log}.")
        pid = json.loads(answer)["pid"]
        return ChildProcess(name, log, ForkedProcess(pid), started=process_start_time(pid))


def can_preload() -> bool:
    """True where an orphan can be given to the supervisor."""
    return sys.platform == "linux"
