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
from scheduling.domain.cluster.pod_status import Report, read_pod
from scheduling.domain.cluster.unschedulable import read_refusal
from scheduling.domain.dispatch_admission import HOUSE
from scheduling.domain.statuses import TaskStatus
from scheduling.selectors.cluster_work import OpenGang
from scheduling.services.kubernetes.observation import CLUSTER_FAULT, is_news

Object = dict[str, Any]


class Sight(Protocol):
    """What is seen of one kind of object: by name, and by the gang it belongs to."""

    def get(self, name: str) -> Object | None:
        """The object of this name."""
        ...

    def of(self, key: UUID | None) -> list[Object]:
        """The objects of this gang; of None those that name no gang."""
        ...


@dataclass(slots=True)
class Findings:
    """What follows from a look at some gangs. `news` are reports to be written; `found` tries whose pods are there,
    which the ledger did not know; `missing` tries whose pods were there and are not seen any more; `to_make` gangs of
    which something is to be made or brought up to date; `reasons` what gangs wait for, where that has changed;
    `pods` and `pod_groups` are to be taken away."""

    news: dict[UUID, dict[UUID, Report]] = field(default_factory=dict)
    found: list[UUID] = field(default_factory=list)
    missing: dict[UUID, list[UUID]] = field(default_factory=dict)
    to_make: list[UUID] = field(default_factory=list)
    reasons: dict[UUID, Mapping[str, Any] | None] = field(default_factory=dict)
    pods: list[Object] = field(default_factory=list)
    pod_groups: list[Object] = field(default_factory=list)


def compare(
    gangs: Mapping[UUID, OpenGang], looked_at: Iterable[UUID | None], *, pods: Sight, pod_groups: Sight, now: datetime
) -> Findings:
    """What follows for the gangs that were looked at; those that are not open any more lose all their objects."""
    findings = Findings()
    for group in looked_at:
        gang = None if group is None else gangs.get(group)
        if gang is None:
            findings.pods += pods.of(group)
            findings.pod_groups += pod_groups.of(group)
        else:
            _compare_one(findings, gang, pods, next(iter(pod_groups.of(gang.group)), None), now)
    return findings


def _compare_one(findings: Findings, gang: OpenGang, pods: Sight, pod_group: Object | None, now: datetime) -> None:
    names = {pod_name(task.pk): task for task in gang.tries}
    reports: dict[UUID, Report] = {}
    unmade = False
    for name, task in names.items():
        if (pod := pods.get(name)) is not None:
            reports[task.pk] = read_pod(pod, now=now)
            if task.dispatched_at is None:
                findings.found.append(task.pk)
        elif task.dispatched_at is None:
            unmade = True
        else:
            findings.missing.setdefault(gang.group, []).append(task.pk)
    if any(is_news(task, reports[task.pk]) for task in gang.tries if task.pk in reports):
        findings.news[gang.group] = reports
    elif unmade or _is_outdated(gang, pod_group):
        findings.to_make.append(gang.group)
    findings.pods += [pod for pod in pods.of(gang.group) if pod["metadata"]["name"] not in names]
    reason = _reason(gang, pod_group)
    if reason != gang.waiting_reason and not _is_ours(gang, pod_group):
        findings.reasons[gang.group] = reason


def _is_outdated(gang: OpenGang, pod_group: Object | None) -> bool:
    """Whether its PodGroup is missing, in another queue, or asks for pods that have ended. KAI would put down a gang
    below its minimum."""
    if pod_group is None:
        return True
    spec = pod_group.get("spec") or {}
    counts = not gang.has_tree and not spec.get("subGroups")
    return spec.get("queue") != gang.queue or (counts and spec.get("minMember") != len(gang.tries))


def _reason(gang: OpenGang, pod_group: Object | None) -> Mapping[str, Any] | None:
    if gang.status != TaskStatus.SCHEDULING or pod_group is None:
        return None
    refusal = read_refusal(pod_group)
    return None if refusal is None else refusal.as_json()


def _is_ours(gang: OpenGang, pod_group: Object | None) -> bool:
    """Why it could not be made, or why we keep it from the cluster, stays its reason until it is made."""
    known = gang.waiting_reason or {}
    is_ours = known.get("code") == CLUSTER_FAULT or known.get("by") == HOUSE
    return is_ours and any(task.dispatched_at is None for task in gang.tries)


def confirm(
    missing: Mapping[UUID, Iterable[UUID]], look: Callable[[str], Object | None]
) -> dict[UUID, dict[UUID, Report]]:
    """Reports of those tries whose pods are really gone, which `look` asks the cluster itself: a mirror may lag."""
    gone = Report(
        None,
        TaskStatus.FAILED_BACKEND_ERROR,
        exit_code=3001,
        message="The pod is gone from the cluster; nobody saw how its task ended.",
        gone=True,
    )
    found: dict[UUID, dict[UUID, Report]] = {}
    for group, tries in missing.items():
        for task in tries:
            if look(pod_name(task)) is None:
                found.setdefault(group, {})[task] = gone
    return found
