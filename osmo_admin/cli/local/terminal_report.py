"""How far a long replay is, on one line of a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from pools.domain.values.durations import span_text

if TYPE_CHECKING:
    from scheduling.history.traces.run import Progress

SECONDS_BETWEEN_REPORTS = 0.5


class TerminalReport:
    """The progress on one line of standard error, if that is a terminal."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._has_written = False

    def __call__(self, progress: Progress) -> None:
        if not self._is_terminal:
            return
        now = time.monotonic()
        if now - self._last < SECONDS_BETWEEN_REPORTS:
            return
        self._last, self._has_written = now, True
        days = progress.now / 86_400
        text = (
            f"{progress.cluster}: {progress.arrived:,} of {progress.jobs:,} jobs, "
            f"day {days:.1f}, {span_text(now - self._began)}"
        )
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the line."""
        if self._has_written:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
