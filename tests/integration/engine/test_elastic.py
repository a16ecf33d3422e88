"""Elastic gangs on the simulated backend: the two workloads of docs/elastic-gangs.md from submission to completion, and
how gangs grow and shrink."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pools.models import Reservation
from scheduling.models import Decision, Group, Task, Workflow
from tests.unit.specs.test_manifest import INFERENCE

Make = Callable[..., Any]
pytestmark = pytest.mark.django_db

FLEXIBLE = """apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: %s, annotations: {osmo/gpus-per-pod: 1, osmo/pods: %d}}
spec: {minMember: %d}
"""


def by_sub_group(*, status: str = "RUNNING") -> Counter[str]:
    """Pods of each sub-group that have this status."""
    return Counter(Task.objects.filter(status=status).values_list("sub_group", flat=True))


def held(name: str) -> int:
    """GPUs that a workflow holds."""
    return Reservation.objects.get(workflow_name=f"{name}-1").held_gpus


class TestInferenceService:
    """Four prefill replicas of 8 pods, of which three are needed."""

    def test_too_few_replicas_start_nothing(self, cluster: Make) -> None:
        sim = cluster({"n0": 8, "n1": 8}, pool=32)
        sim.submit("inference-service", "pool", file=INFERENCE)
        assert sim.reconcile() == []
        assert by_sub_group() == {}

    def test_the_missing_replica_joins_when_there_is_free_capacity(self, cluster: Make) -> None:
        sim = cluster({f"n{i}": 8 for i in range(4)}, pool=32)
        sim.submit("wf1", "pool", gpus=8)
        sim.reconcile()
        sim.submit("inference-service", "pool", file=INFERENCE)
        sim.reconcile()
        assert len(by_sub_group()) == 4  # three replicas and wf1
        sim.end("wf1")
        assert sim.reconcile() == [("start", "inference-service")]
        assert held("inference-service") == 32
        assert Decision.objects.first().message == "inference-service-1 grows in pool with 8 GPUs."


def flexible(name: str, pods: int, least: int) -> str:
    """A PodGroup of `pods` pods with one GPU each; `least` is its minimum."""
    return FLEXIBLE % (name, pods, least)


class TestGrowingAndShrinking:
    def test_it_grows_one_by_one_up_to_what_is_free(self, cluster: Make) -> None:
        sim = cluster({"n": 5}, pool=8)
        sim.submit("wf1", "pool", "LOW")
        sim.submit("flex", "pool", "LOW", file=flexible("flex", 6, 2))
        sim.reconcile()
        assert (held("flex"), held("wf1")) == (4, 1)
        sim.end("wf1")
        assert sim.reconcile() == [("start", "flex")]
        assert held("flex") == 5

    def test_surplus_is_given_up_first_and_comes_back(self, cluster: Make) -> None:
        sim = cluster({"n": 6}, pool=6)
        sim.submit("flex", "pool", "LOW", file=flexible("flex", 6, 2))
        sim.reconcile()
        started = Group.objects.get().start_time
        sim.submit("wf1", "pool", gpus=3)
        assert sim.reconcile() == [("preempt", "flex"), ("start", "wf1")]
        assert (held("flex"), Group.objects.get(name="flex").status) == (3, "RUNNING")
        assert Group.objects.get(name="flex").start_time == started
        assert Counter(status for _, _, status, _ in sim.attempts("flex")) == {
            "RUNNING": 3,
            "FAILED_PREEMPTED": 3,
            "SCHEDULING": 3,
        }
        sim.end("wf1")
        sim.reconcile()
        assert held("flex") == 6

    def test_below_its_minimum_it_gives_up_everything(self, cluster: Make) -> None:
        sim = cluster({"n": 4}, pool=4)
        sim.submit("flex", "pool", "LOW", file=flexible("flex", 4, 2))
        sim.reconcile()
        sim.submit("wf1", "pool", gpus=3)
        assert ("start", "wf1") in sim.reconcile()
        assert (held("flex"), Workflow.objects.get(name="flex-1").status) == (0, "PENDING")
        assert by_sub_group(status="SCHEDULING").total() == 4

    def test_a_gang_without_its_minimum_gives_up_the_rest(self, cluster: Make) -> None:
        """Rows that no service writes, as after a manual repair."""
        sim = cluster({"n": 4}, pool=4)
        sim.submit("flex", "pool", "LOW", file=flexible("flex", 4, 3))
        sim.reconcile()
        lost = Task.objects.filter(status="RUNNING")[:2]
        Task.objects.filter(pk__in=[task.pk for task in lost]).update(status="FAILED", exit_code=1)
        Reservation.objects.update(held_gpus=2)
        assert sim.reconcile()[0] == ("give_up", "flex")
        assert held("flex") == 0

    def test_firm_elastic_work_grows_inside_its_quota_only(self, cluster: Make) -> None:
        sim = cluster({"n": 8}, pool=5)
        sim.submit("flex", "pool", file=flexible("flex", 6, 2))
        sim.reconcile()
        assert held("flex") == 5

    def test_pods_inside_the_quota_take_back_what_was_lent(self, cluster: Make) -> None:
        sim = cluster({"n": 6}, lender=4, borrower=2)
        for i in range(5):
            sim.submit(f"wf{i}", "borrower", "LOW")
        sim.reconcile()
        sim.submit("flex", "lender", file=flexible("flex", 4, 1))
        assert Counter(sim.reconcile()) == {("start", "flex"): 4, ("reclaim", "wf4"): 1, ("reclaim", "wf3"): 1,
                                            ("reclaim", "wf2"): 1}  # fmt: skip
        assert held("flex") == 4
        assert sim.reconcile() == [], "the borrower keeps its own quota and takes nothing back"
