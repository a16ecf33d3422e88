"""The server's side of `sandbox_worker`: a few idle processes, a time limit for each render, and an answer in every
case.

Templates are programs of their authors. A sandbox inside the server's process cannot limit their time and memory (a
loop in a loop, a string times a billion); a process with limits can, and if it dies, only the template has failed.
OSMO's own service works the same way.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from pools.domain.errors import Busy

_PATIENCE = 5
"""The factor by which the server waits longer by the wall clock than a render's processor time: a busy node must not
refuse a valid template."""
_START_SECONDS = 30.0
RENDERS_AT_ONCE = 2
"""In one process. Fewer than a web process has threads, so that one of them always serves other requests."""
SLOT_WAIT_SECONDS = 0.5
"""A render takes milliseconds. One without a slot after this time waits for slow ones, and must not hold its thread."""
RETRY_SECONDS = 2
_RENDERS_BEFORE_RENEWAL = 500
_WORKER = Path(__file__).with_name("sandbox_worker.py")
_TOO_SLOW: dict[str, Any] = {"error": {"code": "too_slow", "message": "", "line": None}}


class _ProcessDied(Exception):
    """The process has died."""


class _NoAnswerInTime(Exception):
    """No answer in time."""


class _RenderProcess:
    def __init__(self) -> None:
        # Only the path to Jinja is passed on: a template must not see the environment and its secrets.
        environment = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(_WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self._input, self._output = _number(self.process.stdin), _number(self.process.stdout)
        self._poll = select.poll()
        self._poll.register(self._output, select.POLLIN)
        self.renders = 0
        try:
            self._receive(_START_SECONDS)
        except BaseException:
            self.close()
            raise

    def send_request(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        self.renders += 1
        data = json.dumps(request).encode()
        left = memoryview(struct.pack(">I", len(data)) + data)
        try:
            while left:
                left = left[os.write(self._input, left) :]
        except OSError as error:
            raise _ProcessDied from error
        return self._receive(_PATIENCE * seconds)

    def _receive(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        (length,) = struct.unpack(">I", self._read_exactly(4, deadline))
        found: dict[str, Any] = json.loads(self._read_exactly(length, deadline))
        return found

    def _read_exactly(self, size: int, deadline: float) -> bytes:
        got = bytearray()
        while len(got) < size:
            if not self._poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise _NoAnswerInTime
            piece = os.read(self._output, size - len(got))
            if not piece:
                raise _ProcessDied
            got += piece
        return bytes(got)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()

    def exceeded_time_limit(self) -> bool:
        """Whether the timer ended a process that has died."""
        try:
            return self.process.wait(1.0) == -signal.SIGPROF
        except subprocess.TimeoutExpired:
            return False


def _number(pipe: IO[bytes] | None) -> int:
    if pipe is None:
        raise _ProcessDied
    return pipe.fileno()


class _RenderProcessPool:
    def __init__(self) -> None:
        self.slots = threading.BoundedSemaphore(RENDERS_AT_ONCE)
        self.lock = threading.Lock()
        self.idle: list[_RenderProcess] = []

    def acquire(self) -> _RenderProcess:
        with self.lock:
            if self.idle:
                return self.idle.pop()
        try:
            return _RenderProcess()
        except (OSError, _ProcessDied, _NoAnswerInTime) as error:
            raise Busy("Templates cannot be rendered now; nothing was stored, try again.") from error

    def release(self, worker: _RenderProcess) -> None:
        if worker.renders >= _RENDERS_BEFORE_RENEWAL:
            worker.close()
            return
        with self.lock:
            self.idle.append(worker)

    def close(self) -> None:
        with self.lock:
            idle, self.idle = self.idle, []
        for worker in idle:
            worker.close()


_pools: dict[int, _RenderProcessPool] = {}
"""By process: a forked child must not talk to the workers of its parent."""


def render_in_sandbox(template: str, variables: Any, largest: int, *, seconds: float) -> dict[str, Any]:
    """The worker's answer (see `sandbox_worker`) after at most `seconds` of processor time; this side adds the error
    codes `too_slow` and `too_large`.

    `variables` is what `variables.encode` made. Raises `Busy` if no worker is available: that is not a fault of the
    template.
    """
    request = {"template": template, "variables": variables, "largest": largest, "seconds": seconds}
    pool = _current_pool()
    if not pool.slots.acquire(timeout=SLOT_WAIT_SECONDS):
        raise Busy(
            f"{RENDERS_AT_ONCE} slow templates of other people are being rendered; nothing was stored. Send this again "
            f"in {RETRY_SECONDS} seconds, or send a file without a template (the answer of a dry run).",
            retry_after=RETRY_SECONDS,
        )
    try:
        return _render(pool, request)
    finally:
        pool.slots.release()


def _render(pool: _RenderProcessPool, request: dict[str, Any]) -> dict[str, Any]:
    worker = pool.acquire()
    fresh = worker.renders == 0
    try:
        answer = worker.send_request(request, request["seconds"])
    except _NoAnswerInTime:
        worker.close()
        return _TOO_SLOW
    except _ProcessDied:
        slow = worker.exceeded_time_limit()
        worker.close()
        if slow:
            return _TOO_SLOW
        # An idle process may have been killed by other software; only a new process surely died of this template.
        return {"error": {"code": "too_large", "message": "", "line": None}} if fresh else _render(pool, request)
    except BaseException:
        worker.close()  # interrupted in the middle of a frame: its next bytes have no reader
        raise
    pool.release(worker)
    return answer


def _current_pool() -> _RenderProcessPool:
    return _pools.setdefault(os.getpid(), _RenderProcessPool())


@atexit.register
def _close() -> None:
    _current_pool().close()
