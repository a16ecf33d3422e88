"""The rows of a workflow's groups and tasks at the time of submission."""

from __future__ import annotations

import uuid

from scheduling.domain.deadlines import gang_deadlines
from scheduling.domain.statuses import TaskStatus
from scheduling.domain.workflow_spec import GroupSpec
from scheduling.models import Group, Task, Workflow


def build_group(workflow: Workflow, position: int, spec: GroupSpec) -> Group:
    """A group that waits for GPUs, or for the groups before it. Its queue timeout starts when it may start."""
    waits = bool(spec.inputs)
    status = TaskStatus.WAITING if waits else TaskStatus.SCHEDULING
    ready_at = None if waits else workflow.submit_time
    ends = gang_deadlines(
        status,
        ready_at=ready_at,
        ends_at=None,
        workflow_started=None,
        exec_timeout=workflow.exec_timeout,
        queue_timeout=workflow.queue_timeout,
    )
    return Group(
        uuid=uuid.uuid4(),
        workflow=workflow,
        name=spec.name,
        position=position,
        upstream=list(spec.inputs),
        status=status,
        gpus=spec.gpus,
        gang=None if spec.gang is None else dict(spec.gang),
        ready_at=ready_at,
        due_at=ends.earliest,
    )


def build_tasks(group: Group, spec: GroupSpec) -> list[Task]:
    """The first attempt of each task of a group."""
    return [
        Task(
            group=group,
            name=task.name,
            position=position,
            lead=task.lead,
            sub_group=task.sub_group,
            status=group.status,
            gpu_count=task.gpu,
            cpu_count=task.cpu,
            memory_bytes=task.memory_bytes,
            storage_bytes=task.storage_bytes,
            platform=task.platform or "default",
            nodes_excluded=list(task.nodes_excluded),
            gpu_flavors=list(task.gpu_flavors),
            exit_actions={action: [list(codes) for codes in ranges] for action, ranges in task.exit_actions.items()},
        )
        for position, task in enumerate(spec.tasks)
    ]
