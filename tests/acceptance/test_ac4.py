"""AC4: child guarantees are protected from submissions to the parent."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.acceptance
SUBPOOLS = {"a": 30, "b": 40, "c": 20}


def test_ac4_firm_work_above_the_unallocated_quota_is_refused(team: Any) -> None:
    pool = team(100, **SUBPOOLS)
    assert pool.read_tree()["shared"]["quota"] == 10

    answer = pool.expect_refusal(15, "HIGH").json()

    assert answer["error_code"] == "RESOURCE"
    (fault,) = answer["details"]
    assert (fault["requested"], fault["limit"]) == (15, 10)
    output = pool.osmo(
        "workflow", "submit", "--pool", pool.name, "--priority", "HIGH", pool.write_job(15), by="user", fails=True
    )
    assert "submit failed" in output
    assert "15" in output
    assert "10" in output
    assert pool.user.get("/api/workflow").json()["workflows"] == []
    for short, gpus in SUBPOOLS.items():  # all quotas are usable
        pool.start(gpus, "HIGH", to=f"{pool.name}--{short}")


def test_ac4_low_work_goes_over_quota(team: Any) -> None:
    pool = team(100, **SUBPOOLS)

    answer = pool.submit(15, "LOW")

    assert answer["queue"] == pool.queue_name("_shared")
    pool.wait_until_running(answer["name"])
    shared = pool.read_tree()["shared"]
    assert (shared["quota"], shared["used"], shared["total_usage"]) == (10, 0, 15)


def test_ac4_low_work_over_quota_takes_no_guarantee_from_a_subpool(team: Any) -> None:
    pool = team(100, **SUBPOOLS)
    pool.start(15, "LOW")

    pool.start(30, "HIGH", to=f"{pool.name}--a")


def test_ac4_a_subpool_reclaims_its_guarantee_from_low_work(team: Any) -> None:
    pool = team(100, capacity=100, **SUBPOOLS)
    low = pool.start(85, "LOW")

    pool.start(30, "HIGH", to=f"{pool.name}--a")

    assert pool.read_workflow(low)["status"] == "PENDING"
    (task,) = pool.user.get(f"/api/task?workflow_id={low}&statuses=FAILED_PREEMPTED").json()["tasks"]
    assert task["status"] == "FAILED_PREEMPTED"


def test_ac4_low_work_inside_its_own_quota_is_left_alone(team: Any) -> None:
    pool = team(100, capacity=100, **SUBPOOLS)
    inside = pool.start(10, "LOW")
    over = pool.start(75, "LOW", to=f"{pool.name}--b")

    pool.start(30, "HIGH", to=f"{pool.name}--a")

    assert pool.read_workflow(inside)["status"] == "RUNNING"
    assert pool.read_workflow(over)["status"] == "PENDING"
