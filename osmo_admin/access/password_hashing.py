"""One password hash at a time in each process.

A hash takes most of a second of processor time on purpose, and everybody may ask for one: the login form hashes each
password, also for names that nobody has. Without a limit a few anonymous requests a second occupy every web thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.hashers import PBKDF2PasswordHasher

from pools.domain.errors import Throttled

MOST_AT_ONCE = 2
"""One that hashes and one that waits: fewer than a web process has threads."""
RETRY_SECONDS = 3

_places = threading.BoundedSemaphore(MOST_AT_ONCE)
_turn = threading.Lock()


class OneAtATimeHasher(PBKDF2PasswordHasher):
    """Django's hasher with its name, so passwords that it has stored stay valid. Raises Throttled instead of a third
    hash at the same time as two others."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        with hash_turn():
            return super().encode(password, salt, iterations)


@contextmanager
def hash_turn() -> Iterator[None]:
    """Wait for the turn of this thread. Raises Throttled if another thread waits already."""
    if not _places.acquire(blocking=False):
        raise Throttled(
            f"Too many passwords are being checked at this moment. Nothing was changed: try again in {RETRY_SECONDS} "
            "seconds.",
            retry_after=RETRY_SECONDS,
        )
    try:
        with _turn:
            yield
    finally:
        _places.release()
