"""A process of the installation that is started again whenever it dies, at growing intervals."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from osmo_admin.ops.programs.processes import ChildProcess

# Seconds before each restart within the window; the last one is repeated.
DELAYS = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
WINDOW_SECONDS = 300.0
# A process that died so often within the window is shown as one that keeps dying.
MANY_DEATHS = 6


@dataclass(slots=True)
class Service:
    """One process with the function that starts it. `start` returns when it runs, or raises OperationError."""

    name: str
    start: Callable[[], ChildProcess]
    child: ChildProcess | None = None
    restart_at: float | None = None
    restarts: int = 0
    last_restart: str = ""
    problem: str = ""
    _deaths: list[float] = field(default_factory=list)

    def launch(self) -> None:
        """Start it for the first time."""
        self.child = self.start()

    def is_running(self) -> bool:
        """True while its process runs."""
        return self.child is not None and self.child.exit_code() is None

    def note_death(self, now: float, problem: str) -> float:
        """Record that the process died or could not start, and how. Returns the seconds until the next start."""
        self._deaths = [at for at in self._deaths if now - at < WINDOW_SECONDS]
        self._deaths.append(now)
        self.problem = problem
        delay = DELAYS[min(len(self._deaths), len(DELAYS)) - 1]
        self.restart_at = now + delay
        return delay

    def keeps_dying(self, now: float) -> bool:
        """True while it dies again and again, also between two starts."""
        return sum(now - at < WINDOW_SECONDS for at in self._deaths) >= MANY_DEATHS

    def restart(self) -> None:
        """Start it again."""
        self.restart_at = None
        self.child = self.start()
        self.restarts += 1
        self.last_restart = datetime.now(UTC).isoformat(timespec="seconds")


def describe_end(child: ChildProcess) -> str:
    """How a dead process ended: `web (process 4711) was killed by SIGKILL`."""
    code = child.exit_code()
    if code is not None and code < 0:
        return f"{child.name} (process {child.pid}) was killed by {signal.Signals(-code).name}"
    return f"{child.name} (process {child.pid}) ended with exit code {code}"
