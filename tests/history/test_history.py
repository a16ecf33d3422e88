"""A short history of a running installation, in which every answer was right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.history.record import load
from tests.support import database
from tests.support.services import ROOT, Services
from tests.support.up import clean_env


def run_history(*options: object, seconds: float) -> subprocess.CompletedProcess[str]:
    """One run to its end, in a process of its own: it has servers of its own and moves clocks."""
    return subprocess.run(
        [sys.executable, "-m", "tests.history.run", *map(str, options)],
        cwd=ROOT, env=clean_env({}), capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip


@pytest.mark.fault
@pytest.mark.timeout(400)  # it starts a whole installation, and other tests run at the same time
def test_a_short_history_under_faults_is_right(template: Services, tmp_path: Path) -> None:
    done = run_history(
        "--seed", 15, "--operations", 200, "--faults", 4, "--processes", 1, "--out", tmp_path,
        "--template", database.template_url(template), seconds=380,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    record = load(next(tmp_path.glob("*.jsonl")))
    begun = [fault["name"] for fault in record.faults if fault["phase"] == "begin"]
    assert (len(record.operations) >= 200, len(begun), record.outcome is not None) == (True, 4, True)
