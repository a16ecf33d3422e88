"""From a pod of the API server to the status of its task (design, O7.4).

Facts in, verdict out. Times decide only cases without an event: a container that cannot be created for long, an image
that never arrives. Missing information is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from pools.domain.values.stored_text import as_storable
from scheduling.domain.cluster.naming import TASK_UUID, read_uuid_label
from scheduling.domain.cluster.pods.timestamps import parse_time
from scheduling.domain.kubernetes_json import ReadOnlyObject
from scheduling.domain.statuses import EXIT_CODES, TaskStatus

START_TIMEOUT = timedelta(minutes=30)
"""From the assignment of a node to the first process: time for the largest images."""

CONFIG_GRACE = timedelta(minutes=10)
"""The time for which a container may wait for a Secret to be created."""

UNKNOWN_EXIT_CODE = 4000
ENDED_PHASES = {"Succeeded", "Failed"}
"""Phases of a pod that no longer uses resources."""

_PREEMPTED = "PreemptionByScheduler"
_MAX_MESSAGE_LENGTH = 1000

# Reasons of a waiting container that end the task. The node would repeat a failed pull, but OSMO ends the task at the
# first failure, so that a typing error in an image name holds no GPUs.
_NO_IMAGE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
_NO_START = {"CreateContainerError", "RunContainerError", "StartError", "CrashLoopBackOff", "PostStartHookError"}
_NO_CONFIG = {"CreateContainerConfigError"}
_NEVER_RAN = {"StartError", "ContainerCannotRun"}
_NODE_LOST = {"ContainerStatusUnknown", "NodeLost"}


@dataclass(frozen=True, slots=True)
class PodStatusReport:
    """The status of a task from its pod; None when the pod gives no usable information."""

    task: UUID | None
    status: TaskStatus | None
    exit_code: int | None = None
    message: str = ""
    node: str = ""
    pod_ip: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Verdict:
    status: TaskStatus | None
    message: str = ""
    exit_code: int | None = None


def read_pod_status(pod: ReadOnlyObject, *, now: datetime) -> PodStatusReport:
    """The report of one of our pods."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    verdict = _verdict(pod, now)
    state = _state(pod)
    running, ended = state.get("running") or {}, state.get("terminated") or {}
    code = verdict.exit_code
    if code is None and verdict.status is not None and verdict.status.is_finished:
        code = EXIT_CODES.get(verdict.status)
    return PodStatusReport(
        task=read_uuid_label(metadata.get("labels"), TASK_UUID),
        status=verdict.status,
        exit_code=code,
        message=as_storable(" ".join(verdict.message.split())[:_MAX_MESSAGE_LENGTH]),
        node=(pod.get("spec") or {}).get("nodeName") or "",
        pod_ip=status.get("podIP") or "",
        started_at=parse_time(running.get("startedAt") or ended.get("startedAt")),
        ended_at=parse_time(ended.get("finishedAt")),
    )


def _verdict(pod: ReadOnlyObject, now: datetime) -> _Verdict:
    """The most specific explanation first: the pod was preempted, its node failed, the task ended."""
    if condition := _condition(pod, reason=_PREEMPTED):
        return _Verdict(TaskStatus.FAILED_PREEMPTED, _message(condition, "The scheduler preempted the pod."))
    status = pod.get("status") or {}
    if status.get("reason") == "Evicted":
        return _Verdict(TaskStatus.FAILED_EVICTED, _message(status, "The node evicted the pod."))
    if condition := _condition(pod, kind="DisruptionTarget"):
        text = _message(condition, "The pod was disrupted.")
        return _Verdict(TaskStatus.FAILED_BACKEND_ERROR, f"{condition.get('reason', 'Disruption')}: {text}")
    phase = status.get("phase", "Pending")
    terminated = _state(pod).get("terminated")
    if terminated or phase in ENDED_PHASES:
        return _end(status, phase, terminated or {})
    if (pod["metadata"]).get("deletionTimestamp"):
        return _Verdict(TaskStatus.FAILED_BACKEND_ERROR, "The pod was deleted in the cluster before its task ended.")
    if verdict := _stuck_verdict(pod, now):
        return verdict
    if phase == "Running":
        return _Verdict(TaskStatus.RUNNING)
    return _pending_verdict(pod, now) if phase == "Pending" else _Verdict(None)


