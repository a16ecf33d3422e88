"""What happened to a workflow, as lines of text: from its times and its audit entries, nothing else.

A simulated backend runs no process and a cluster keeps what its containers print, so there is no output to show; what
is known is told instead of invented.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from pools.models import AuditEntry
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Task, Workflow


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened; `task` is empty for what concerns the whole workflow."""

    at: datetime
    subject: str
    text: str
    task: str = ""
    retry: int = 0
    failed: bool = False

    def __str__(self) -> str:
        return f"{self.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} [{self.subject}] {self.text}"


def task_lines(workflow: Workflow) -> list[Line]:
    """Starts and ends of all tasks, oldest first. Groups and tasks must be loaded."""
    found = [line for group in workflow.groups.all() for task in group.tasks.all() for line in _of_task(task)]
    return sorted(found, key=lambda line: (line.at, line.subject))


def event_lines(workflow: Workflow) -> list[Line]:
    """What :func:`task_lines` tells, and between it what became of the workflow and of its groups. One more query."""
    found = list(_of_audit(workflow))
    for group in workflow.groups.all():
        if group.ready_at:
            found.append(Line(group.ready_at, group.name, f"waits for {group.gpus} GPUs"))
        if group.end_time and not group.start_time:
            found.append(
                Line(group.end_time, group.name, f"never started: {group.status} {group.failure_message}".strip())
            )
    return sorted([*found, *task_lines(workflow)], key=lambda line: line.at)


def _of_audit(workflow: Workflow) -> Iterator[Line]:
    for entry in AuditEntry.objects.filter(object=f"workflow/{workflow.name}").order_by("id"):
        status = (entry.after or {}).get("status", "")
        note = f": {entry.description}" if entry.description and entry.actor != "system" else ""
        verb = entry.action.removeprefix("workflow.")
        # The trail is written after the row: nothing of a workflow was before its submission.
        at = workflow.submit_time if verb == "submitted" else entry.time
        yield Line(at, workflow.name, f"{verb} by {entry.actor}, now {status}{note}")


def _of_task(task: Task) -> Iterator[Line]:
    name = f"{task.name}#{task.retry_id}" if task.retry_id else task.name
    if task.start_time:
        yield Line(task.start_time, name, f"started on node {task.node_name}", task.name, task.retry_id)
    if task.end_time:
        failed = TaskStatus(task.status).is_failed
        code = f", exit code {task.exit_code}" if task.exit_code is not None else ""
        reason = f": {task.failure_message}" if task.failure_message else ""
        yield Line(task.end_time, name, f"ended as {task.status}{code}{reason}", task.name, task.retry_id, failed)
