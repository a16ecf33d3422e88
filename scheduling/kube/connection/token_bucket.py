"""A token bucket: at most `rate` actions a second on average, and up to `burst` at once after a pause."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class TokenBucket:
    """Safe to use from several threads. `clock` returns monotonic seconds."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._tokens, self._filled_at = burst, clock()
        self._lock = threading.Lock()

    def try_take(self, reserved: float = 0.0) -> float:
        """Take a token and return 0, or return the seconds until there will be one beyond the `reserved` ones."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
            self._filled_at = now
            missing = 1 + reserved - self._tokens
            if missing <= 0:
                self._tokens -= 1
                return 0.0
            return missing / self._rate
