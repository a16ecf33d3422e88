"""Shared fixtures of the operations tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmo_admin.ops.programs.privileges import change_owner, find_database_account


@pytest.fixture
def reachable_dir(data_dir: Path) -> Path:
    """A folder that the user of the database can reach, with a path short enough for sockets."""
    data_dir.mkdir()
    change_owner(find_database_account(), data_dir)
    return data_dir
