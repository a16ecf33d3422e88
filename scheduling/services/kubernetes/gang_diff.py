"""A gang as the ledger has it beside what its cluster shows -> what is to be written, made and taken away.

Level-triggered: nothing here knows which event came, so nothing depends on every event having come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from scheduling.domain.cluster.naming import pod_name
from scheduling.domain.cluster.pod_status import PodStatusReport, read_pod_status
from scheduling.domain.cluster.unschedulable import read_unschedulable_reason
from scheduling.domain.dispatch_admission import BY_PLATFORM
from scheduling.domain.statuses import TaskStatus
from scheduling.selectors.cluster_gangs import OpenGang
from scheduling.services.kubernetes.observation import CLUSTER_FAULT, has_new_information

Object = dict[str, Any]


class ObjectIndex(Protocol):
    """What is seen of one kind of object: by name, and by the gang it belongs to."""

    def get(self, name: str) -> Object | None:
        """The object of this name."""
        ...

    def by_key(self, key: UUID | None) -> list[Object]:
        """The objects of this gang; of None those that name no gang."""
        ...


@dataclass(slots=True)
class ClusterDiff:
    """What follows from a look at some gangs. `news` are reports to be written; `found` tries whose pods are there,
    which the ledger did not know; `missing` tries whose pods were there and are not seen any more; `to_create` gangs of
    which something is to be made or brought up to date; `reasons` what gangs wait for, where that has changed;
    `pods` and `pod_groups` are to be taken away."""

    reports: dict[UUID, dict[UUID, PodStatusReport]] = field(default_factory=dict)
    created_pods: list[UUID] = field(default_factory=list)
    missing_pods: dict[UUID, list[UUID]] = field(default_factory=dict)
    to_create: list[UUID] = field(default_factory=list)
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
) -> ClusterDiff:
    """What follows for the gangs that were looked at; those that are not open any more lose all their objects."""
    findings = ClusterDiff()
    for group in group_ids:
        gang = None if group is None else gangs.get(group)
        if gang is None:
            findings.pods_to_delete += pods.by_key(group)
            findings.pod_groups_to_delete += pod_groups.by_key(group)
        else:
            _compare_one(findings, gang, pods, next(iter(pod_groups.by_key(gang.group)), None), now)
    return findings


def _compare_one(
    findings: ClusterDiff, gang: OpenGang, pods: ObjectIndex, pod_group: Object | None, now: datetime
) -> None:
    names = {pod_name(task.pk): task for task in gang.attempts}
    reports: dict[UUID, PodStatusReport] = {}
    unmade = False
    for name, task in names.items():
        if (pod := pods.get(name)) is not None:
            reports[task.pk] = read_pod_status(pod, now=now)
            if task.dispatched_at is None:
                findings.created_pods.append(task.pk)
        elif task.dispatched_at is None:
            unmade = True
        else:
            findings.missing_pods.setdefault(gang.group, []).append(task.pk)
    if any(has_new_information(task, reports[task.pk]) for task in gang.attempts if task.pk in reports):
        findings.reports[gang.group] = reports
    elif unmade or _is_outdated(gang, pod_group):
        findings.to_create.append(gang.group)
    findings.pods_to_delete += [pod for pod in pods.by_key(gang.group) if pod["metadata"]["name"] not in names]
    reason = _reason(gang, pod_group)
    if reason != gang.waiting_reason and not _is_ours(gang, pod_group):
        findings.waiting_reasons[gang.group] = reason


def _is_outdated(gang: OpenGang, pod_group: Object | None) -> bool:
    """Whether its PodGroup is missing, in another queue, or asks for pods that have ended. KAI would put down a gang
    below its minimum."""
    if pod_group is None:
        return True
    spec = pod_group.get("spec") or {}
    counts = not gang.has_tree and not spec.get("subGroups")
    return spec.get("queue") != gang.queue or (counts and spec.get("minMember") != len(gang.attempts))


def _reason(gang: OpenGang, pod_group: Object | None) -> Mapping[str, Any] | None:
    if gang.status != TaskStatus.SCHEDULING or pod_group is None:
        return None
    refusal = read_unschedulable_reason(pod_group)
    return None if refusal is None else refusal.as_json()


def _is_ours(gang: OpenGang, pod_group: Object | None) -> bool:
    """Why it could not be made, or why we keep it from the cluster, stays its reason until it is made."""
    known = gang.waiting_reason or {}
    is_ours = known.get("code") == CLUSTER_FAULT or known.get("by") == BY_PLATFORM
    return is_ours and any(task.dispatched_at is None for task in gang.attempts)


def confirm_lost_pods(
    missing: Mapping[UUID, Iterable[UUID]], get_pod: Callable[[str], Object | None]
) -> dict[UUID, dict[UUID, PodStatusReport]]:
    """Reports of those tries whose pods are really gone, which `get_pod` asks the cluster itself: a mirror may lag."""
    gone = PodStatusReport(
        None,
        TaskStatus.FAILED_BACKEND_ERROR,
        exit_code=3001,
        message="The pod is gone from the cluster; nobody saw how its task ended.",
        is_deleting=True,
    )
    found: dict[UUID, dict[UUID, PodStatusReport]] = {}
    for group, tries in missing.items():
        for task in tries:
            if get_pod(pod_name(task)) is None:
                found.setdefault(group, {})[task] = gone
    return found
