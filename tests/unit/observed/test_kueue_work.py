"""From Kueue's Workloads to the work that counts."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.domain.observed.kueue_work import trim_workload
from scheduling.domain.observed.seen_work import read_work
from scheduling.domain.statuses import TaskStatus
from tests.unit.observed.test_seen_work import NOW, pod

QUEUES = [{"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "team"}}]
LONG_AGO, JUST_NOW = "2025-12-31T00:00:00Z", "2025-12-31T23:59:30Z"


def workload(*conditions: tuple[str, str, str], admitted_to: str = "", count: int = 2) -> dict[str, Any]:
    template = {"spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "4"}}}]}}
    return {
        "metadata": {"name": "job-x", "namespace": "ns", "uid": "w", "ownerReferences": [{"uid": "job"}]},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": count, "template": template}]},
        "status": {
            "conditions": [
                {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": at, "message": "by prod"}
                for kind, reason, at in conditions
            ],
            "admission": {"clusterQueue": admitted_to} if admitted_to else None,
        },
    }


def read(item: dict[str, Any], *pods: dict[str, Any]) -> list[tuple[str, str, list[tuple[str, int]]]]:
    works = read_work(pods, (), [item], QUEUES, now=NOW)
    assert read_work(pods, (), [trim_workload(item)], QUEUES, now=NOW) == works
    return [(work.kind, work.queue, [(str(each.status), each.gpus) for each in work.pods]) for work in works.works]


WAITING = ("workload", "team", [("SCHEDULING", 4), ("SCHEDULING", 4)])


@pytest.mark.parametrize(
    ("item", "found"),
    [
        (workload(), [WAITING]),
        (workload(("QuotaReserved", "", JUST_NOW), ("Admitted", "", JUST_NOW), admitted_to="team"), [WAITING]),
        (workload(("Admitted", "", LONG_AGO), admitted_to="team"), [("workload", "team", [])]),
        (workload(("Finished", "", JUST_NOW)), [("workload", "team", [])]),
        (workload(admitted_to="other"), [("workload", "other", WAITING[2])]),
    ],
)
def test_a_workload_without_pods(item: dict[str, Any], found: list[Any]) -> None:
    """Its pod sets say what it asks for; admitted long ago, its pods cannot be found."""
    assert read(item) == found


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": [{"uid": "job"}]},
        {"labels": {"jobset.sigs.k8s.io/jobset-uid": "job"}},
        {"annotations": {"kueue.x-k8s.io/workload": "job-x"}},
        {"uid": "job"},
    ],
)
def test_the_pods_of_a_workload(metadata: dict[str, Any]) -> None:
    item = workload(("Admitted", "", LONG_AGO), admitted_to="team")
    runs = pod("a", gpus=4, node="n1", phase="Running", metadata=metadata)
    assert read(item, runs) == [("workload", "team", [("RUNNING", 4)])]
    other = pod("b", gpus=1, metadata={"ownerReferences": [{"uid": "another"}]})
    assert ("pod", "ns", [("SCHEDULING", 1)]) in read(item, runs, other)


def test_a_preemption_by_kueue_is_known() -> None:
    (work,) = read_work((), (), [workload(("Evicted", "Preempted", JUST_NOW))], QUEUES, now=NOW).works
    assert work.taken_away == "by prod"
    (other,) = read_work((), (), [workload(("Evicted", "PodsReadyTimeout", JUST_NOW))], QUEUES, now=NOW).works
    assert other.taken_away == ""
    assert {each.status for each in work.pods} == {TaskStatus.SCHEDULING}


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [("Succeeded", "COMPLETED"), ("JobFinished", "COMPLETED"), ("Failed", "FAILED"), ("OutOfSync", "FAILED_CANCELED")],
)
def test_the_end_of_a_workload(reason: str, outcome: str) -> None:
    (work,) = read_work((), (), [workload(("Finished", reason, JUST_NOW))], QUEUES, now=NOW).works
    assert (work.outcome, work.outcome_message, work.pods) == (outcome, "by prod", ())
    (goes_on,) = read_work((), (), [workload()], QUEUES, now=NOW).works
    assert goes_on.outcome is None


@pytest.mark.parametrize(("value", "priority"), [(0, "NORMAL"), (1000, "HIGH"), (-1, "LOW")])
def test_the_priority_of_a_workload_is_by_the_value_of_its_class(value: int, priority: str) -> None:
    item = workload()
    item["spec"]["priority"] = value
    (work,) = read_work((), (), [trim_workload(item)], QUEUES, now=NOW).works
    assert work.priority == priority
