"""Check a record: `python -m tests.history.checker RECORD`. Exit code 0: every promise was kept; 1: not."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.history.checker import report
from tests.history.record import load

if __name__ == "__main__":
    text, is_right = report(load(Path(sys.argv[1])))
    print(text)
    sys.exit(0 if is_right else 1)
