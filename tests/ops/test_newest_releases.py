"""What uses the insides of Django, psycopg and granian (docs/decisions.md, "Own path to the driver"), with their newest
releases that run on this Python, pre-releases included."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import services
from tests.support.services import ROOT

PACKAGES = ("django", "psycopg[binary]", "granian")
TESTS = (
    "tests/integration/ledger/test_prepared_statements.py",
    "tests/faults/test_lost_connection.py",
    "tests/integration/snapshots/test_reads.py::TestConnections",
    "tests/unit/serving",
)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_what_is_private_is_the_same_in_the_newest_releases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest = tmp_path / "newest"
    uv = Path(sys.executable).with_name("uv")
    command = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", newest]
    subprocess.run([*command, "--prerelease=allow", *PACKAGES], check=True)
    versions = " ".join(sorted(each.stem for each in newest.glob("*.dist-info")))
    with capsys.disabled():
        print(f"\nthe newest releases: {versions}")
    run = subprocess.run(
        # Warnings of what a later release removes are not errors here: other packages use it too.
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "filterwarnings=default", *TESTS],
        cwd=ROOT,
        env=_own_environment() | {"PYTHONPATH": str(newest)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert run.returncode == 0, f"{versions}\n{run.stdout[-20_000:]}"


def _own_environment() -> dict[str, str]:
    """Without the servers and settings of this session, so that the other one starts its own."""
    ours = ("OSMO_", "PYTEST_", "DJANGO_", "DATABASE_URL", "REDIS_URL", services.FOLDER)
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}
