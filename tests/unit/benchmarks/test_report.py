"""The page of measurements is made from the committed numbers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from bench.report import SECTIONS, render_report

ROOT = Path(__file__).parents[3]
NUMBERS = ROOT / "docs" / "performance.json"


def test_the_page_has_every_measurement() -> None:
    command = [sys.executable, "-m", "bench.report", "docs/performance.json"]
    made = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    report = json.loads(NUMBERS.read_text())
    assert made == render_report(report)
    measured = [name for name in SECTIONS if name in report and "not run" not in report[name]]
    of_its_own = {"admission", "pool_quota", "drain", "quota_tree", "cycle_record"}
    assert {*re.findall(r"`(\w+)`", made.partition("Measured: ")[2].partition("\n\n")[0])} == {*measured, *of_its_own}
    without = {name: render_report({key: value for key, value in report.items() if key != name}) for name in measured}
    assert [name for name, page in without.items() if page.count("\n## ") >= made.count("\n## ")] == []
