"""Follow one mounted file: apply it at start, and again after each change (OSMO 6.4's rules for its ConfigMap).

The file is polled, because the volume of a ConfigMap replaces it through the symlink `..data`, and other volumes send
no events at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

GATHER_SECONDS = 2.0
"""A change is applied once the file has stayed the same for this time."""

START_SECONDS = 30.0
"""The time for which the start waits for a file that is not there yet."""

POLL_SECONDS = 0.5

Fingerprint = tuple[str, int, int, int]


class FileMissing(Exception):
    """The file was not there in time."""


class FileRefused(Exception):
    """The file cannot be applied; the message has every fault. `may_pass`: not now, but the same file later."""

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass


@dataclass(slots=True)
class FileFollower:
    """Calls `apply` with the content of the file at start and after each change. `apply` raises FileRefused.

    `wait` sleeps for some seconds and returns whether to stop; `clock` is a monotonic time in seconds.
    """

    path: Path
    apply: Callable[[bytes], None]
    report: Callable[[str], None]
    wait: Callable[[float], bool]
    clock: Callable[[], float] = time.monotonic

    def follow(self) -> None:
        """Apply the file until `wait` says to stop. Raises FileMissing, and FileRefused for the first content."""
        applied = self._await_file()
        if applied is None:
            return
        self.apply(self.path.read_bytes())
        while not self.wait(POLL_SECONDS):
            present = fingerprint(self.path)
            if present != applied:
                applied = self._apply_change(present)

    def _apply_change(self, changed: Fingerprint | None) -> Fingerprint | None:
        """The state that needs no further attempt."""
        settled = self._gather(changed)
        if settled is None:
            self.report(f"{self.path} is gone; the configuration stays as it was.")
            return None
        try:
            self.apply(self.path.read_bytes())
        except FileRefused as refusal:
            self.report(f"{self.path} was changed and cannot be applied; the old configuration stays. {refusal}")
            return None if refusal.may_pass else settled
        except FileNotFoundError:
            return None
        return settled

    def _await_file(self) -> Fingerprint | None:
        end = self.clock() + START_SECONDS
        while (found := fingerprint(self.path)) is None:
            if self.clock() >= end:
                raise FileMissing(f"{self.path} was not there after {START_SECONDS:.0f} s.")
            if self.wait(POLL_SECONDS):
                return None
        return found

    def _gather(self, changed: Fingerprint | None) -> Fingerprint | None:
        since = self.clock()
        while self.clock() - since < GATHER_SECONDS and not self.wait(POLL_SECONDS):
            present = fingerprint(self.path)
            if present != changed:
                changed, since = present, self.clock()
        return changed


def fingerprint(path: Path) -> Fingerprint | None:
    """What changes with the file: its place behind all symlinks, its inode, its time and its size. None without it."""
    try:
        real = path.resolve(strict=True)
        facts = real.stat()
    except OSError:
        return None
    return str(real), facts.st_ino, facts.st_mtime_ns, facts.st_size
