"""Shared fixtures of the operations tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from osmo_admin.ops.files.data_directory import DataDirectory
from osmo_admin.ops.programs.privileges import change_owner, find_database_account
from tests.support.up import UpProcess


@pytest.fixture
def reachable_dir(data_dir: Path) -> Path:
    """A folder that the user of the database can reach, with a path short enough for sockets."""
    data_dir.mkdir()
    change_owner(find_database_account(), data_dir)
    return data_dir


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpProcess]:
    """One running installation for tests that only read it. The user of the database cannot enter its folder: pytest
    makes its temporary folders private, as root's home is."""
    started = UpProcess(tmp_path_factory.mktemp("installation") / "data")
    try:
        yield started.wait_ready()
        started.stop()
    finally:
        started.process.kill()
        started.process.wait(60)
        DataDirectory.open(started.data_dir).remove()  # the database lies outside, see DataDirectory.postgres_home


def is_running(pid: int) -> bool:
    """True for a running process that is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
