"""The sentence that says that the disk of a data directory is full."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

# PostgreSQL makes files of its log of changes of 16 MiB each; with less it may have to stop at any time.
LEAST_BYTES = 16 * 2**20
_ADVICE = "Make room; everything goes on by itself then."


def describe_full_disk(root: Path) -> str:
    """What is full of the disk of a data directory, or of the one of its database if that lies elsewhere, with what to
    do; empty while there is room."""
    for place, folder in (("the data directory", root), ("the database", _database_folder(root))):
        try:
            facts = os.statvfs(folder)
        except OSError:
            continue
        free = facts.f_bavail * facts.f_frsize
        if free < LEAST_BYTES:
            return f"The disk of {place} is full: {free / 2**20:.0f} MiB free. {_ADVICE}"
        if facts.f_files and not facts.f_favail:
            return f"The disk of {place} is full: it can hold no more files. {_ADVICE}"
    return ""


def is_disk_full(problem: OSError) -> bool:
    """Whether a file could not be written for want of room."""
    return problem.errno in (errno.ENOSPC, errno.EDQUOT)


def _database_folder(root: Path) -> Path:
    with suppress(OSError):
        return Path((root / "postgres.location").read_text().strip())
    return root / "postgres"
