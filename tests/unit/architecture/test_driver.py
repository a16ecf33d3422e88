"""One module knows the insides of Django's connection (docs/decisions.md, "Own path to the driver")."""

from __future__ import annotations

import re

from tests.support.services import ROOT

INSIDE = re.compile(
    r"\b(execute_wrappers|health_check\w*|savepoint_ids|needs_rollback|wrap_database_errors|in_atomic_block"
    r"|exec_prepared|queries_logged|last_executed_query|make_\w*cursor|pgconn)\b|\bgenerators\.|\bconnection\.connection\b|\b_query:|\bcursor\.cursor\b"
)
DRIVER = "pools/database/backend/base.py"
AT_THE_START = {"osmo_admin/processes/database_server.py", "osmo_admin/processes/database_roles.py"}
"""Sessions of their own, before Django has any."""
MOST_LINES = 5


def test_one_module_knows_the_inside_of_the_connection() -> None:
    found: dict[str, list[str]] = {}
    for package in ("pools", "scheduling", "osmo_admin"):
        for path in (ROOT / package).rglob("*.py"):
            lines = [line for line in path.read_text(encoding="utf-8").splitlines() if INSIDE.search(line)]
            if lines:
                found[path.relative_to(ROOT).as_posix()] = lines
    assert len(found.pop(DRIVER)) <= MOST_LINES
    assert found.keys() == AT_THE_START
