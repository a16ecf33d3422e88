"""The server's side of `sender_worker`: a process for each attempt at a time, a time limit, and a result in every
case."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from dataclasses import asdict
from typing import IO, Self

from pools.domain.people.notices import Outcome
from pools.domain.values.stored_text import as_storable
from scheduling.services.notices.sender_worker import SendRequest

ATTEMPT_SECONDS = 20.0
"""Of a whole attempt. A receiver that sends one byte now and then passes every shorter limit."""
_START_SECONDS = 30.0
_PASSED_ON = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "LANG", "TZ")


class SenderProcess:
    """One process that sends. It starts with the first attempt and is replaced after one that took too long."""

    def __init__(self, seconds: float = ATTEMPT_SECONDS) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, request: SendRequest) -> tuple[Outcome, str]:
        """Make one attempt. Raises nothing: a process that dies has failed."""
        process = self._process or self._start()
        deadline = time.monotonic() + self._seconds
        try:
            _pipe(process.stdin).write(json.dumps(asdict(request)).encode() + b"\n")
            _pipe(process.stdin).flush()
            answer = _read_answer(_pipe(process.stdout).fileno(), deadline)
        except OSError:
            answer = b""
        if answer is None:
            self.close()
            return Outcome.FAILED, f"The receiver did not answer within {self._seconds:.0f} seconds."
        try:
            found = json.loads(answer)
            return Outcome(found["outcome"]), as_storable(str(found["error"]))
        except ValueError:
            self.close()
            return Outcome.FAILED, "The process that sends has died during this attempt."

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        # The environment contains secrets of the installation, which receivers and their libraries must not see.
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "scheduling.services.notices.sender_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        _read_answer(_pipe(self._process.stdout).fileno(), time.monotonic() + _START_SECONDS)
        return self._process


def _read_answer(output: int, deadline: float) -> bytes | None:
    """One line; None if it is not complete in time."""
    poll = select.poll()
    poll.register(output, select.POLLIN)
    answer = bytearray()
    while not answer.endswith(b"\n"):
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return None
        piece = os.read(output, 65_536)
        if not piece:
            break
        answer += piece
    return bytes(answer)


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None, "the process was started with pipes"
    return stream
