"""How long to wait before asking a cluster again: longer each time, never all at the same moment."""

from __future__ import annotations

import random

FIRST_PAUSE, MAX_PAUSE = 0.25, 30.0  # seconds


class Backoff:
    """Doubles up to `most` seconds; each pause is drawn from its upper half, so that many who lost the same cluster do
    not come back together. What the server asks for is the least."""

    def __init__(self, first_pause: float = FIRST_PAUSE, max_pause: float = MAX_PAUSE) -> None:
        self._first, self._most = first_pause, max_pause
        self._failures = 0

    @property
    def failures(self) -> int:
        """How many pauses there were since the last success."""
        return self._failures

    def next_pause(self, at_least: float | None = None) -> float:
        """Seconds to wait after one more failure."""
        longest = min(self._most, self._first * (1 << min(self._failures, 30)))
        self._failures += 1
        return max(at_least or 0.0, longest * random.uniform(0.5, 1.0))  # noqa: S311  (spreads load, keeps no secret)

    def reset(self) -> None:
        """It answered."""
        self._failures = 0
