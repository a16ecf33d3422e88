"""The SQL statements of a page: a fixed number, and none that is asked twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.integration.admin.conftest import submit_workflow
from tests.support.world import reconcile

pytestmark = pytest.mark.django_db

LOGIN = 3
"""The session, the person, their roles."""
BUDGETS = {
    "/": 24,
    "/workflows": 12,
    "/workflows/runs": 12,
    "/workflows/waits": 21,
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


@pytest.fixture
def work(pools_and_users: None) -> None:
    submit_workflow("team--a", gpus=30, name="runs")
    reconcile()
    submit_workflow("team--a", gpus=30, name="waits")
    reconcile()


@pytest.mark.parametrize(("page", "budget"), BUDGETS.items())
def test_the_statements_of_a_page(work: None, as_person: Callable[[str], Client], page: str, budget: int) -> None:
    root = as_person("root")
    address = f"{page}-1" if page.startswith("/workflows/") else page
    root.get(address)  # what is cached is there
    with CaptureQueriesContext(connection) as captured:
        assert root.get(address).status_code == 200
    statements = [each["sql"] for each in captured if not each["sql"].startswith(("BEGIN", "SAVEPOINT", "RELEASE"))]
    assert [sql for sql, times in Counter(statements).items() if times > 1] == []
    assert len(statements) - LOGIN <= budget, statements
