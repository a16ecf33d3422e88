"""Statuses of workflows, groups and tasks; the status of a workflow from those of its groups (design, O7.4)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class WorkflowStatus(StrEnum):
    """The status of a workflow. Active: PENDING, RUNNING (WAITING is accepted in filters and never produced)."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    FAILED_SUBMISSION = "FAILED_SUBMISSION"
    FAILED_SERVER_ERROR = "FAILED_SERVER_ERROR"
    FAILED_EXEC_TIMEOUT = "FAILED_EXEC_TIMEOUT"
    FAILED_QUEUE_TIMEOUT = "FAILED_QUEUE_TIMEOUT"
    FAILED_CANCELED = "FAILED_CANCELED"
    FAILED_BACKEND_ERROR = "FAILED_BACKEND_ERROR"
    FAILED_IMAGE_PULL = "FAILED_IMAGE_PULL"
    FAILED_EVICTED = "FAILED_EVICTED"
    FAILED_START_ERROR = "FAILED_START_ERROR"
    FAILED_START_TIMEOUT = "FAILED_START_TIMEOUT"
    FAILED_PREEMPTED = "FAILED_PREEMPTED"

    @property
    def is_active(self) -> bool:
        """Whether the workflow has not ended."""
        return self in ACTIVE_WORKFLOW_STATUSES

    @property
    def is_failed(self) -> bool:
        """Whether it ended with a failure."""
        return self.startswith("FAILED")


ACTIVE_WORKFLOW_STATUSES = frozenset({WorkflowStatus.PENDING, WorkflowStatus.RUNNING, WorkflowStatus.WAITING})


class TaskStatus(StrEnum):
    """The status of a task or a group. A WAITING group waits for the groups before it, a SCHEDULING group for GPUs."""

    SUBMITTING = "SUBMITTING"
    WAITING = "WAITING"
    PROCESSING = "PROCESSING"
    SCHEDULING = "SCHEDULING"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    RESCHEDULED = "RESCHEDULED"
    FAILED = "FAILED"
    FAILED_CANCELED = "FAILED_CANCELED"
    FAILED_SERVER_ERROR = "FAILED_SERVER_ERROR"
    FAILED_BACKEND_ERROR = "FAILED_BACKEND_ERROR"
    FAILED_EXEC_TIMEOUT = "FAILED_EXEC_TIMEOUT"
    FAILED_QUEUE_TIMEOUT = "FAILED_QUEUE_TIMEOUT"
    FAILED_IMAGE_PULL = "FAILED_IMAGE_PULL"
    FAILED_UPSTREAM = "FAILED_UPSTREAM"
    FAILED_EVICTED = "FAILED_EVICTED"
    FAILED_START_ERROR = "FAILED_START_ERROR"
    FAILED_START_TIMEOUT = "FAILED_START_TIMEOUT"
    FAILED_PREEMPTED = "FAILED_PREEMPTED"

    @property
    def is_finished(self) -> bool:
        """Whether it has ended, with success or a failure."""
        return self not in UNFINISHED_TASK_STATUSES

    @property
    def is_failed(self) -> bool:
        """Whether it ended with a failure."""
        return self.startswith("FAILED")


UNFINISHED_TASK_STATUSES = frozenset(
    {
        TaskStatus.SUBMITTING,
        TaskStatus.WAITING,
        TaskStatus.PROCESSING,
        TaskStatus.SCHEDULING,
        TaskStatus.INITIALIZING,
        TaskStatus.RUNNING,
    }
)

# The first of these statuses among its groups is the status of an ended workflow; other failures only if all are equal.
_NAMES_WORKFLOW_END = (
    TaskStatus.FAILED_CANCELED,
    TaskStatus.FAILED_SERVER_ERROR,
    TaskStatus.FAILED_EXEC_TIMEOUT,
    TaskStatus.FAILED_QUEUE_TIMEOUT,
)

EXIT_CODES = {
    TaskStatus.COMPLETED: 0,
    TaskStatus.FAILED: 1,
    TaskStatus.FAILED_UPSTREAM: 3000,
    TaskStatus.FAILED_BACKEND_ERROR: 3001,
    TaskStatus.FAILED_SERVER_ERROR: 3002,
    TaskStatus.FAILED_START_ERROR: 3003,
    TaskStatus.FAILED_EVICTED: 3004,
    TaskStatus.FAILED_START_TIMEOUT: 3005,
    TaskStatus.FAILED_PREEMPTED: 3006,
}
"""The exit code of a task with this final status, where the backend reports none."""


def derive_workflow_status(groups: Iterable[TaskStatus]) -> WorkflowStatus:
    """The status of a workflow from its groups': RUNNING while one runs, PENDING while one is unfinished. After the
    end: the failure that outranks the others, else the only kind of failure (FAILED_UPSTREAM merely follows from
    another group's), else FAILED."""
    statuses = set(groups)
    if any(not status.is_finished for status in statuses):
        return WorkflowStatus.RUNNING if TaskStatus.RUNNING in statuses else WorkflowStatus.PENDING
    failures = statuses - {TaskStatus.COMPLETED, TaskStatus.RESCHEDULED}
    if not failures:
        return WorkflowStatus.COMPLETED
    for named in _NAMES_WORKFLOW_END:
        if named in failures:
            return WorkflowStatus(named)
    failures.discard(TaskStatus.FAILED_UPSTREAM)
    return WorkflowStatus(failures.pop()) if len(failures) == 1 else WorkflowStatus.FAILED
