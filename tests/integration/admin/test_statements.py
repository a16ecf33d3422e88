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
    "/": 25,
    "/workflows": 12,
    "/workflows/runs": 12,
    "/workflows/waits": 22,
    "/submit": 3,
    "/queue": 10,
    "/queue/team": 20,
    "/pools": 14,
    "/pools/team": 24,
    "/pools/team/quota": 14,
    "/cohorts": 12,
    "/gpu-quotas": 8,
    "/nodes": 8,
    "/usage": 12,
    "/replay": 10,
    "/activity": 7,
    "/activity/approvals": 4,
    "/activity/audit": 5,
    "/users": 6,
    "/clusters": 12,
    "/jobs": 5,
    "/inbox": 4,
    "/notices": 5,
    "/tokens": 5,
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
