"""Compares a gang in the ledger with its objects in the cluster: facts in, work to do out.

The comparison is level-triggered: it does not know which event came, so nothing depends on every event having come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from scheduling.domain.cluster.naming import pod_group_name, pod_name
from scheduling.domain.cluster.pods.pod_status import PodStatusReport, read_pod_status
from scheduling.domain.cluster.pods.unschedulable import read_unplaced_reason, read_unschedulable_reason
from scheduling.domain.judgement.dispatch_admission import BY_PLATFORM
from scheduling.domain.kubernetes_json import Object
from scheduling.domain.reason_codes import ReasonCode
from scheduling.domain.statuses import TaskStatus

"""The code of a waiting reason whose cause is a fault of the cluster, not a verdict of its scheduler."""

STATUS_RANK = {TaskStatus.SCHEDULING: 0, TaskStatus.INITIALIZING: 1, TaskStatus.RUNNING: 2}
"""The order in which an attempt moves through the statuses that it has in a cluster."""


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    """An attempt of a task that has not ended, as the ledger knows it. `is_dispatched`: its pod was created."""

    task_id: UUID
    status: TaskStatus
    node: str
    pod_ip: str
    is_dispatched: bool


@dataclass(frozen=True, slots=True)
class OpenGang:
    """A gang between its admission and its end. `queue` is the current Kubernetes name of its leaf's queue; `has_tree`
    says that the gang brings a tree of subgroups of its own."""

    group_id: UUID
    status: TaskStatus
    queue: str
    has_tree: bool
    waiting_reason: Mapping[str, Any] | None
    attempts: tuple[OpenAttempt, ...]


class ObjectIndex(Protocol):
    """The known objects of one kind, by name and by gang."""

    def get(self, name: str) -> Object | None:
        """The object of this name."""
        ...

    def by_key(self, key: UUID | None) -> list[Object]:
        """The objects of this gang; for None, the objects that name no gang."""
        ...


@dataclass(slots=True)
class ClusterDiff:
    """What follows from a comparison.

    `reports` (by gang, then by attempt) are to be written to the ledger; `created_pods` are attempts whose pods exist,
    which the ledger did not know; `missing_pods` (by gang) are attempts whose known pods have disappeared.
    `to_create` are gangs with objects to create or to update, `to_verify` gangs with objects that another client may
    have changed; `waiting_reasons` are the changed ones.
    """

    reports: dict[UUID, dict[UUID, PodStatusReport]] = field(default_factory=dict)
    created_pods: list[UUID] = field(default_factory=list)
    missing_pods: dict[UUID, list[UUID]] = field(default_factory=dict)
    to_create: list[UUID] = field(default_factory=list)
    to_verify: list[UUID] = field(default_factory=list)
    waiting_reasons: dict[UUID, Mapping[str, Any] | None] = field(default_factory=dict)
    pods_to_delete: list[Object] = field(default_factory=list)
    pod_groups_to_delete: list[Object] = field(default_factory=list)


def diff_gangs(
    gangs: Mapping[UUID, OpenGang],
    group_ids: Iterable[UUID | None],
    *,
    pods: ObjectIndex,
    pod_groups: ObjectIndex,
    now: datetime,
    is_verified: Callable[[Object], bool],
    apart: Callable[[object], AbstractContextManager[None]] | None = None,
) -> ClusterDiff:
    """Compares the gangs of these ids. A gang that is not in `gangs` has ended: all its objects are deleted, except
    those with the name of an object of a gang in `gangs`, whose label another client changed. `is_verified` says
    whether the object is known to be as we wrote it; `apart` is a context for the work on each gang, which may keep its
    errors from the others."""
    diff = ClusterDiff()
    open_pods = {pod_name(attempt.task_id) for gang in gangs.values() for attempt in gang.attempts}
    open_pod_groups = {pod_group_name(group_id) for group_id in gangs}
    for group_id in group_ids:
        gang = None if group_id is None else gangs.get(group_id)
        with nullcontext() if apart is None else apart(group_id):
            diff.pods_to_delete += [pod for pod in pods.by_key(group_id) if _name(pod) not in open_pods]
            if gang is not None:
                _add_gang(diff, gang, pods, pod_groups.get(pod_group_name(gang.group_id)), now, is_verified)
            else:
                diff.pod_groups_to_delete += [
                    item for item in pod_groups.by_key(group_id) if _name(item) not in open_pod_groups
                ]
    return diff


def _add_gang(
    diff: ClusterDiff,
    gang: OpenGang,
    pods: ObjectIndex,
    pod_group: Object | None,
    now: datetime,
    is_verified: Callable[[Object], bool],
) -> None:
    by_pod = {pod_name(attempt.task_id): attempt for attempt in gang.attempts}
    reports: dict[UUID, PodStatusReport] = {}
    is_incomplete = False
    is_drifted = pod_group is not None and not is_verified(pod_group)
    for name, attempt in by_pod.items():
        if (pod := pods.get(name)) is not None:
            reports[attempt.task_id] = read_pod_status(pod, now=now)
            is_drifted = is_drifted or not is_verified(pod)
            if not attempt.is_dispatched:
                diff.created_pods.append(attempt.task_id)
        elif not attempt.is_dispatched:
            is_incomplete = True
        else:
            diff.missing_pods.setdefault(gang.group_id, []).append(attempt.task_id)
    if any(has_new_information(each, reports[each.task_id]) for each in gang.attempts if each.task_id in reports):
        diff.reports[gang.group_id] = reports
    elif is_incomplete or _is_outdated(gang, pod_group):
        diff.to_create.append(gang.group_id)
    if is_drifted:
        diff.to_verify.append(gang.group_id)
    reason = _waiting_reason(gang, pod_group, [pod for name in by_pod if (pod := pods.get(name)) is not None])
    if reason != gang.waiting_reason and not _is_reason_kept(gang):
        diff.waiting_reasons[gang.group_id] = reason


def _name(item: Object) -> str:
    return str(item["metadata"]["name"])


def has_new_information(attempt: OpenAttempt, report: PodStatusReport) -> bool:
    """Whether a report says something that the ledger does not know of an open attempt."""
    if report.status is None or report.status is TaskStatus.SCHEDULING:
        return False
    if report.status.is_finished:
        return True
    if STATUS_RANK[report.status] < STATUS_RANK[attempt.status]:
        return False
    known = (attempt.status, attempt.node, attempt.pod_ip)
    return known != (report.status, report.node or attempt.node, report.pod_ip or attempt.pod_ip)


def _is_outdated(gang: OpenGang, pod_group: Object | None) -> bool:
    """Whether the PodGroup is missing, is in another queue, or counts pods that have ended: KAI would evict a gang
    below its minimum."""
    if pod_group is None:
        return True
    spec = pod_group.get("spec") or {}
    has_plain_minimum = not gang.has_tree and not spec.get("subGroups")
    return spec.get("queue") != gang.queue or (has_plain_minimum and spec.get("minMember") != len(gang.attempts))


def _waiting_reason(gang: OpenGang, pod_group: Object | None, pods: Iterable[Object]) -> Mapping[str, Any] | None:
    if gang.status != TaskStatus.SCHEDULING or pod_group is None:
        return None
    reason = read_unschedulable_reason(pod_group) or read_unplaced_reason(pods)
    return None if reason is None else reason.as_json()


def _is_reason_kept(gang: OpenGang) -> bool:
    """A reason of ours (the cluster failed, or the gang was not admitted to it) stays until all pods were created."""
    known = gang.waiting_reason or {}
    is_ours = known.get("code") == ReasonCode.CLUSTER_FAULT or known.get("by") == BY_PLATFORM
    return is_ours and not all(attempt.is_dispatched for attempt in gang.attempts)


def confirm_lost_pods(
    missing: Mapping[UUID, Iterable[UUID]], get_pod: Callable[[str], Object | None]
) -> dict[UUID, dict[UUID, PodStatusReport]]:
    """Reports of the attempts whose pods certainly no longer exist. An informer may lag, so `get_pod` asks the API
    server."""
    lost = PodStatusReport(
        None,
        TaskStatus.FAILED_BACKEND_ERROR,
        exit_code=3001,
        message="The pod is gone from the cluster; nobody saw how its task ended.",
    )
    reports: dict[UUID, dict[UUID, PodStatusReport]] = {}
    for group_id, task_ids in missing.items():
        for task_id in task_ids:
            if get_pod(pod_name(task_id)) is None:
                reports.setdefault(group_id, {})[task_id] = lost
    return reports
