"""Shared fixtures of the operations tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from osmo_admin.ops.programs.privileges import change_owner, find_database_account


@pytest.fixture
def reachable_dir(data_dir: Path) -> Path:
    """A folder that the user of the database can reach, with a path short enough for sockets."""
    data_dir.mkdir()
    change_owner(find_database_account(), data_dir)
    return data_dir


def is_running(pid: int) -> bool:
    """True for a running process that is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
