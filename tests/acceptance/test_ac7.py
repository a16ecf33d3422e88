"""AC7: non-preemptible jobs cannot exceed quota."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.acceptance


def test_ac7_firm_work_waits_for_its_quota(team: Any) -> None:
    pool = team(10)
    first = pool.start(8, "HIGH")

    second = pool.submit(5, "HIGH")

    assert second["status"] == "PENDING"
    pool.expect_pending(second["name"])
    pool.end_workflow(first)
    pool.wait_until_running(second["name"])


def test_ac7_low_work_uses_the_remainder_and_exceeds_it(team: Any) -> None:
    pool = team(10)
    pool.start(8, "HIGH")

    pool.start(5, "LOW")

    shared = pool.read_tree()["shared"]
    assert (shared["used"], shared["total_usage"], shared["available"]) == (8, 13, 2)


def test_ac7_low_work_does_not_lift_firm_work_over_quota(team: Any) -> None:
    pool = team(10)
    pool.start(8, "HIGH")
    pool.start(5, "LOW")

    pool.expect_pending(pool.submit(3, "HIGH")["name"])
    pool.start(2, "HIGH")


def test_ac7_low_work_is_preempted_by_firm_work_inside_its_quota(team: Any) -> None:
    pool = team(10, capacity=10)
    pool.start(6, "HIGH")
    low = pool.start(4, "LOW")

    pool.start(4, "NORMAL")

    assert pool.read_workflow(low)["status"] == "PENDING"
    shared = pool.read_tree()["shared"]
    assert (shared["used"], shared["total_usage"]) == (10, 10)


def test_ac7_firm_work_over_its_quota_preempts_nothing(team: Any) -> None:
    pool = team(10, capacity=12)
    pool.start(8, "HIGH")
    low = pool.start(4, "LOW")

    pool.expect_pending(pool.submit(3, "HIGH")["name"])

    assert pool.read_workflow(low)["status"] == "RUNNING"
