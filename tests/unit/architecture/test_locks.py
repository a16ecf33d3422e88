"""Two modules take locks and state their order; a lock elsewhere could break that order unnoticed."""

from __future__ import annotations

import re

from tests.support.product_source import module_texts

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


def test_row_locks_and_advisory_locks_are_taken_in_one_place_only() -> None:
    assert {path for path, text in module_texts().items() if LOCKS.search(text)} == LOCK_MODULES | TRIGGERS
