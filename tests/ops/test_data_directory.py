"""The data directory: private, locked by one server at a time, without changes of other permissions."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from osmo_admin.ops.files import data_directory
from osmo_admin.ops.files.data_directory import (
    DataDirectory,
    DataDirectoryLock,
    find_running_pid,
    read_json_object,
    write_private_file,
)
from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.ops.programs.privileges import SystemAccount


def file_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_private_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_private_file(path, "x")
    write_private_file(path, "y")
    assert (path.read_text(), file_mode(path)) == ("y", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(OperationError, match="was not created by osmo-admin"):
        DataDirectory.open(tmp_path).prepare()
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_file_is_refused_as_data_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OperationError, match="is not a directory"):
        DataDirectory.open(tmp_path / "file").prepare()


def test_only_one_process_has_the_lock(tmp_path: Path) -> None:
    data = DataDirectory.open(tmp_path / "data")
    data.prepare()
    first = DataDirectoryLock(data)
    assert find_running_pid(data) is None
    first.acquire()
    assert find_running_pid(data) == os.getpid()
    with pytest.raises(OperationError, match=f"already running on .* \\(process {os.getpid()}\\)"):
        DataDirectoryLock(data).acquire()
    first.release()
    assert find_running_pid(data) is None


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "secrets.json").write_text("{")
    with pytest.raises(OperationError, match=r"secrets\.json is damaged"):
        read_json_object(tmp_path / "secrets.json")


def test_a_database_user_without_access_gets_a_folder_outside_that_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = SystemAccount("me", os.getuid(), os.getgid())
    monkeypatch.setattr(data_directory, "can_reach", lambda account, path: False)
    data = DataDirectory.open(tmp_path / "data")
    data.prepare()
    before = file_mode(tmp_path)
    home = data.postgres_home(me)
    assert not home.is_relative_to(tmp_path)
    assert (file_mode(home), file_mode(tmp_path)) == (0o700, before)
    assert data.postgres_home(me) == home
    data.remove()
    assert not home.exists()
    assert not data.root.exists()


def test_removing_the_data_keeps_other_files(tmp_path: Path) -> None:
    data = DataDirectory.open(tmp_path / "data")
    data.prepare()
    (data.root / "letter.txt").write_text("mine")
    data.remove()
    assert [path.name for path in data.root.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"OSMO_ADMIN_HOME": "/srv/osmo"}, "/srv/osmo"),
        ({"XDG_STATE_HOME": "/state"}, "/state/osmo-admin"),
        ({"HOME": "/home/ann"}, "/home/ann/.local/state/osmo-admin"),
    ],
    ids=["chosen", "state home", "home"],
)
def test_the_default_data_directory(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OSMO_ADMIN_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(data_directory.sys, "platform", "linux")
    assert str(data_directory.default_data_directory()) == expected


def test_the_data_directory_of_root_is_outside_its_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OSMO_ADMIN_HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert data_directory.default_data_directory() == Path("/var/lib/osmo-admin")
