"""From the objects of an observed cluster to the work that counts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from scheduling.domain.observed.leaf_names import leaf_names, plain_name
from scheduling.domain.observed.seen_pods import SeenWork
from scheduling.domain.observed.seen_work import read_work, trim_observed_pod
from scheduling.domain.statuses import TaskStatus

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pod(name: str, gpus: int = 1, node: str = "", phase: str = "Pending", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "1"} | more.pop(
        "metadata", {}
    )
    resources = {"limits": {"nvidia.com/gpu": str(gpus)} if gpus else {}} | more.pop("resources", {})
    spec = {"containers": [{"name": "main", "resources": resources}]} | more.pop("spec", {})
    if node:
        spec["nodeName"] = node
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase} | more.pop("status", {})}


def read(*pods: dict[str, Any], groups: tuple[dict[str, Any], ...] = ()) -> list[SeenWork]:
    """Also with what the informer keeps of the pods: it must be enough."""
    found = read_work(pods, groups, now=NOW)
    assert read_work([trim_observed_pod(each) for each in pods], groups, now=NOW) == found
    assert not found.unread
    return list(found.works)


@pytest.mark.parametrize(
    ("phase", "node", "conditions", "status"),
    [
        ("Pending", "", [], TaskStatus.SCHEDULING),
        ("Pending", "n1", [], TaskStatus.RUNNING),
        ("Running", "n1", [], TaskStatus.RUNNING),
        ("Succeeded", "n1", [], TaskStatus.COMPLETED),
        ("Failed", "n1", [], TaskStatus.FAILED),
        ("Running", "n1", [{"status": "True", "reason": "PreemptionByScheduler"}], TaskStatus.FAILED_PREEMPTED),
        ("Running", "n1", [{"status": "False", "reason": "PreemptionByScheduler"}], TaskStatus.RUNNING),
    ],
)
def test_the_status_of_a_pod(phase: str, node: str, conditions: list[Any], status: TaskStatus) -> None:
    """A pod with a node holds its GPUs, also while it pulls its image."""
    (work,) = read(pod("a", node=node, phase=phase, status={"conditions": conditions}))
    assert [each.status for each in work.pods] == [status]


def ended_pod(code: int, at: str, **metadata: Any) -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "finishedAt": at}}
    found = pod("a", node="n1", phase="Failed" if code else "Succeeded", metadata=metadata)
    found["status"]["containerStatuses"] = [{"name": "main", "state": state}]
    return found


@pytest.mark.parametrize(
    ("code", "at", "status"),
    [
        (0, "00:00:05", TaskStatus.COMPLETED),
        (1, "00:00:05", TaskStatus.FAILED),
        (1, "00:00:10", TaskStatus.FAILED),
        (143, "00:00:10", TaskStatus.FAILED_CANCELED),
        (143, "00:00:12", TaskStatus.FAILED_CANCELED),
        (0, "00:00:12", TaskStatus.FAILED_CANCELED),
    ],
)
def test_a_pod_that_ends_by_its_deletion_was_cancelled(code: int, at: str, status: TaskStatus) -> None:
    """Its deletion was asked for at 00:00:10. A program that ends well at the signal was stopped as well."""
    leaving = {"deletionTimestamp": "2026-01-01T00:00:40Z", "deletionGracePeriodSeconds": 30}
    (work,) = read(ended_pod(code, f"2026-01-01T{at}Z", **leaving))
    assert [each.status for each in work.pods] == [status]


def test_a_pod_that_is_drained_has_ended_when_it_leaves() -> None:
    drained = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "drain"}
    held, leaving = (
        pod("a", node="n1", phase="Running", status={"conditions": [drained]}, metadata=metadata)
        for metadata in ({}, {"deletionTimestamp": "2026-01-01T00:00:40Z"})
    )
    (stays,), (goes,) = read(held), read(leaving)
    assert (stays.pods[0].status, goes.pods[0].status) == (TaskStatus.RUNNING, TaskStatus.FAILED_BACKEND_ERROR)
    assert goes.pods[0].message == "EvictionByEvictionAPI: drain"


@pytest.mark.parametrize(
    ("asked", "note"),
    [
        ({"metadata": {"annotations": {"gpu-fraction": "0.5"}}}, "gpu-fraction of 1 pod is not counted"),
        ({"resources": {"limits": {"nvidia.com/mig-1g.5gb": "1"}}}, "nvidia.com/mig-1g.5gb of 1 pod is not counted"),
        ({"resources": {"limits": {"amd.com/gpu": "1"}}}, "amd.com/gpu of 1 pod is not counted"),
        ({"spec": {"resourceClaims": [{"name": "c"}]}}, "ResourceClaims of 1 pod is not counted"),
    ],
)
def test_what_nothing_counts_is_named(asked: dict[str, Any], note: str) -> None:
    (work,) = read(pod("a", gpus=0, **asked))
    assert (work.notes, work.pods[0].gpus) == ((note,), 0)


def test_pods_without_gpus_are_no_work() -> None:
    assert read(pod("web", gpus=0, node="n1", phase="Running")) == []


def test_a_pod_group_has_its_pods_and_its_queue() -> None:
    member = {"metadata": {"annotations": {"pod-group-name": "pg"}}}
    group = {"metadata": {"name": "pg", "namespace": "ns", "uid": "g"}, "spec": {"queue": "Team_A", "minMember": 1}}
    (work,) = read(pod("a", **member), pod("b", 0, **member), groups=(group,))
    assert (work.queue, work.minimum, [each.name for each in work.pods]) == ("Team_A", 1, ["a", "b"])
    (alone,) = read(pod("c", metadata={"annotations": {"pod-group-name": "other"}}))
    assert (alone.kind, alone.queue) == ("pod", "ns"), "a PodGroup that is not there"


@pytest.mark.parametrize(
    ("queue", "leaf"),
    [
        ("team", "team"),
        ("TEAM", "team"),
        ("vision", "team--vision"),
        ("team--vision", "team--vision"),
        ("labs", None),
        ("twice", None),
        ("my_queue.x", "my-queue-x"),
        ("", None),
    ],
)
def test_the_leaf_of_a_queue(queue: str, leaf: str | None) -> None:
    leaves = ["team", "team--vision", "team--twice", "other", "other--twice", "my-queue-x"]
    assert leaf_names(leaves).get(plain_name(queue)) == leaf


@pytest.mark.parametrize(
    ("value", "classes", "priority"),
    [
        (0, [], "NORMAL"),
        (1000, [], "HIGH"),
        (-5, [], "LOW"),
        (None, [], "NORMAL"),
        (50, [{"value": 50, "globalDefault": True}, {"value": 1000}], "NORMAL"),
        (0, [{"value": 50, "globalDefault": True}], "LOW"),
        (60, [{"value": 70, "globalDefault": True}, {"value": 50, "globalDefault": True}], "HIGH"),
        (0, [{"value": "fifty", "globalDefault": True}], "NORMAL"),
    ],
)
def test_the_priority_is_by_the_value_of_its_class(value: int | None, classes: list[Any], priority: str) -> None:
    """As an import proposes it: the default class is NORMAL."""
    given = pod("a", spec={} if value is None else {"priority": value})
    (work,) = read_work([trim_observed_pod(given)], (), priority_classes=classes, now=NOW).works
    assert work.priority == priority


def test_the_priority_of_a_pod_of_kai_is_by_what_kai_may_preempt() -> None:
    given = pod("a", spec={"priority": 50}, metadata={"labels": {"kai.scheduler/queue": "team"}})
    assert [work.priority for work in read(given)] == ["LOW"]
