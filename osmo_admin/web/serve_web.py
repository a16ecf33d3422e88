"""The parent of the server processes: `python -m osmo_admin.web.serve_web TARGET …`, as `ops/process_commands.py` calls
it.

It is granian's own server with two rules of ours. A process that dies is started again after a growing pause and
without an end: granian ends the whole server when one dies twice within 5.5 s. And a process ends when its parent has
been killed: it would share the port with its successor.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.log import LogLevels, logger
from granian.server.mp import MPServer

from osmo_admin.ops.programs.process_commands import HEADER_TIMEOUT_MS, WEB, WEBHOOK
from osmo_admin.ops.programs.processes import request_death_signal
from osmo_admin.processes.start_checks import end_unless_fit

KILL_SECONDS = 3
# Seconds before a server process is started again, by the number of deaths within a minute; the last one is repeated.
PAUSES = (0.0, 0.5, 1.0, 2.0, 5.0)
WINDOW_SECONDS = 60.0
PARENT_SECONDS = 1.0


class WebServer(MPServer):
    """Granian's server; see the module."""

    def __init__(self, target: str, **options: Any) -> None:
        super().__init__(target, workers_kill_timeout=KILL_SECONDS, **options)
        self._deaths: deque[float] = deque()

    def _serve_loop(self, spawn_target: Any, target_loader: Any) -> None:
        while True:
            self.main_loop_interrupt.wait()
            if self.interrupt_signal:
                return
            self.main_loop_interrupt.clear()
            if self.reload_signal:
                self._reload(spawn_target, target_loader)  # type: ignore[no-untyped-call]
            dead: set[int] = set()
            while self.interrupt_children:
                dead.add(self.interrupt_children.pop())
            if dead and self._pause(len(dead)):
                return
            self._respawn_workers(sorted(dead), spawn_target, target_loader)

    def _pause(self, deaths: int) -> bool:
        """Wait before the next start; true if the server is stopped meanwhile."""
        now = time.monotonic()
        self._deaths.extend([now] * deaths)
        while now - self._deaths[0] > WINDOW_SECONDS:
            self._deaths.popleft()
        # Processes that are killed together are one death.
        pause = PAUSES[min(max(1, len(self._deaths) // self.workers), len(PAUSES)) - 1]
        logger.error(f"A server process ended; starting it again {f'in {pause:g} s' if pause else 'now'}")
        end = now + pause
        while not self.interrupt_signal and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
        return bool(self.interrupt_signal)


class ApplicationLoader:
    """Loads the application in a server process, whose parent is the process that made this object."""

    def __init__(self) -> None:
        self._parent = os.getpid()

    def __call__(self, target: str) -> Callable[..., Any]:
        end_with_parent(self._parent)
        from granian._internal import load_target  # noqa: PLC0415  (of a server process)

        application: Callable[..., Any] = load_target(target)
        return application


def end_with_parent(parent: int) -> None:
    """Let this process end when its parent dies: at once on Linux, within a second elsewhere; and in any case some
    seconds later, if a request keeps it."""
    request_death_signal(signal.SIGTERM, parent=parent)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(KILL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def main() -> None:
    """Serve until a signal requests the stop."""
    parser = argparse.ArgumentParser(prog="python -m osmo_admin.web.serve_web", description=__doc__)
    parser.add_argument("target", help="MODULE:ATTRIBUTE of the application")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--certificate", type=Path)
    parser.add_argument("--key", type=Path)
    parser.add_argument("--client-ca", type=Path)
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
    end_unless_fit(WEB if given.target.endswith(":application") else WEBHOOK)
    WebServer(
        given.target,
        address=given.host,
        port=given.port,
        workers=given.workers,
        interface=Interfaces.RSGI,
        http=HTTPModes.http1,  # the detection of HTTP/2 has no timeout
        websockets=False,
        http1_settings=HTTP1Settings(header_read_timeout=HEADER_TIMEOUT_MS),
        backpressure=given.connections,
        log_level=LogLevels.warning,
        ssl_cert=given.certificate,
        ssl_key=given.key,
        ssl_protocol_min=SSLProtocols.tls12,
        ssl_ca=given.client_ca,
        ssl_client_verify=given.client_ca is not None,
    ).serve(target_loader=ApplicationLoader())


if __name__ == "__main__":
    main()
