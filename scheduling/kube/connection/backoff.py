"""Growing pauses between calls to a failing cluster, with jitter."""

from __future__ import annotations

import random

FIRST_PAUSE, MAX_PAUSE = 0.25, 30.0  # seconds


class Backoff:
    """Doubles the pause up to `max_pause` seconds. Each pause is random within its upper half, so that many clients of
    the same cluster do not return together. A pause that the server asks for is the minimum."""

    def __init__(self, first_pause: float = FIRST_PAUSE, max_pause: float = MAX_PAUSE) -> None:
        self._first, self._most = first_pause, max_pause
        self._failures = 0

    @property
    def failures(self) -> int:
        """The number of pauses since the last success."""
        return self._failures

    def next_pause(self, at_least: float | None = None) -> float:
        """Seconds to wait after one more failure."""
        longest = min(self._most, self._first * (1 << min(self._failures, 30)))
        self._failures += 1
        return max(at_least or 0.0, longest * random.uniform(0.5, 1.0))  # noqa: S311  (spreads load, keeps no secret)

    def reset(self) -> None:
        """The cluster answered."""
        self._failures = 0
