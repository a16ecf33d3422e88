"""Rotation of the log files of child processes, with one old generation each."""

from __future__ import annotations

import shutil
from pathlib import Path

from osmo_admin.ops.files.disk_space import is_disk_full

LIMIT_BYTES = 20 * 1024 * 1024


def trim_log(path: Path, limit: int = LIMIT_BYTES) -> None:
    """Copy a file larger than `limit` to `NAME.1` and truncate it. The writer appends, so it may continue."""
    try:
        if path.stat().st_size <= limit:
            return
        _copy_or_drop(path, path.with_name(path.name + ".1"))
        with path.open("r+b") as file:
            file.truncate(0)
    except FileNotFoundError:
        return


def _copy_or_drop(path: Path, older: Path) -> None:
    """Copy a log. On a full disk its lines are given up, because they are what can be given up there."""
    try:
        shutil.copyfile(path, older)
    except OSError as problem:
        if not is_disk_full(problem):
            raise
        older.unlink(missing_ok=True)


def trim_logs(folder: Path, limit: int = LIMIT_BYTES) -> None:
    """Trim every log in the folder."""
    for path in folder.glob("*.log"):
        trim_log(path, limit)
