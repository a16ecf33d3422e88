"""Processes of installations and commands that begin with the product loaded, which takes seconds of a processor.

One process for each pytest worker loads it and forks the others. What a fork cannot show (the imports of a process, and
the order of its start) needs a process of its own: `start_child`, `run_osmo_admin`.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from osmo_admin.ops.programs.process_commands import METRICS_DIR
from osmo_admin.ops.programs.processes import ChildProcess, ForkedProcess, process_start_time, start_child
from tests.support.services import FOLDER, ROOT

READ_WHEN_LOADED = {METRICS_DIR, "OSMO_EVENT_STREAMS", "OSMO_TRACES_URL"}


class PreloadedProcess(ForkedProcess):
    """A process that the server forked; as much of `subprocess.Popen` as tests need."""

    def poll(self) -> int | None:
        """None while it runs; afterwards the exit code, negative for a signal."""
        if self.returncode is None:
            self.returncode = _server().ask(self.pid)
        return self.returncode

    def wait(self, timeout: float = 600) -> int | None:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.01)
        return self.returncode


class _Server:
    def __init__(self, folder: Path) -> None:
        assert threading.current_thread() is threading.main_thread(), "the server ends with the thread that started it"
        self._socket, theirs = socket.socketpair()
        self._lock = threading.Lock()
        env = {name: value for name, value in os.environ.items() if not name.startswith("OSMO_")}
        env |= {"DJANGO_SETTINGS_MODULE": "osmo_admin.settings", "OSMO_SECRET_KEY": secrets.token_hex()}
        log = folder / f"preloaded-{os.getpid()}.log"
        with theirs:
            self._child = start_child(
                "preloaded", [sys.executable, "-m", "tests.support.preload_server", str(theirs.fileno())],
                log=log, env=env | {"PYTHONPATH": str(ROOT)}, cwd=ROOT, pass_fds=[theirs.fileno()],
            )  # fmt: skip
        self._answers = self._socket.makefile("r", encoding="utf-8")
        atexit.register(self._close)

    def ask(self, question: object) -> Any:
        """The answer to one line."""
        answer = ""
        try:
            with self._lock, suppress(ConnectionError):
                self._socket.sendall(json.dumps(question).encode() + b"\n")
                answer = self._answers.readline()
            assert answer, self._child.log_tail()
        except BaseException:  # also the end of a test's time: a late answer would be that of the next question
            _server.cache_clear()
            raise
        return json.loads(answer)

    def _close(self) -> None:
        self._answers.close()
        self._socket.close()
        self._child.popen.wait()
        self._child.log.unlink(missing_ok=True)


@cache
def _server() -> _Server:
    return _Server(Path(os.environ.get(FOLDER) or tempfile.gettempdir()))


def start_program(module: str, *arguments: str, address: str, output: Path, **more: str) -> ChildProcess:
    """A program of tests that works on the database at an address. `more`: variables of its environment."""
    env = {**os.environ, "DATABASE_URL": address, "DJANGO_SETTINGS_MODULE": "osmo_admin.settings", **more}
    env["OSMO_SECRET_KEY"] = "only-for-tests-" + "k" * 50
    errors = output.with_suffix(".errors")
    return start_service(module, [sys.executable, "-m", module, *arguments], log=output, env=env, errors=errors)


def start_service(
    name: str, command: Sequence[str], *, log: Path, env: Mapping[str, str], errors: Path | None = None
) -> ChildProcess:
    """In place of `start_child`, for `python -m MODULE ARGUMENTS`. `errors`: another file for the standard error."""
    if READ_WHEN_LOADED & env.keys():
        return start_child(name, command, log=log, env=env, cwd=ROOT)
    python, option, *words = command
    assert (python, option) == (sys.executable, "-m"), command
    for path in (log, errors or log):
        path.touch()
    order = {"words": words, "env": dict(env), "output": str(log), "errors": str(errors or log)}
    pid = _server().ask(order)
    return ChildProcess(name, log, PreloadedProcess(pid), started=process_start_time(pid))