def _end(status: ReadOnlyObject, phase: str, terminated: ReadOnlyObject) -> _Verdict:
    reason, code = terminated.get("reason", ""), terminated.get("exitCode")
    if reason == "OOMKilled":
        return _Verdict(TaskStatus.FAILED_EVICTED, "The task used more memory than it requested (OOMKilled).")
    if reason in _NEVER_RAN:
        return _Verdict(TaskStatus.FAILED_START_ERROR, _message(terminated, "The container could not be started."))
    if reason in _NODE_LOST:
        return _Verdict(TaskStatus.FAILED_BACKEND_ERROR, _message(terminated, "The node lost the container."))
    if code == 0 or (code is None and phase == "Succeeded"):
        return _Verdict(TaskStatus.COMPLETED)
    if code is None and status.get("reason"):  # the node refused or stopped the pod: no container ran to its end
        return _Verdict(
            TaskStatus.FAILED_BACKEND_ERROR, f"{status['reason']}: {_message(status, 'the node refused the pod.')}"
        )
    text = _message(terminated, reason if reason not in {"", "Error"} else "")
    code = UNKNOWN_EXIT_CODE if code is None else code
    return _Verdict(TaskStatus.FAILED, f"exit code {code}" + (f": {text}" if text else ""), code)


def _stuck_verdict(pod: ReadOnlyObject, now: datetime) -> _Verdict | None:
    """The verdict for a container that will never run; None while it still may."""
    for container in _containers(pod):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        text = f"{reason}: {_message(waiting, container.get('image', ''))}"
        if reason in _NO_IMAGE:
            return _Verdict(TaskStatus.FAILED_IMAGE_PULL, text)
        if reason in _NO_START:
            return _Verdict(TaskStatus.FAILED_START_ERROR, text)
        if reason in _NO_CONFIG:
            return _late_verdict(pod, now, CONFIG_GRACE, TaskStatus.FAILED_START_ERROR, text)
    return None


def _pending_verdict(pod: ReadOnlyObject, now: datetime) -> _Verdict:
    if not (pod.get("spec") or {}).get("nodeName"):
        return _Verdict(TaskStatus.SCHEDULING)
    text = f"The container did not start within {START_TIMEOUT.total_seconds() / 60:.0f} minutes."
    return _late_verdict(pod, now, START_TIMEOUT, TaskStatus.FAILED_START_TIMEOUT, text)


def _late_verdict(pod: ReadOnlyObject, now: datetime, grace: timedelta, status: TaskStatus, text: str) -> _Verdict:
    """INITIALIZING until the grace period is over, which counts from the time the pod got its node."""
    placed = _condition(pod, kind="PodScheduled") or {}
    since = parse_time(placed.get("lastTransitionTime")) or parse_time((pod.get("status") or {}).get("startTime"))
    if since is not None and since + grace <= now:
        return _Verdict(status, text)
    return _Verdict(TaskStatus.INITIALIZING)


def _condition(pod: ReadOnlyObject, *, kind: str = "", reason: str = "") -> ReadOnlyObject | None:
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition.get("status") != "True":
            continue
        if (not kind or condition.get("type") == kind) and (not reason or condition.get("reason") == reason):
            found: ReadOnlyObject = condition
            return found
    return None


def _state(pod: ReadOnlyObject) -> ReadOnlyObject:
    """The state of the task's container, the first of the manifest. Other containers were injected."""
    containers = (pod.get("spec") or {}).get("containers") or [{}]
    name = containers[0].get("name")
    for container in (pod.get("status") or {}).get("containerStatuses") or []:
        if container.get("name") == name:
            state: ReadOnlyObject = container.get("state") or {}
            return state
    return {}


def _containers(pod: ReadOnlyObject) -> Iterator[ReadOnlyObject]:
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or []
    yield from status.get("containerStatuses") or []


def _message(source: ReadOnlyObject, otherwise: str) -> str:
    return source.get("message") or otherwise
