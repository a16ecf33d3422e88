"""Two modules take locks and state their order; a lock elsewhere could break that order unnoticed."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
LOCKS = re.compile(
    r"select_for_update|\bFOR (NO KEY )?(UPDATE|SHARE)\b|\bFOR KEY SHARE\b|\bLOCK TABLE\b|pg_(try_)?advisory"
)
LOCK_MODULES = {"pools/locking.py", "scheduling/locking.py"}
TRIGGERS = {
    "pools/models/change_tokens.py",
    "pools/models/cohort.py",
    "pools/models/people/membership.py",
    "pools/models/pool.py",
    "pools/models/usage.py",
}


def modules_with_locks() -> set[str]:
    found = set()
    for app in ("pools", "scheduling", "osmo_admin"):
        for path in (ROOT / app).rglob("*.py"):
            if "migrations" not in path.parts and LOCKS.search(path.read_text()):
                found.add(path.relative_to(ROOT).as_posix())
    return found


def test_row_locks_and_advisory_locks_are_taken_in_one_place_only() -> None:
    assert modules_with_locks() == LOCK_MODULES | TRIGGERS
