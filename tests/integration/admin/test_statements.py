"""The SQL statements of a page: a fixed number, and none that is asked twice."""

from __future__ import annotations

from collections import Counter

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.integration.admin.conftest import SignedIn, submit_workflow
from tests.support.world import reconcile

pytestmark = pytest.mark.django_db

LOGIN = 3
"""The session, the person, their roles."""
BUDGETS = {
    "/": 24,
    "/workflows": 12,
    "/workflows/runs-1": 12,
    "/workflows/waits-1": 21,
    "/workflows/-/compare?name=runs-1&name=waits-1": 20,
    "/submit": 2,
    "/queue": 8,
    "/queue/team": 20,
    "/pools": 13,
    "/pools/team": 24,
    "/pools/team/quota": 12,
    "/cohorts": 11,
    "/gpu-quotas": 6,
    "/nodes": 6,
    "/usage": 12,
    "/replay": 8,
    "/activity": 5,
    "/activity/approvals": 2,
    "/activity/audit": 3,
    "/users": 5,
    "/clusters": 12,
    "/jobs": 4,
    "/inbox": 2,
    "/notices": 3,
    "/tokens": 4,
}
"""For a platform admin, without the login."""


def test_the_statements_of_a_page(as_person: SignedIn) -> None:
    for name in ("runs", "waits"):
        submit_workflow("team--a", gpus=30, name=name)
        reconcile()
    root, wrong = as_person("root"), {}
    for page, budget in BUDGETS.items():
        root.get(page)  # what is cached is there
        with CaptureQueriesContext(connection) as captured:
            assert root.get(page).status_code == 200, page
        statements = [each["sql"] for each in captured if not each["sql"].startswith(("BEGIN", "SAVEPOINT", "RELEASE"))]
        twice = [sql for sql, times in Counter(statements).items() if times > 1]
        if twice or len(statements) - LOGIN > budget:
            wrong[page] = twice or statements
    assert not wrong, wrong
