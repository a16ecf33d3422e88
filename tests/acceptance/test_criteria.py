"""The acceptance criteria of subpools, AC1 to AC8, through HTTP and `osmo`."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.acceptance
SUBPOOLS = {"a": 30, "b": 40, "c": 20}


# --- AC1: pools without subpools behave identically to current behaviour. ---
def test_ac1_a_pool_without_subpools_behaves_as_before(team: Any) -> None:
    pool = team(100)

    answer = pool.submit(50, "HIGH")

    assert answer["queue"] == pool.queue_name("_shared")
    assert answer["k8s_queue"] == f"osmo-pool-ns-{pool.name}---shared"
    assert pool.read_tree()["shared"]["quota"] == 100
    pool.wait_until_running(answer["name"])
    assert pool.list_cells() == [pool.name, "ONLINE", "-", "100", "50", "50"]


def test_ac1_users_never_meet_the_shared_queue(team: Any) -> None:
    pool = team(100)
    pool.start(50, "HIGH")

    assert "_shared" not in pool.osmo("pool", "list", by="user")
    assert "_shared" not in pool.osmo("workflow", "list", by="user")
    assert "shared" not in str(pool.user.get("/api/pool").json())
    hidden = pool.user.post(f"/api/pool/{pool.name}--_shared/workflow", json={"file": "workflow: {}"})
    assert hidden.status_code == 404


# --- AC2: the shared queue gets the full quota when no subpools exist. ---
def test_ac2_the_shared_queue_has_the_whole_quota(team: Any) -> None:
    pool = team(100)

    tree = pool.read_tree()

    assert tree["container_queue"] == f"osmo-pool-ns-{pool.name}"
    assert tree["scheduling_quota"] == 100
    assert tree["shared"]["queue"] == pool.queue_name("_shared")
    assert tree["shared"]["quota"] == tree["quota"] == 100
    assert pool.read_queues() == {pool.queue_name("_shared"): 100}


# --- AC3: the shared queue is adjusted when subpools are added. ---
def test_ac3_a_new_subpool_comes_out_of_the_shared_queue(team: Any) -> None:
    pool = team(100)
    assert pool.read_queues() == {pool.queue_name("_shared"): 100}

    pool.osmo("pool", "subpool", "create", pool.name, "a", "--quota", "30")

    assert pool.read_queues() == {pool.queue_name("_shared"): 70, pool.queue_name("a"): 30}
    tree = pool.read_tree()
    assert tree["shared"]["quota"] + tree["subpools"][0]["quota"] == tree["quota"] == 100
    assert pool.list_cells()[3:5] == ["70", "(Total:"]


# --- AC4: child guarantees are protected from submissions to the parent. ---
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


def test_ac4_low_work_goes_over_quota_and_takes_no_guarantee_from_a_subpool(team: Any) -> None:
    pool = team(100, **SUBPOOLS)

    answer = pool.submit(15, "LOW")

    assert answer["queue"] == pool.queue_name("_shared")
    pool.wait_until_running(answer["name"])
    shared = pool.read_tree()["shared"]
    assert (shared["quota"], shared["used"], shared["total_usage"]) == (10, 0, 15)
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


# --- AC5: a submission to a subpool is routed to its queue. ---
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


# --- AC6: deleting a subpool returns its quota to the shared queue. ---
def test_ac6_an_idle_subpool_is_archived_at_once(team: Any) -> None:
    pool = team(100, a=30, b=40)
    assert pool.read_tree()["shared"]["quota"] == 30

    pool.osmo("pool", "subpool", "delete", pool.name, "a", "--yes")

    assert pool.admin.get(f"/api/configs/pool/{pool.name}/subpool/a").json()["subpool_state"] == "ARCHIVED"
    assert pool.read_queues() == {pool.queue_name("_shared"): 60, pool.queue_name("b"): 40}


def test_ac6_a_busy_subpool_drains_first(team: Any) -> None:
    pool = team(100, a=30, b=40)
    name = pool.start(20, "HIGH", to=f"{pool.name}--a")

    pool.osmo("pool", "subpool", "delete", pool.name, "a", "--yes")

    assert pool.list_cells(f"{pool.name}--a")[2:] == ["DELETING", "0", "20", "-20"]
    assert pool.read_tree()["shared"]["quota"] == 60
    assert pool.read_queues()[pool.queue_name("a")] == 20  # the running work keeps its quota at the scheduler
    assert pool.expect_refusal(1, "LOW", to=f"{pool.name}--a").json()["error_code"] == "USAGE"
    assert pool.read_workflow(name)["status"] == "RUNNING"
    pool.end_workflow(name)
    assert pool.admin.get(f"/api/configs/pool/{pool.name}/subpool/a").json()["subpool_state"] == "ARCHIVED"
    assert pool.read_queues() == {pool.queue_name("_shared"): 60, pool.queue_name("b"): 40}


# --- AC7: non-preemptible jobs cannot exceed quota. ---
def test_ac7_firm_work_waits_for_its_quota(team: Any) -> None:
    pool = team(10)
    first = pool.start(8, "HIGH")

    second = pool.submit(5, "HIGH")

    assert second["status"] == "PENDING"
    pool.expect_pending(second["name"])
    pool.end_workflow(first)
    pool.wait_until_running(second["name"])


def test_ac7_low_work_uses_the_remainder_and_lifts_no_firm_work_over_quota(team: Any) -> None:
    pool = team(10)
    pool.start(8, "HIGH")

    pool.start(5, "LOW")

    shared = pool.read_tree()["shared"]
    assert (shared["used"], shared["total_usage"], shared["available"]) == (8, 13, 2)
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


# --- AC8: a quota update synchronises the shared queue. ---
def test_ac8_a_larger_subpool_makes_the_shared_queue_smaller(team: Any) -> None:
    pool = team(100, a=30, b=40)
    assert pool.read_queues() == {pool.queue_name("_shared"): 30, pool.queue_name("a"): 30, pool.queue_name("b"): 40}

    pool.osmo("pool", "subpool", "update", pool.name, "b", "--quota", "50")

    assert pool.read_queues() == {pool.queue_name("_shared"): 20, pool.queue_name("a"): 30, pool.queue_name("b"): 50}
    assert pool.expect_refusal(21, "HIGH").json()["details"][0]["limit"] == 20
    pool.start(20, "HIGH")
