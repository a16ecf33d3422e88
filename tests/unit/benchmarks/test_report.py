"""The committed page of measurements is made from the committed numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_is_current() -> None:
    command = [sys.executable, "-m", "bench.report", "docs/performance.json"]
    made = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert (ROOT / "docs" / "performance.md").read_text() == made, "python -m bench.report docs/performance.json"
