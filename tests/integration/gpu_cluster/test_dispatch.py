"""Gangs on a cluster under the GPU quota of their pool's namespace: dispatched only while its caps permit."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.people.roles import SYSTEM
from pools.models import GpuAllocation, GpuUsage, Pool
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.priorities import Priority
from scheduling.models import Workflow
from scheduling.selectors.queue.visible_queue import list_waiting_gangs
from scheduling.services.gpu_quota.controller import rebuild_from_clusters
from scheduling.services.verify import verify
from tests.support import world
from tests.support.agent_harness import AgentHarness
from tests.support.fake_cluster import FakeCluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def harness() -> AgentHarness:
    """A pool on the fake cluster whose work counts in namespace team-a."""
    made = AgentHarness.make(FakeCluster(namespaces=["osmo"]), "osmo")
    config: dict[str, Any] = {"gpu_quota_namespace": "team-a", "platforms": {"default": {"gpu_tflops": "10"}}}
    Pool.objects.filter(pk=made.pool.pk).update(config=config)
    return made


def caps(workers: int) -> None:
    world.apply_change(PutGpuQuota(namespace="team-a", spec={"total": {"maxWorkers": workers}}))


def used() -> tuple[int, int]:
    row = GpuUsage.objects.filter(pk="team-a").first()
    return (0, 0) if row is None else (int(row.requests_tflops), row.workers)


def reason(work: Workflow) -> str:
    (entry,) = [entry for entry in list_waiting_gangs(SYSTEM, limit=50, offset=0)[0] if entry.workflow == work.name]
    return entry.reason.code


def test_a_gang_counts_from_its_dispatch_to_its_end(harness: AgentHarness) -> None:
    caps(1)
    first, second = harness.submit(gpus=2), harness.submit(gpus=2)
    harness.run_agent()
    assert used() == (20, 1)
    assert len(harness.list_pods()) == 1
    (pod,) = harness.list_pods()
    dispatched, other = (first, second) if harness.list_pods(first) else (second, first)
    assert reason(other) == "gpu_quota"
    harness.run_pods(pod)
    harness.run_agent()
    assert used() == (20, 1), "nothing is counted twice"
    assert rebuild_from_clusters({harness.backend.pk: harness.cluster}) == [], (
        "our own pods are counted with their workflow"
    )
    harness.finish_pods(pod)
    harness.run_agent()
    assert len(harness.list_pods(other)) == 1
    assert used() == (20, 1)
    assert GpuAllocation.objects.filter(workload__startswith=dispatched.name).get().state == "released"
    assert verify() == []


def test_work_that_is_cancelled_before_its_pods_run_is_released(harness: AgentHarness) -> None:
    caps(1)
    work = harness.submit(priority=Priority.HIGH)
    harness.run_agent()
    assert used() == (10, 1)
    world.apply_change(CancelWorkflow(name=work.name), actor=world.admin_actor())
    assert used() == (0, 0)


def test_dispatched_again_after_a_crash_it_counts_once(harness: AgentHarness) -> None:
    caps(5)
    harness.submit()
    harness.run_agent()
    harness.new_agent().relist_and_reconcile()
    assert used() == (10, 1)
