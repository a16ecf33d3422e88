"""A backup that the last version made is restored by this one: loaded, counted, migrated and verified."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.support.up import run_preloaded

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]
BACKUP = Path(__file__).with_name("29ed02b4.tar.gz")
# Kinds of objects that are newer than the installation of the other test of upgrades.
NEWER_TABLES = {
    "pools_approvalrequest",
    "pools_configurationowner",
    "pools_notice",
    "pools_noticetarget",
    "scheduling_historyreplay",
    "pools_noticecondition",
    "scheduling_startforecast",
}


def test_a_backup_of_the_last_version_is_brought_up_to_date(data_dir: Path, tmp_path: Path) -> None:
    with tarfile.open(BACKUP) as archive:
        archive.extractall(tmp_path / "backup", filter="data")
    rows = json.loads((tmp_path / "backup" / "manifest.json").read_text())["rows"]
    assert all(rows[table] for table in NEWER_TABLES), "the backup has rows of these"
    done = run_preloaded("restore", tmp_path / "backup", "--data-dir", data_dir, "--replace", seconds=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Restored and verified" in done.stdout
