"""A cluster with Kueue: Workloads wait without pods, start with the pods of their job, and lose them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.kube.connection import resource_kinds
from scheduling.kube.observed_kinds import LOCAL_QUEUES, WORKLOADS
from scheduling.models import SchedulerDifference, Task, Workflow
from scheduling.services.verify import verify
from tests.integration.observing.test_seen_work import Lab
from tests.support import world
from tests.support.observed_cluster import FIRM


@pytest.fixture
def lab(db: None) -> Lab:
    found = Lab()
    found.cluster.uninstall_kinds(resource_kinds.POD_GROUP, resource_kinds.QUEUE)
    found.cluster.install_kinds(WORKLOADS[0], LOCAL_QUEUES[0])
    queue = {"metadata": {"name": "lq", "namespace": "science"}, "spec": {"clusterQueue": "team"}}
    found.cluster.create(LOCAL_QUEUES[0], queue, field_manager=FIRM)
    world.make_pool("team", 8, on=found.backend)
    found.look()
    return found


def add_workload(lab: Lab, count: int = 2) -> None:
    template = {"spec": {"containers": [{"name": "m", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]}}
    body: dict[str, Any] = {
        "metadata": {"name": "job-x", "namespace": "science", "ownerReferences": [{"uid": "the-job"}]},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": count, "template": template}]},
    }
    lab.cluster.create(WORKLOADS[0], body, field_manager=FIRM)


def set_condition(lab: Lab, kind: str, reason: str) -> None:
    condition = {"type": kind, "status": "True", "reason": reason, "message": "to accommodate prod"}
    status = {"conditions": [condition | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    lab.cluster.merge(WORKLOADS[0], "job-x", {"status": status}, field_manager=FIRM, namespace="science", status=True)


def add_pods(lab: Lab, *names: str) -> None:
    for name in names:
        lab.firm.add_pod(name, namespace="science", node="n1")
        owner = {"metadata": {"ownerReferences": [{"uid": "the-job"}]}}
        lab.cluster.merge(resource_kinds.POD, name, owner, field_manager=FIRM, namespace="science")


def test_a_workload_waits_starts_is_preempted_and_ends(lab: Lab) -> None:
    add_workload(lab)
    lab.look()
    assert lab.states() == {"job-x": ("PENDING", 0)}
    set_condition(lab, "Admitted", "Admitted")
    add_pods(lab, "a", "b")
    lab.look()
    assert lab.states() == {"job-x": ("RUNNING", 2)}
    assert Task.objects.count() == 2, "the pods have the attempts that waited"
    assert lab.other_gpus() == {"n1": 0, "n2": 0}
    set_condition(lab, "Evicted", "Preempted")
    for name in ("a", "b"):
        lab.firm.delete(name, namespace="science")
    lab.look()
    assert lab.states() == {"job-x": ("PENDING", 0)}
    assert SchedulerDifference.objects.get().kind == "preempted"
    set_condition(lab, "Admitted", "Admitted")
    add_pods(lab, "c", "d")
    lab.look()
    assert lab.states() == {"job-x": ("RUNNING", 2)}
    for name in ("c", "d"):
        lab.firm.set_phase(name, "Succeeded", namespace="science")
    set_condition(lab, "Finished", "Succeeded")
    lab.look()
    work = Workflow.objects.get()
    assert (work.status, lab.states()) == ("COMPLETED", {})
    assert sorted(Task.objects.values_list("status", flat=True)) == ["COMPLETED"] * 2 + ["FAILED_PREEMPTED"] * 2


def test_a_job_goes_on_between_two_of_its_pods(lab: Lab) -> None:
    """One with more completions than pods at a time; its last pod is gone when it ends."""
    add_workload(lab, count=1)
    set_condition(lab, "Admitted", "Admitted")
    add_pods(lab, "a")
    lab.look()
    lab.firm.set_phase("a", "Succeeded", namespace="science")
    lab.look()
    assert lab.states() == {"job-x": ("PENDING", 0)}
    lab.firm.delete("a", namespace="science")
    lab.look()
    assert lab.states() == {"job-x": ("PENDING", 0)}
    add_pods(lab, "b")
    lab.look()
    assert lab.states() == {"job-x": ("RUNNING", 1)}
    assert verify() == []
    set_condition(lab, "Finished", "Succeeded")
    lab.firm.delete("b", namespace="science")
    lab.look()
    work = Workflow.objects.get()
    assert (work.status, lab.states()) == ("COMPLETED", {})
    assert set(Task.objects.values_list("status", flat=True)) == {"COMPLETED"}
    assert verify() == []


def test_a_job_that_ended_and_is_gone_has_ended(lab: Lab) -> None:
    add_workload(lab)
    set_condition(lab, "Admitted", "Admitted")
    add_pods(lab, "a", "b")
    lab.look()
    for name in ("a", "b"):
        lab.firm.set_phase(name, "Succeeded", namespace="science")
    set_condition(lab, "Finished", "Succeeded")
    lab.delete("a", "b")
    lab.delete("job-x", kind=WORKLOADS[0])
    lab.observer.observe()
    assert Workflow.objects.get().status == "COMPLETED"
    assert set(Task.objects.values_list("status", flat=True)) == {"COMPLETED"}
    lab.look()
    assert lab.states() == {}
    assert verify() == []


def test_a_job_that_failed(lab: Lab) -> None:
    add_workload(lab)
    set_condition(lab, "Admitted", "Admitted")
    add_pods(lab, "a", "b")
    lab.look()
    set_condition(lab, "Finished", "Failed")
    for name in ("a", "b"):
        lab.firm.delete(name, namespace="science")
    lab.look()
    work = Workflow.objects.get()
    assert (work.status, work.failure_message, lab.states()) == ("FAILED", "to accommodate prod", {})
    assert verify() == []


def test_a_workload_whose_pods_cannot_be_found_does_not_wait(lab: Lab) -> None:
    add_workload(lab)
    lab.look()
    set_condition(lab, "Admitted", "Admitted")
    lab.look()
    assert lab.states() == {}
