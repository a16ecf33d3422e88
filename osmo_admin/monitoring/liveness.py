"""A thread in worker, beat and clusters that tells a process that hangs from one that waits for a server.

The main loop of the process notes each round (`note_round`). The thread renews the file of the process
(:mod:`osmo_admin.ops.files.life_files`) while rounds are recent. Without a round for STUCK_SECONDS it asks database and
broker itself: if one of them does not answer, the process may wait for it, and a restart would not help; if both
answer, the process hangs, and its file is no longer renewed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import redis
import structlog
from django.db import Error as DatabaseError
from django.db import connection

from osmo_admin.monitoring import heartbeat
from osmo_admin.ops.files.life_files import RENEW_SECONDS, show_life
from osmo_admin.ops.programs.errors import OperationError
from pools.database.statements import execute_sql

STUCK_SECONDS = 60.0
log = structlog.get_logger(__name__)


class Liveness:
    """The signs of life of this process; `start` begins them. `is_working`: whether its other threads or child
    processes do not hang; called in the thread, so it must be quick and must not wait."""

    def __init__(self, kind: str, is_working: Callable[[], bool] = lambda: True) -> None:
        self.kind = kind
        self._is_working = is_working
        self._pid: int | None = None
        self._last_round = 0.0
        self._last_failure = ""

    def start(self) -> None:
        """Start the thread, once in each process (a fork has only the thread that forked)."""
        if self._pid == os.getpid():
            return
        self._pid = os.getpid()
        self.note_round()
        threading.Thread(target=self._run, name="liveness", daemon=True).start()

    def note_round(self) -> None:
        """The main loop of the process goes on."""
        self._last_round = time.monotonic()

    def _run(self) -> None:
        while True:
            try:
                if self.is_alive():
                    self._show_life()
            except Exception:  # no sign of life then; the next round may give one
                log.exception("life_not_known", process=self.kind)
            time.sleep(RENEW_SECONDS)

    def is_alive(self) -> bool:
        """Whether the process works, or waits for a server that does not answer."""
        if time.monotonic() - self._last_round < STUCK_SECONDS and self._is_working():
            return True
        if _servers_answer():
            return False
        self.note_round()  # when the server answers again, the process has some time to notice it
        return True

    def _show_life(self) -> None:
        try:
            show_life(self.kind)
        except (OSError, OperationError) as problem:
            if str(problem) != self._last_failure:
                self._last_failure = str(problem)
                log.warning("life_not_shown", process=self.kind, problem=self._last_failure)


def _servers_answer() -> bool:
    """Whether database and broker answer; the broker is written to, because a full one refuses only that."""
    try:
        heartbeat.write_to_redis()
        execute_sql("SELECT 1")
    except (redis.RedisError, DatabaseError):
        return False
    finally:
        connection.close()  # of this thread
    return True
