"""Work whose object is deleted in the look in which it ended or was preempted: what its last states tell is kept."""

from __future__ import annotations

import pytest

from scheduling.kube.connection import resource_kinds
from scheduling.kube.connection.port import ResourceKind
from scheduling.kube.informer import Informer
from scheduling.kube.observed_kinds import WORKLOADS
from scheduling.models import Receipt, SchedulerDifference, Task, Workflow
from scheduling.services.verify import verify
from tests.integration.observing.test_kueue import add_pods, add_workload, set_condition
from tests.integration.observing.test_kueue import lab as lab_of_kueue  # noqa: F401
from tests.integration.observing.test_seen_work import Lab, lab  # noqa: F401
from tests.support import world
from tests.support.fake_cluster import FakeCluster


def delete(lab: Lab, name: str, kind: ResourceKind, informer: Informer[str]) -> None:
    """A deletion that a watch tells, with the last state of the object."""
    last = lab.cluster.get(kind, name, namespace="science")
    lab.firm.delete(name, namespace="science", kind=kind)
    informer._apply_event(last, is_deleted=True)


def delete_gang(lab: Lab, *pods: str) -> None:
    informers = lab.observer._informers
    for name in pods:
        delete(lab, name, resource_kinds.POD, informers.pods)
    delete(lab, "train", resource_kinds.POD_GROUP, informers.pod_groups)
    lab.observer.observe()


@pytest.fixture
def gang(lab: Lab) -> Lab:  # noqa: F811
    """A gang that runs, of two pods."""
    world.make_pool("science", 8, on=lab.backend)
    for pod in lab.firm.add_pod_group("train", namespace="science", queue="science", pods=2):
        lab.firm.start(pod["metadata"]["name"], "n1", namespace="science")
    lab.look()
    return lab


def attempts() -> list[str]:
    return sorted(Task.objects.values_list("status", flat=True))


def settled(lab: Lab) -> None:
    lab.look()
    assert lab.states() == {}
    assert Workflow.objects.count() == 1, "nothing of it becomes work of its own"
    assert verify() == []


def test_a_gang_that_ended_has_ended(gang: Lab) -> None:
    for name in ("train-0", "train-1"):
        gang.firm.set_phase(name, "Succeeded", namespace="science")
    delete_gang(gang, "train-0", "train-1")
    assert (Workflow.objects.get().status, attempts()) == ("COMPLETED", ["COMPLETED"] * 2)
    settled(gang)


def test_a_gang_that_failed_has_failed(gang: Lab) -> None:
    for name, phase in (("train-0", "Succeeded"), ("train-1", "Failed")):
        gang.firm.set_phase(name, phase, namespace="science")
    delete_gang(gang, "train-0", "train-1")
    assert (Workflow.objects.get().status, attempts()) == ("FAILED", ["COMPLETED", "FAILED"])
    settled(gang)


def test_a_gang_that_was_preempted_has_its_receipt_and_is_then_deleted(gang: Lab) -> None:
    """As in two looks: its attempts were preempted, and nothing starts again because somebody deleted it."""
    for name in ("train-0", "train-1"):
        gang.firm.preempt(name, namespace="science", message="for urgent work")
    delete_gang(gang, "train-0", "train-1")
    work = Workflow.objects.get()
    assert (work.status, attempts()[-2:]) == ("FAILED_CANCELED", ["FAILED_PREEMPTED"] * 2)
    assert Receipt.objects.count() == 2
    assert SchedulerDifference.objects.get().kind == "preempted"
    settled(gang)


def test_a_gang_that_was_deleted_while_it_ran_is_canceled(gang: Lab) -> None:
    delete_gang(gang, "train-0", "train-1")
    assert (Workflow.objects.get().status, attempts()) == ("FAILED_CANCELED", ["FAILED_CANCELED"] * 2)
    settled(gang)


def test_the_pods_that_a_deleted_gang_leaves_are_no_work_of_their_own(gang: Lab) -> None:
    """They have seconds to end, and hold their GPUs as use of others until then."""
    informers = gang.observer._informers
    delete(gang, "train", resource_kinds.POD_GROUP, informers.pod_groups)
    for name in ("train-0", "train-1"):
        leaving = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}}
        last = gang.cluster.get(resource_kinds.POD, name, namespace="science")
        newer = {"resourceVersion": f"{last['metadata']['resourceVersion']}1"}
        informers.pods._apply_event(
            last | {"metadata": last["metadata"] | leaving["metadata"] | newer}, is_deleted=False
        )
    for _ in range(2):
        gang.observer.observe()
        assert Workflow.objects.get().status == "FAILED_CANCELED"
        informers._changed = True
    assert gang.other_gpus() == {"n1": 2, "n2": 0}
    assert verify() == []


def test_a_workload_that_ended_has_ended(lab_of_kueue: Lab) -> None:  # noqa: F811
    here: Lab = lab_of_kueue
    add_workload(here)
    set_condition(here, "Admitted", "Admitted")
    add_pods(here, "a", "b")
    here.look()
    for name in ("a", "b"):
        here.firm.set_phase(name, "Succeeded", namespace="science")
        delete(here, name, resource_kinds.POD, here.observer._informers.pods)
    set_condition(here, "Finished", "Succeeded")
    delete(here, "job-x", WORKLOADS[0], here.observer._informers._workloads[0])
    here.observer.observe()
    assert (Workflow.objects.get().status, attempts()) == ("COMPLETED", ["COMPLETED"] * 2)
    settled(here)


def test_a_pod_that_ended_has_ended(lab: Lab) -> None:  # noqa: F811
    world.make_pool("science", 8, on=lab.backend)
    lab.firm.add_pod("alone", namespace="science", node="n1")
    lab.look()
    lab.firm.set_phase("alone", "Succeeded", namespace="science")
    delete(lab, "alone", resource_kinds.POD, lab.observer._informers.pods)
    lab.observer.observe()
    assert (Workflow.objects.get().status, attempts()) == ("COMPLETED", ["COMPLETED"])
    settled(lab)
    assert isinstance(lab.cluster, FakeCluster)
