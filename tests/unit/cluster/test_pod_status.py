"""Pods as kubelet, scheduler and eviction leave them, and the status of their tasks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from scheduling.domain.cluster.pods.pod_status import CONFIG_GRACE, START_TIMEOUT, read_pod_status
from scheduling.domain.statuses import TaskStatus

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
TASK = UUID(int=7)


def at(before: timedelta) -> str:
    """A time before now, as Kubernetes writes it."""
    return (NOW - before).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(
    phase: str = "Pending", *, node: str = "", own: Any = None, sidecar: Any = None, **status: Any
) -> dict[str, Any]:
    """A pod of ours; `own` is the state of the task's container, `sidecar` that of an injected container."""
    states = [("task", own), ("sidecar", sidecar)]
    return {
        "metadata": {"name": "p", "labels": {"osmo.task_uuid": str(TASK)}, "creationTimestamp": at(timedelta(hours=2))},
        "spec": {"containers": [{"name": "task"}, {"name": "sidecar"}]} | ({"nodeName": node} if node else {}),
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": name, "state": state} for name, state in states if state is not None],
            **status,
        },
    }


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


def ended(code: int, reason: str = "", message: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


def condition(kind: str, reason: str = "", message: str = "", status: str = "True", since: str = "") -> dict[str, Any]:
    return {
        "type": kind,
        "reason": reason,
        "message": message,
        "status": status,
        "lastTransitionTime": since or at(timedelta(minutes=1)),
    }


PREEMPTED = condition("DisruptionTarget", "PreemptionByScheduler", "reclaimed for team-b")
S = TaskStatus


@pytest.mark.parametrize(
    ("observed", "status", "code", "words"),
    [
        pytest.param(pod(), S.SCHEDULING, None, "", id="waits for a machine"),
        pytest.param({"metadata": {}, "spec": {}}, S.SCHEDULING, None, "", id="says nothing yet"),
        pytest.param(pod(node="n1"), S.INITIALIZING, None, "", id="has a machine"),
        pytest.param(pod(node="n1", own=waiting("ContainerCreating")), S.INITIALIZING, None, "", id="being made"),
        pytest.param(pod("Running", node="n1", own={"running": {}}), S.RUNNING, None, "", id="runs"),
        pytest.param(pod("Succeeded", node="n1"), S.COMPLETED, 0, "", id="succeeded, nothing else said"),
        pytest.param(pod("Succeeded", own=ended(0, "Completed")), S.COMPLETED, 0, "", id="done"),
        pytest.param(pod("Running", own=ended(0), sidecar={"running": {}}), S.COMPLETED, 0, "", id="sidecar goes on"),
        pytest.param(pod("Running", own={"running": {}}, sidecar=ended(1)), S.RUNNING, None, "", id="sidecar died"),
        pytest.param(pod("Failed", own=ended(3, "Error")), S.FAILED, 3, "exit code 3", id="user's exit code"),
        pytest.param(pod("Failed", own=ended(1, "Error", "no  such\nfile")), S.FAILED, 1, "no such", id="its words"),
        pytest.param(pod("Failed"), S.FAILED, 4000, "exit code 4000", id="failed, nobody says how"),
        pytest.param(pod("Failed", own=ended(137, "OOMKilled")), S.FAILED_EVICTED, 3004, "memory", id="out of memory"),
        pytest.param(
            pod("Failed", reason="Evicted", message="low on disk", own=ended(137, "Error")),
            S.FAILED_EVICTED, 3004, "low on disk", id="put out",
        ),
        pytest.param(
            pod("Failed", reason="Evicted", conditions=[condition("DisruptionTarget", "TerminationByKubelet")]),
            S.FAILED_EVICTED, 3004, "", id="put out, with the condition",
        ),
        pytest.param(
            pod("Running", node="n1", own={"running": {}}, conditions=[PREEMPTED]),
            S.FAILED_PREEMPTED, 3006, "reclaimed for team-b", id="preempted",
        ),
        pytest.param(
            pod("Succeeded", own=ended(0), conditions=[PREEMPTED]),
            S.FAILED_PREEMPTED, 3006, "", id="preempted, and left politely",
        ),
        pytest.param(
            pod("Running", own={"running": {}}, conditions=[PREEMPTED | {"status": "False"}]),
            S.RUNNING, None, "", id="preemption taken back",
        ),
        pytest.param(
            pod("Running", conditions=[condition("DisruptionTarget", "DeletionByTaintManager", "node n1 is lost")]),
            S.FAILED_BACKEND_ERROR, 3001, "DeletionByTaintManager: node n1 is lost", id="node lost",
        ),
        pytest.param(
            pod("Failed", reason="UnexpectedAdmissionError", message="no healthy GPU"),
            S.FAILED_BACKEND_ERROR, 3001, "no healthy GPU", id="refused by the node",
        ),
        pytest.param(
            pod("Failed", own=ended(137, "ContainerStatusUnknown")),
            S.FAILED_BACKEND_ERROR, 3001, "lost", id="machine rebooted",
        ),
        pytest.param(
            pod("Failed", own=ended(128, "StartError", "exec: not found")),
            S.FAILED_START_ERROR, 3003, "exec: not found", id="never started",
        ),
        pytest.param(
            pod(node="n1", own=waiting("ImagePullBackOff", "not found")),
            S.FAILED_IMAGE_PULL, None, "ImagePullBackOff: not found", id="no image",
        ),
        pytest.param(pod(node="n1", own=waiting("ErrImagePull")), S.FAILED_IMAGE_PULL, None, "", id="pull failed"),
        pytest.param(pod(node="n1", own=waiting("InvalidImageName")), S.FAILED_IMAGE_PULL, None, "", id="bad name"),
        pytest.param(
            pod(node="n1", own=waiting("CreateContainerError")), S.FAILED_START_ERROR, 3003, "", id="cannot be made"
        ),
        pytest.param(pod("Unknown", node="n1"), None, None, "", id="nobody knows"),
    ],
)  # fmt: skip
def test_the_status_of_a_pod(observed: dict[str, Any], status: TaskStatus | None, code: int | None, words: str) -> None:
    report = read_pod_status(observed, now=NOW)
    assert (report.status, report.exit_code) == (status, code)
    assert words in report.message


def test_a_deleted_pod_has_ended_even_if_it_runs_still() -> None:
    observed = pod("Running", node="n1", own={"running": {}})
    observed["metadata"]["deletionTimestamp"] = at(timedelta(0))
    report = read_pod_status(observed, now=NOW)
    assert (report.status, report.exit_code) == (S.FAILED_BACKEND_ERROR, 3001)


def test_a_deleted_pod_that_was_done_is_done() -> None:
    observed = pod("Succeeded", own=ended(0))
    observed["metadata"]["deletionTimestamp"] = at(timedelta(0))
    assert read_pod_status(observed, now=NOW).status is S.COMPLETED


def test_a_secret_may_come_late_but_not_for_ever() -> None:
    def observed(since: timedelta) -> dict[str, Any]:
        placed = condition("PodScheduled", since=at(since))
        return pod(node="n1", own=waiting("CreateContainerConfigError", 'secret "s3" not found'), conditions=[placed])

    early = read_pod_status(observed(CONFIG_GRACE - timedelta(minutes=1)), now=NOW)
    assert (early.status, early.exit_code) == (S.INITIALIZING, None)
    late = read_pod_status(observed(CONFIG_GRACE), now=NOW)
    assert (late.status, late.exit_code) == (S.FAILED_START_ERROR, 3003)
    assert "s3" in late.message


def test_an_image_that_never_comes_is_given_up() -> None:
    def observed(since: timedelta) -> dict[str, Any]:
        return pod(node="n1", conditions=[condition("PodScheduled", since=at(since))])

    early = read_pod_status(observed(START_TIMEOUT - timedelta(seconds=5)), now=NOW)
    assert (early.status, early.exit_code) == (S.INITIALIZING, None)
    late = read_pod_status(observed(START_TIMEOUT), now=NOW)
    assert (late.status, late.exit_code) == (S.FAILED_START_TIMEOUT, 3005)


def test_the_report_has_node_and_times() -> None:
    running = {"running": {"startedAt": "2026-11-01T11:30:00Z"}}
    report = read_pod_status(pod("Running", node="n1", own=running), now=NOW)
    assert (report.task, report.node, report.started_at) == (TASK, "n1", NOW - timedelta(minutes=30))
    over = {"terminated": {"exitCode": 0, "startedAt": "2026-11-01T11:30:00Z", "finishedAt": "2026-11-01T11:59:00Z"}}
    report = read_pod_status(pod("Succeeded", node="n1", own=over), now=NOW)
    assert (report.started_at, report.ended_at) == (NOW - timedelta(minutes=30), NOW - timedelta(minutes=1))


def test_invalid_times_and_ids_are_none() -> None:
    observed = pod("Running", node="n1", own={"running": {"startedAt": "yesterday"}})
    observed["metadata"]["labels"] = {"osmo.task_uuid": "7"}
    report = read_pod_status(observed, now=NOW)
    assert (report.task, report.started_at) == (None, None)
