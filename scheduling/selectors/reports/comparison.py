"""Two workflows side by side: what their files ask for, how long they waited and for what, and how they ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import unified_diff
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.utils import timezone

from pools.domain.people.roles import Actor
from scheduling.domain.reason_codes import WaitCause
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Group, Task, Workflow
from scheduling.selectors.reports.past_waits import read_waits, sum_by_cause
from scheduling.selectors.usage.charts import CAUSE_TITLES
from scheduling.selectors.work.workflows import get_full_workflow

MAX_LINES = 2_000
"""The most lines of a file that are compared; a comparison of longer files would hold up other requests."""


class FactUnit(StrEnum):
    """What the values of a fact are. A time is a datetime, an age; `seconds`, `gpu_seconds` and `bytes` are numbers."""

    TEXT = "text"
    COUNT = "count"
    GPUS = "gpus"
    BYTES = "bytes"
    TIME = "time"
    SECONDS = "seconds"
    GPU_SECONDS = "gpu_seconds"


@dataclass(frozen=True, slots=True)
class ComparedFact:
    """One fact of both; None where a workflow has none."""

    key: str
    title: str
    unit: FactUnit
    first: Any
    second: Any

    @property
    def is_different(self) -> bool:
        """Whether the two differ."""
        return bool(self.first != self.second)


@dataclass(frozen=True, slots=True)
class ComparedGang:
    """The facts of the gangs with one name; `in_first` and `in_second` say which workflow has one."""

    name: str
    in_first: bool
    in_second: bool
    facts: tuple[ComparedFact, ...]


@dataclass(frozen=True, slots=True)
class WorkflowsSideBySide:
    """Two workflows. `file_changes` are the lines of a unified difference of their rendered files, none if these are
    equal, and None if one has more than :data:`MAX_LINES`."""

    first: Workflow
    second: Workflow
    facts: tuple[ComparedFact, ...]
    gangs: tuple[ComparedGang, ...]
    file_changes: tuple[str, ...] | None


_Values = Mapping[tuple[str, str, FactUnit], Any]
_Waits = Mapping[UUID, Mapping[WaitCause, float]]


def compare_workflows(actor: Actor, first: str, second: str) -> WorkflowsSideBySide:
    """Compare two workflows by name or uuid. Eight queries. Raises NotFound if one does not exist or `actor` may not
    see it."""
    one, other = (get_full_workflow(actor, name, all_attempts=True) for name in (first, second))
    gangs_of_one, gangs_of_other = ({each.name: each for each in work.loaded_groups} for work in (one, other))
    now = timezone.now()
    every = [*gangs_of_one.values(), *gangs_of_other.values()]
    waits = {group: sum_by_cause(found) for group, found in read_waits(every, now).items()}
    return WorkflowsSideBySide(
        first=one,
        second=other,
        facts=tuple(_pairs(_workflow_values(one, now), _workflow_values(other, now))),
        gangs=tuple(
            ComparedGang(
                name,
                name in gangs_of_one,
                name in gangs_of_other,
                tuple(
                    _pairs(
                        _gang_values(gangs_of_one.get(name), waits, now),
                        _gang_values(gangs_of_other.get(name), waits, now),
                    )
                ),
            )
            for name in dict.fromkeys([*gangs_of_one, *gangs_of_other])
        ),
        file_changes=_file_changes(one, other),
    )


def _pairs(first: _Values, second: _Values) -> Iterator[ComparedFact]:
    """The facts that either has."""
    for fact in dict.fromkeys([*first, *second]):
        key, title, unit = fact
        one, other = first.get(fact), second.get(fact)
        if one is not None or other is not None:
            yield ComparedFact(key, title, unit, one, other)


def _workflow_values(workflow: Workflow, now: datetime) -> _Values:
    groups = workflow.loaded_groups
    attempts = [task for group in groups for task in group.loaded_tasks]
    backend = workflow.root_pool.backend
    return {
        ("status", "Status", FactUnit.TEXT): workflow.status,
        ("failure_message", "Failure", FactUnit.TEXT): workflow.failure_message or None,
        ("pool", "Pool", FactUnit.TEXT): workflow.pool.name,
        ("cluster", "Cluster", FactUnit.TEXT): backend.name if backend else None,
        ("priority", "Priority", FactUnit.TEXT): workflow.priority,
        ("user", "Submitted by", FactUnit.TEXT): workflow.submitted_by.username,
        ("restart_of", "Restart of", FactUnit.TEXT): workflow.parent.name if workflow.parent else None,
        ("gpus", "GPUs of its gangs", FactUnit.GPUS): sum(group.gpus for group in groups),
        ("exec_timeout", "Execution timeout", FactUnit.SECONDS): _seconds(workflow.exec_timeout),
        ("queue_timeout", "Queue timeout", FactUnit.SECONDS): _seconds(workflow.queue_timeout),
        ("submit_time", "Submitted", FactUnit.TIME): workflow.submit_time,
        ("start_time", "Started", FactUnit.TIME): workflow.start_time,
        ("end_time", "Ended", FactUnit.TIME): workflow.end_time,
        ("waited_seconds", "Waited for its start", FactUnit.SECONDS): _length(
            workflow.submit_time, workflow.start_time or workflow.end_time, now
        ),
        ("run_seconds", "Since start", FactUnit.SECONDS): _length(workflow.start_time, workflow.end_time, now),
        **_attempt_values(attempts, now),
    }


def _gang_values(group: Group | None, waits: _Waits, now: datetime) -> _Values:
    if group is None:
        return {}
    attempts = group.loaded_tasks
    latest = {task.name: task for task in attempts}.values()
    by_cause = waits.get(group.pk, {})
    return {
        ("status", "Status", FactUnit.TEXT): group.status,
        ("failure_message", "Failure", FactUnit.TEXT): group.failure_message or None,
        ("after", "After the groups", FactUnit.TEXT): ", ".join(group.upstream) or None,
        ("gpus", "GPUs at once", FactUnit.GPUS): group.gpus,
        ("tasks", "Tasks", FactUnit.COUNT): len(latest),
        ("cores", "Cores of all tasks", FactUnit.COUNT): sum(task.cpu_count for task in latest),
        ("memory_bytes", "Memory of all tasks", FactUnit.BYTES): sum(task.memory_bytes for task in latest),
        ("storage_bytes", "Storage of all tasks", FactUnit.BYTES): sum(task.storage_bytes for task in latest),
        ("platform", "Platform", FactUnit.TEXT): _names(task.platform for task in latest),
        ("waited_seconds", "Waited for GPUs", FactUnit.SECONDS): sum(by_cause.values()) if by_cause else None,
        **{
            (f"waited_{cause}_seconds", f"Of that: {title.lower()}", FactUnit.SECONDS): by_cause.get(WaitCause(cause))
            for cause, title in CAUSE_TITLES.items()
        },
        ("start_time", "Started", FactUnit.TIME): group.start_time,
        ("end_time", "Ended", FactUnit.TIME): group.end_time,
        ("run_seconds", "Since start", FactUnit.SECONDS): _length(group.start_time, group.end_time, now),
        **_attempt_values(attempts, now),
        ("nodes", "Nodes of the last attempts", FactUnit.TEXT): _names(task.node_name for task in latest),
        ("exit_codes", "Exit codes", FactUnit.TEXT): _names(
            str(task.exit_code) for task in latest if task.exit_code is not None
        ),
    }


def _attempt_values(attempts: Sequence[Task], now: datetime) -> _Values:
    started = [task for task in attempts if task.start_time is not None]
    used = sum(task.gpu_count * (_length(task.start_time, task.end_time, now) or 0.0) for task in started)
    preempted = sum(task.status == TaskStatus.FAILED_PREEMPTED for task in started)
    return {
        ("attempts", "Attempts of tasks that started", FactUnit.COUNT): len(started),
        ("preempted_attempts", "Preempted attempts", FactUnit.COUNT): preempted,
        ("gpu_seconds", "Used", FactUnit.GPU_SECONDS): round(used, 3),
    }


def _file_changes(first: Workflow, second: Workflow) -> tuple[str, ...] | None:
    one, other = first.spec.splitlines(), second.spec.splitlines()
    if max(len(one), len(other)) > MAX_LINES:
        return None
    return tuple(unified_diff(one, other, first.name, second.name, lineterm=""))


def _names(found: Iterable[str]) -> str | None:
    return ", ".join(sorted({each for each in found if each})) or None


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()


def _length(begin: datetime | None, end: datetime | None, now: datetime) -> float | None:
    return None if begin is None else max(0.0, ((end or now) - begin).total_seconds())
