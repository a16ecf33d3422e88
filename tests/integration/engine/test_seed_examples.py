"""The published examples of scheduling on the simulated backend, submitted and watched through the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduling.models import Decision, Workflow

Make = Callable[..., Any]
pytestmark = pytest.mark.django_db


def test_priority_queueing_order(cluster: Make) -> None:
    """WF1 and WF2 (NORMAL) run; WF3 to WF6 are served by priority, then by submission time."""
    sim = cluster({"n": 2}, pool=2)
    sim.submit("wf1", "pool")
    sim.submit("wf2", "pool")
    assert sim.reconcile() == [("start", "wf1"), ("start", "wf2")]
    sim.submit("wf3", "pool", "LOW")
    sim.submit("wf4", "pool")
    sim.submit("wf5", "pool", "HIGH")
    sim.submit("wf6", "pool")
    assert sim.reconcile() == []
    order = []
    for ended in ("wf1", "wf2", "wf5", "wf4"):
        sim.end(ended)
        order += sim.reconcile()
    assert order == [("start", "wf5"), ("start", "wf4"), ("start", "wf6"), ("start", "wf3")]


def test_preemption(cluster: Make) -> None:
    """WF1 (LOW) and WF2 (NORMAL) run, WF3 and WF4 (LOW) wait. WF5 (NORMAL) preempts WF1, which is re-queued in front of
    WF3 and WF4."""
    sim = cluster({"n": 2}, pool=2)
    sim.submit("wf1", "pool", "LOW")
    sim.submit("wf2", "pool")
    sim.reconcile()
    sim.submit("wf3", "pool", "LOW")
    sim.submit("wf4", "pool", "LOW")
    assert sim.reconcile() == []
    submitted = Workflow.objects.get(name="wf1-1").submit_time
    sim.submit("wf5", "pool")
    assert sim.reconcile() == [("preempt", "wf1"), ("start", "wf5")]
    sim.assert_running("wf2", "wf5")
    assert sim.attempts("wf1") == [("train", 0, "FAILED_PREEMPTED", 3006), ("train", 1, "SCHEDULING", None)]
    assert Workflow.objects.get(name="wf1-1").submit_time == submitted
    latest = sim.get("/api/workflow/wf1-1")
    assert latest["status"] == "PENDING"
    assert [task["status"] for task in latest["groups"][0]["tasks"]] == ["SCHEDULING"]
    tasks = sim.get("/api/workflow/wf1-1?verbose=True")["groups"][0]["tasks"]
    assert [(task["retry_id"], task["status"], task["exit_code"]) for task in tasks] == [
        (0, "FAILED_PREEMPTED", 3006),
        (1, "SCHEDULING", None),
    ]
    assert tasks[0]["failure_message"] == "wf1-1 gives up 1 GPU in pool to wf5-1."
    preempted, started = Decision.objects.order_by("id")[2:]
    assert (preempted.action, preempted.workflow.name, preempted.for_workflow.name) == ("preempt", "wf1-1", "wf5-1")
    assert (preempted.tasks, preempted.nodes, preempted.gpus) == (["train"], ["n"], 1)
    assert (started.action, started.workflow.name, started.for_workflow) == ("start", "wf5-1", None)
    assert (started.pool.name, started.root_pool.name, started.nodes) == ("pool", "pool", ["n"])
    assert started.time == preempted.time

    sim.end("wf2")
    assert sim.reconcile() == [("start", "wf1")]
    assert sim.attempts("wf1") == [("train", 0, "FAILED_PREEMPTED", 3006), ("train", 1, "RUNNING", None)]
    sim.end("wf5")
    sim.end("wf1")
    assert sim.reconcile() == [("start", "wf3"), ("start", "wf4")]
    assert Workflow.objects.get(name="wf1-1").status == "COMPLETED"


def borrowing(cluster: Make) -> Any:
    """pool1 and pool2 have 2 of 4 GPUs each: WF1 (NORMAL) and WF2 (LOW) run in pool1, WF4 (NORMAL) in pool2."""
    sim = cluster({"n": 4}, pool1=2, pool2=2)
    sim.submit("wf1", "pool1")
    sim.submit("wf2", "pool1", "LOW")
    sim.submit("wf4", "pool2")
    sim.reconcile()
    sim.assert_running("wf1", "wf2", "wf4")
    return sim


def test_borrowing_and_reclaiming(cluster: Make) -> None:
    """pool2 uses 1 of its 2 GPUs, so WF3 (LOW) of pool1 borrows the other. WF5 (NORMAL) of pool2 reclaims it; WF2,
    inside pool1's quota, is not touched."""
    sim = borrowing(cluster)
    sim.submit("wf3", "pool1", "LOW")
    assert sim.reconcile() == [("start", "wf3")]
    sim.submit("wf5", "pool2")
    assert sim.reconcile() == [("reclaim", "wf3"), ("start", "wf5")]
    sim.assert_running("wf1", "wf2", "wf4", "wf5")
    assert sim.attempts("wf3") == [("train", 0, "FAILED_PREEMPTED", 3006), ("train", 1, "SCHEDULING", None)]
    sim.end("wf4")
    assert sim.reconcile() == [("start", "wf3")]


def test_only_low_borrows(cluster: Make) -> None:
    sim = borrowing(cluster)
    sim.submit("wf3", "pool1")
    assert sim.reconcile() == [("start", "wf3")]  # inside the quota, for LOW work does not count against it
    sim.end("wf2")
    sim.submit("wf6", "pool1")
    assert sim.reconcile() == []  # pool1 has its 2 GPUs of firm work; only LOW work may use the idle GPU


def test_a_pool_under_its_quota_never_loses_low_work_to_another_pool(cluster: Make) -> None:
    """pool2 asks for more than its own while pool1 is inside its quota."""
    sim = cluster({"n": 4}, pool1=2, pool2=4)
    sim.submit("wf1", "pool1", "LOW", gpus=2)
    sim.submit("wf2", "pool2", gpus=2)
    sim.reconcile()
    sim.submit("wf3", "pool2", "HIGH", gpus=2)
    assert sim.reconcile() == []
    sim.assert_running("wf1", "wf2")


def test_subpools_of_one_pool_lend_and_reclaim_as_pools_do(cluster: Make) -> None:
    sim = cluster({"n": 4}, team={"": 4, "a": 2})
    sim.submit("wf1", "team--a", "LOW", gpus=1)
    sim.submit("wf2", "team--a", "LOW", gpus=3)
    sim.reconcile()
    sim.assert_running("wf1", "wf2")
    sim.submit("wf3", "team", gpus=2)  # the shared queue
    assert sim.reconcile() == [("reclaim", "wf2"), ("start", "wf3")]
    sim.assert_running("wf1", "wf3")


def test_the_owner_does_not_learn_which_work_preempted_theirs(cluster: Make) -> None:
    sim = cluster({"n": 2}, pool1=1, pool2=1)
    sim.submit("wf3", "pool1", "LOW", gpus=2, by=sim.client("alice", "osmo-pool1-user"))
    sim.reconcile()
    sim.submit("secret", "pool2")
    sim.reconcile()
    answer = sim.get("/api/workflow/wf3-1?verbose=True", sim.client("alice"))
    assert "Another pool reclaims 2 GPUs" in str(answer)
    assert "secret" not in str(answer)
    assert "pool2" not in str(answer)
    (decision,) = Decision.objects.filter(action="reclaim")
    assert "secret-1" in decision.message
    assert "secret" not in decision.message_without_beneficiary
