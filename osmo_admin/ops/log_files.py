"""Keeping the children's log files from growing without end: one old generation each."""

from __future__ import annotations

import shutil
from pathlib import Path

LIMIT_BYTES = 20 * 1024 * 1024


def trim_log(path: Path, limit: int = LIMIT_BYTES) -> None:
    """Move what a file beyond `limit` holds to `NAME.1`. Its writer may go on: it appends, so emptying is safe."""
    try:
        if path.stat().st_size <= limit:
            return
        shutil.copyfile(path, path.with_name(path.name + ".1"))
        with path.open("r+b") as file:
            file.truncate(0)
    except FileNotFoundError:
        return


def trim_logs(folder: Path, limit: int = LIMIT_BYTES) -> None:
    """Every log of the house."""
    for path in folder.glob("*.log"):
        trim_log(path, limit)
