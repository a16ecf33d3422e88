"""Work whose object is deleted in the look in which it ended or was preempted: what its last states tell is kept."""

from __future__ import annotations

import pytest

from scheduling.kube.connection import resource_kinds
from scheduling.models import Receipt, SchedulerDifference, Task, Workflow
from scheduling.services.verify import verify
from tests.integration.observing.test_seen_work import Lab
from tests.support import world


@pytest.fixture
def lab(db: None) -> Lab:
    found = Lab()
    world.make_pool("science", 8, on=found.backend)
    return found


def delete_gang(lab: Lab) -> None:
    lab.delete("train-0", "train-1")
    lab.delete("train", kind=resource_kinds.POD_GROUP)
    lab.observer.observe()


@pytest.fixture
def gang(lab: Lab) -> Lab:
    """A gang that runs, of two pods."""
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


@pytest.mark.parametrize(
    ("phases", "status", "ends"),
    [
        (["Succeeded", "Succeeded"], "COMPLETED", ["COMPLETED"] * 2),
        (["Succeeded", "Failed"], "FAILED", ["COMPLETED", "FAILED"]),
        ([], "FAILED_CANCELED", ["FAILED_CANCELED"] * 2),  # it was deleted while it ran
    ],
)
def test_a_gang_that_ended_and_is_gone_has_ended(gang: Lab, phases: list[str], status: str, ends: list[str]) -> None:
    for number, phase in enumerate(phases):
        gang.firm.set_phase(f"train-{number}", phase, namespace="science")
    delete_gang(gang)
    assert (Workflow.objects.get().status, attempts()) == (status, ends)
    settled(gang)


def test_a_gang_that_was_preempted_has_its_receipt_and_is_then_deleted(gang: Lab) -> None:
    """As in two looks: its attempts were preempted, and nothing starts again because somebody deleted it."""
    for name in ("train-0", "train-1"):
        gang.firm.preempt(name, namespace="science", message="for urgent work")
    delete_gang(gang)
    work = Workflow.objects.get()
    assert (work.status, attempts()[-2:]) == ("FAILED_CANCELED", ["FAILED_PREEMPTED"] * 2)
    assert Receipt.objects.count() == 2
    assert SchedulerDifference.objects.get().kind == "preempted"
    settled(gang)


def test_the_pods_that_a_deleted_gang_leaves_are_no_work_of_their_own(gang: Lab) -> None:
    """They have seconds to end, and hold their GPUs as use of others until then."""
    informers = gang.observer._informers
    gang.delete("train", kind=resource_kinds.POD_GROUP)
    for name in ("train-0", "train-1"):
        last = gang.cluster.get(resource_kinds.POD, name, namespace="science")
        leaving = {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}
        informers.pods._apply_event(last | {"metadata": last["metadata"] | leaving}, is_deleted=False)
    for _ in range(2):
        gang.observer.observe()
        assert Workflow.objects.get().status == "FAILED_CANCELED"
        informers._changed = True
    assert gang.other_gpus() == {"n1": 2, "n2": 0}
    assert verify() == []


def test_a_pod_that_ended_has_ended(lab: Lab) -> None:
    lab.firm.add_pod("alone", namespace="science", node="n1")
    lab.look()
    lab.firm.set_phase("alone", "Succeeded", namespace="science")
    lab.delete("alone")
    lab.observer.observe()
    assert (Workflow.objects.get().status, attempts()) == ("COMPLETED", ["COMPLETED"])
    settled(lab)
