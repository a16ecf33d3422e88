"""AC5: a submission to a subpool is routed to its queue."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.acceptance


def test_ac5_work_for_a_subpool_uses_its_queue_and_quota(team: Any) -> None:
    pool = team(100, a=30)
    leaf = f"{pool.name}--a"

    answer = pool.submit(30, "NORMAL", to=leaf)

    assert (answer["queue"], answer["pool"]) == (pool.queue_name("a"), leaf)
    found = pool.wait_until_running(answer["name"])
    assert found["queue"] == found["groups"][0]["queue"] == pool.queue_name("a")
    tree = pool.read_tree()
    assert tree["subpools"][0]["used"] == 30
    assert tree["shared"]["used"] == 0
    assert pool.expect_refusal(31, "NORMAL", to=leaf).json()["details"][0]["limit"] == 30
