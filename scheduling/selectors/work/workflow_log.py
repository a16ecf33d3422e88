"""The log of a workflow: lines of text from its times and its audit entries.

A simulated backend runs no processes, and a cluster keeps the output of its containers
(:mod:`scheduling.services.kubernetes.pod_output`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pools.domain.values.amounts import words_of_any
from pools.domain.values.counting import counted
from pools.models import AuditEntry, Pool
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Group, Task, Workflow
from scheduling.selectors.work.decisions import read_flavor_starts


@dataclass(frozen=True, slots=True)
class LogLine:
    """One event; `task` is empty for an event of the whole workflow. `order` is that among events of one instant."""

    time: datetime
    subject: str
    text: str
    task: str = ""
    retry: int = 0
    is_failure: bool = False
    order: int = 1

    def __str__(self) -> str:
        return f"{self.time.astimezone(UTC):%Y-%m-%d %H:%M:%S} [{self.subject}] {self.text}"


def attempt_label(task: Task) -> str:
    """The name of an attempt in texts: `train`, and `train#1` for its second attempt."""
    return f"{task.name}#{task.retry_id}" if task.retry_id else task.name


def task_log_lines(workflow: Workflow) -> list[LogLine]:
    """Starts and ends of all tasks, oldest first. Groups and tasks must be loaded."""
    found = [line for group in workflow.loaded_groups for task in group.loaded_tasks for line in _attempt_lines(task)]
    return sorted(found, key=lambda line: (line.time, line.subject))


def event_log_lines(workflow: Workflow) -> list[LogLine]:
    """The lines of :func:`task_log_lines`, and the events of the workflow and of its groups. One more query; in a pool
    with GPU flavors three more."""
    found, starts, words = list(_audit_lines(workflow)), read_flavor_starts(workflow), gang_words(workflow)
    for group in workflow.loaded_groups:
        if start := starts.get(group.pk):
            found.append(LogLine(start.time, group.name, start.message))
        if group.ready_at:
            found.append(LogLine(group.ready_at, group.name, f"waits for {counted(group.gpus, *words(group))}"))
        if group.end_time and not group.start_time:
            why = f": {group.failure_message}" if group.failure_message else ""
            found.append(LogLine(group.end_time, group.name, f"never started, {group.status}{why}"))
    return sorted([*found, *task_log_lines(workflow)], key=lambda line: (line.time, line.order))


def gang_words(workflow: Workflow) -> Callable[..., tuple[str, str]]:
    """What one GPU of these gangs and several are called: with their flavor where they may use one alone."""

    def words(*groups: Group) -> tuple[str, str]:
        tasks = [task for group in groups for task in group.loaded_tasks if task.gpu_count]
        return words_of_work(workflow.root_pool, (task.gpu_flavors for task in tasks))

    return words


def words_of_work(root: Pool, named: Iterable[Sequence[str]]) -> tuple[str, str]:
    """The same of work of a pool; `named` are the flavors that each of its tasks with GPUs names."""
    flavors = {flavor for names in named for flavor in names or root.gpu_flavors}
    return words_of_any(flavors, root.part_flavors, is_named=True)


def _audit_lines(workflow: Workflow) -> Iterator[LogLine]:
    for entry in AuditEntry.objects.filter(object=f"workflow/{workflow.name}").order_by("id"):
        status = (entry.after or {}).get("status", "")
        note = f": {entry.description}" if entry.description and entry.actor != "system" else ""
        verb = entry.action.removeprefix("workflow.")
        # The audit entry is written after the row, but no event of a workflow is before its submission.
        is_first = verb == "submitted"
        at = workflow.submit_time if is_first else entry.time
        # A state of the workflow follows from what its groups and tasks did at that instant.
        order = 0 if is_first else 2
        yield LogLine(at, workflow.name, f"{verb} by {entry.actor}, now {status}{note}", order=order)


def _attempt_lines(task: Task) -> Iterator[LogLine]:
    name = attempt_label(task)
    if task.start_time:
        yield LogLine(task.start_time, name, f"started on node {task.node_name}", task.name, task.retry_id)
    if task.end_time:
        failed = TaskStatus(task.status).is_failed
        code = f", exit code {task.exit_code}" if task.exit_code is not None else ""
        reason = f": {task.failure_message}" if task.failure_message else ""
        yield LogLine(task.end_time, name, f"ended as {task.status}{code}{reason}", task.name, task.retry_id, failed)
