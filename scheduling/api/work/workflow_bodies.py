"""Workflows, groups and tasks as the stock client indexes them (design, O7.2), with their position in the queue
(design, A5)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, NotRequired, TypedDict
from uuid import UUID

from django.conf import settings
from django.utils import timezone
from rest_framework.request import Request

from pools.api.rendering import utc_text, zoned_text
from pools.api.schema import UtcText, ZonedText
from pools.domain.people.roles import Actor
from scheduling.api.work.pending_queue import (
    QueuePositionAnswer,
    ReasonAnswer,
    StartAnswer,
    queue_position_body,
    reason_body,
    start_body,
)
from scheduling.api.work.receipts import LOST_PARTS, losses_body
from scheduling.domain.cluster.naming import pod_name
from scheduling.domain.gang_tree_rows import GangAnswer, gang_body
from scheduling.domain.observed.observed_object import ObservedObject
from scheduling.domain.priorities import Priority
from scheduling.domain.reason_codes import WaitCause
from scheduling.domain.statuses import TaskStatus, WorkflowStatus
from scheduling.models import Group, Task, Workflow
from scheduling.selectors.queue.visible_queue import WaitingGang, WaitingReservation, waiting_gangs_of
from scheduling.selectors.receipts.preemptions import Preemption, read_preemptions
from scheduling.selectors.reports.past_waits import GangWait, read_waits
from scheduling.selectors.work.gang_tree_rows import read_gang_tree_rows
from scheduling.selectors.work.observed_objects import find_observed_object
from scheduling.selectors.work.workflow_rows import WorkflowRow
from scheduling.selectors.work.workflows import ListedWorkflow, queue_names_of

GIB = 2**30


class _WorkflowTimes(TypedDict):
    submit_time: UtcText
    start_time: UtcText | None
    end_time: UtcText | None
    queued_time: float
    duration: float | None


class ListedWorkflowAnswer(_WorkflowTimes):
    """A row of the list of workflows. With `details` it has `gpus`, `reason`, `start`, `reservation` and `observed`."""

    user: str
    name: str
    workflow_uuid: str
    status: Annotated[str, WorkflowStatus]
    overview: str
    logs: str
    error_logs: str
    grafana_url: None
    dashboard_url: str
    pool: str
    app_owner: None
    app_name: str | None
    app_version: str | None
    priority: Annotated[str, Priority]
    labels: dict[str, Any]
    tags: list[str]
    queue: str
    k8s_queue: str
    gpus: NotRequired[int]
    reason: NotRequired[ReasonAnswer | None]
    start: NotRequired[StartAnswer | None]
    reservation: NotRequired[WaitingReservation | None]
    observed: NotRequired[ObservedObject | None]


class WorkflowListAnswer(TypedDict):
    """A page of the workflows; `total` is there on request."""

    workflows: list[ListedWorkflowAnswer]
    more_entries: bool
    total: NotRequired[int]


class TaskAnswer(TypedDict):
    """One attempt of a task."""

    name: str
    retry_id: int
    status: Annotated[str, TaskStatus]
    failure_message: str | None
    exit_code: int | None
    logs: str
    error_logs: str
    events: str
    processing_start_time: UtcText | None
    scheduling_start_time: UtcText | None
    initializing_start_time: UtcText | None
    start_time: UtcText | None
    end_time: UtcText | None
    input_download_start_time: None
    input_download_end_time: None
    output_upload_start_time: None
    dashboard_url: None
    pod_name: str | None
    pod_ip: str | None
    task_uuid: str
    node_name: str | None
    lead: bool
    sub_group: str | None
    gpu: int


class WaitPartAnswer(TypedDict):
    """A time in which a gang waited for one cause."""

    cause: Annotated[str, WaitCause]
    title: Annotated[str, "The cause in words."]
    since: ZonedText
    until: ZonedText
    seconds: float


class GangWaitAnswer(TypedDict):
    """A wait of a gang for GPUs; `until` is null while it goes on. `parts` follow one another and fill it."""

    since: ZonedText
    until: ZonedText | None
    started: bool
    seconds: float
    parts: list[WaitPartAnswer]


class GroupAnswer(TypedDict):
    """A group of a workflow: a gang."""

    name: str
    status: Annotated[str, TaskStatus]
    start_time: UtcText | None
    end_time: UtcText | None
    processing_start_time: UtcText | None
    scheduling_start_time: UtcText | None
    initializing_start_time: UtcText | None
    remaining_upstream_groups: list[str]
    downstream_groups: list[str]
    failure_message: str | None
    gpus: int
    queue: str
    k8s_queue: str
    waiting: QueuePositionAnswer | None
    gang: GangAnswer | None
    waits: Annotated[list[GangWaitAnswer], "Its waits for GPUs, the oldest first."]
    tasks: list[TaskAnswer]


class PluginsAnswer(TypedDict):
    """The helpers of the stock client that work here."""

    rsync: bool


class PreemptionAnswer(TypedDict):
    """Work that lost GPUs to other work. `by_workflow`, `by_user` and `by_pool` are null where the caller may not know
    them, and where the scheduler of a cluster decided."""

    time: ZonedText
    workflow: str
    user: str
    pool: str
    gpus: int
    by_workflow: str | None
    by_user: str | None
    by_pool: str | None
    lost_gpu_s: Annotated[float, "GPU-seconds since the last checkpoint, else since the start."]
    lost_parts_s: NotRequired[Annotated[dict[str, float], LOST_PARTS]]
    message: Annotated[str, "By whom, and by which rule."]


class WorkflowAnswer(_WorkflowTimes):
    """A workflow with its groups and tasks."""

    name: str
    uuid: str
    submitted_by: str
    cancelled_by: str | None
    spec: str
    template_spec: str
    logs: str
    error_logs: str
    events: str
    overview: str
    parent_name: str | None
    parent_job_id: None
    dashboard_url: str
    grafana_url: None
    tags: list[str]
    exec_timeout: Annotated[float | None, "In seconds."]
    queue_timeout: Annotated[float | None, "In seconds."]
    status: Annotated[str, WorkflowStatus]
    failure_message: str | None
    outputs: str
    groups: list[GroupAnswer]
    pool: str
    backend: str
    app_owner: None
    app_name: str | None
    app_version: str | None
    plugins: PluginsAnswer
    priority: Annotated[str, Priority]
    labels: dict[str, Any]
    warnings: list[str]
    queue: str
    k8s_queue: str
    reason: ReasonAnswer | None
    observed: ObservedObject | None
    preemptions: Annotated[list[PreemptionAnswer], "Of this workflow, the newest first."]
    preempted: Annotated[list[PreemptionAnswer], "The work that it preempted, as far as the caller may see it."]


class ListedTaskAnswer(TypedDict):
    """A row of the list of tasks."""

    user: str
    workflow_id: str
    workflow_uuid: str
    task_name: str
    group_name: str
    retry_id: int
    pool: str
    node: str | None
    start_time: UtcText | None
    end_time: UtcText | None
    duration: float | None
    status: Annotated[str, TaskStatus]
    overview: str
    logs: str
    error_logs: str
    storage: Annotated[float, "In GiB."]
    cpu: float
    memory: Annotated[float, "In GiB."]
    gpu: int
    priority: Annotated[str, Priority]


class TaskSumAnswer(TypedDict):
    """The sums of requests of some tasks; `workflow_id` is there for the sums of workflows."""

    user: str
    pool: str
    cpu: float
    gpu: int
    priority: Annotated[str, Priority]
    workflow_id: NotRequired[str]
    storage: Annotated[float, "In GiB."]
    memory: Annotated[float, "In GiB."]


class TaskListAnswer(TypedDict, total=False):
    """Tasks, or the sums of their requests."""

    tasks: list[ListedTaskAnswer]
    summaries: list[TaskSumAnswer]


class WorkflowLinks:
    """The addresses in an answer: the page of a workflow, and its texts."""

    def __init__(self, request: Request) -> None:
        self._base = settings.OSMO.public_url or request.build_absolute_uri("/").rstrip("/")

    def page_url(self, uuid: UUID | str) -> str:
        """The page of the workflow."""
        return f"{self._base}/workflows/{uuid}"

    def text_url(self, name: str, kind: str) -> str:
        """The `logs`, `error_logs`, `events` or `spec` of a workflow."""
        return f"{self._base}/api/workflow/{name}/{kind}"

    def task_text_url(self, workflow: Workflow, task: Task, kind: str) -> str:
        """The `logs`, `error_logs` or `events` of one attempt of one task."""
        return f"{self.text_url(workflow.name, kind)}?task_name={task.name}&retry_id={task.retry_id}"


def workflow_list_entry(workflow: ListedWorkflow, links: WorkflowLinks) -> ListedWorkflowAnswer:
    """One row of `workflow list`."""
    queue, k8s_queue = workflow.queue_names
    uuid = str(workflow.uuid)
    page_url = links.page_url(uuid)
    return {
        "user": workflow.username,
        "name": workflow.name,
        "workflow_uuid": uuid,
        "submit_time": utc_text(workflow.submit_time),
        "start_time": utc_text(workflow.start_time),
        "end_time": utc_text(workflow.end_time),
        "queued_time": _seconds_between(workflow.submit_time, workflow.start_time or workflow.end_time),
        "duration": _duration(workflow),
        "status": workflow.status,
        "overview": page_url,
        "logs": links.text_url(workflow.name, "logs"),
        "error_logs": links.text_url(workflow.name, "error_logs"),
        "grafana_url": None,
        "dashboard_url": page_url,
        "pool": workflow.pool,
        "app_owner": None,
        "app_name": workflow.app_uuid or None,
        "app_version": workflow.app_version or None,
        "priority": workflow.priority,
        "labels": workflow.labels,
        "tags": workflow.tags,
        "queue": queue,
        "k8s_queue": k8s_queue,
    }


def detailed_list_entry(row: WorkflowRow, links: WorkflowLinks) -> ListedWorkflowAnswer:
    """One row of `workflow list` with `details`."""
    waiting = row.waiting
    body = workflow_list_entry(ListedWorkflow.of(row.workflow), links)
    body["gpus"] = row.gpus
    body["reason"] = None if waiting is None else reason_body(waiting.reason)
    body["start"] = None if waiting is None else start_body(waiting.start)
    body["reservation"] = None if waiting is None else waiting.reservation
    body["observed"] = row.observed
    return body


def workflow_detail(actor: Actor, workflow: Workflow, links: WorkflowLinks) -> WorkflowAnswer:
    """One workflow as `actor`, who may see it, sees it; its groups and tasks must be loaded."""
    waiting, preemptions = waiting_gangs_of(actor, workflow), read_preemptions(actor, workflow)
    queue, k8s_queue = queue_names_of(workflow)
    groups = workflow.loaded_groups
    waits = read_waits(groups, timezone.now())
    assert workflow.root_pool.backend is not None
    first = min(waiting.values(), key=lambda gang: gang.position, default=None)
    return {
        "name": workflow.name,
        "uuid": str(workflow.pk),
        "submitted_by": workflow.submitted_by.username,
        "cancelled_by": workflow.cancelled_by or None,
        "spec": links.text_url(workflow.name, "spec"),
        "template_spec": f"{links.text_url(workflow.name, 'spec')}?use_template=True",
        "logs": links.text_url(workflow.name, "logs"),
        "error_logs": links.text_url(workflow.name, "error_logs"),
        "events": links.text_url(workflow.name, "events"),
        "overview": links.page_url(workflow.pk),
        "parent_name": workflow.parent.name if workflow.parent else None,
        "parent_job_id": None,
        "dashboard_url": links.page_url(workflow.pk),
        "grafana_url": None,
        "tags": workflow.tags,
        "submit_time": utc_text(workflow.submit_time),
        "start_time": utc_text(workflow.start_time),
        "end_time": utc_text(workflow.end_time),
        "queued_time": _seconds_between(workflow.submit_time, workflow.start_time or workflow.end_time),
        "duration": _duration(workflow),
        "exec_timeout": _seconds(workflow.exec_timeout),
        "queue_timeout": _seconds(workflow.queue_timeout),
        "status": workflow.status,
        "failure_message": workflow.failure_message or None,
        "outputs": "",
        "groups": [
            _group_body(workflow, group, groups, links, waiting.get(group.name), waits.get(group.pk, ()))
            for group in groups
        ],
        "pool": workflow.pool.name,
        "backend": workflow.root_pool.backend.name,
        "app_owner": None,
        "app_name": workflow.app_uuid or None,
        "app_version": workflow.app_version or None,
        "plugins": {"rsync": False},
        "priority": workflow.priority,
        "labels": workflow.labels,
        "warnings": workflow.warnings,
        "queue": queue,
        "k8s_queue": k8s_queue,
        "reason": None if first is None else reason_body(first.reason),
        "observed": find_observed_object(workflow),
        "preemptions": [_preemption_body(each) for each in preemptions.lost],
        "preempted": [_preemption_body(each) for each in preemptions.taken],
    }


def _preemption_body(preemption: Preemption) -> PreemptionAnswer:
    return {
        "time": zoned_text(preemption.time),
        "workflow": preemption.workflow,
        "user": preemption.user,
        "pool": preemption.pool,
        "gpus": preemption.gpus,
        "by_workflow": preemption.by_workflow or None,
        "by_user": preemption.by_user or None,
        "by_pool": preemption.by_pool or None,
        **losses_body(preemption.losses),
        "message": preemption.message,
    }


def task_entry(task: Task, links: WorkflowLinks) -> ListedTaskAnswer:
    """One row of `task list`; memory and storage in GiB."""
    workflow = task.group.workflow
    return {
        "user": workflow.submitted_by.username,
        "workflow_id": workflow.name,
        "workflow_uuid": str(workflow.pk),
        "task_name": task.name,
        "group_name": task.group.name,
        "retry_id": task.retry_id,
        "pool": workflow.pool.name,
        "node": task.node_name or None,
        "start_time": utc_text(task.start_time),
        "end_time": utc_text(task.end_time),
        "duration": _duration(task),
        "status": task.status,
        "overview": links.page_url(workflow.pk),
        "logs": links.task_text_url(workflow, task, "logs"),
        "error_logs": links.task_text_url(workflow, task, "error_logs"),
        "storage": task.storage_bytes / GIB,
        "cpu": task.cpu_count,
        "memory": task.memory_bytes / GIB,
        "gpu": task.gpu_count,
        "priority": workflow.priority,
    }


def summary_entry(row: dict[str, Any]) -> TaskSumAnswer:
    """One row of `task list --summary`; memory and storage in GiB."""
    body: TaskSumAnswer = {
        "user": row["user"],
        "pool": row["pool"],
        "cpu": row["cpu"],
        "gpu": row["gpu"],
        "priority": row["priority"],
        "storage": float(row["storage_bytes"] / GIB),
        "memory": float(row["memory_bytes"] / GIB),
    }
    if "workflow_id" in row:
        body["workflow_id"] = row["workflow_id"]
    return body


def _group_body(
    workflow: Workflow,
    group: Group,
    groups: list[Group],
    links: WorkflowLinks,
    waiting: WaitingGang | None,
    waits: Sequence[GangWait],
) -> GroupAnswer:
    queue, k8s_queue = queue_names_of(workflow)
    done = {each.name for each in groups if each.status == TaskStatus.COMPLETED}
    return {
        "name": group.name,
        "status": group.status,
        "start_time": utc_text(group.start_time),
        "end_time": utc_text(group.end_time),
        "processing_start_time": utc_text(group.ready_at),
        "scheduling_start_time": utc_text(group.ready_at),
        "initializing_start_time": utc_text(group.start_time),
        "remaining_upstream_groups": [name for name in group.upstream if name not in done],
        "downstream_groups": [each.name for each in groups if group.name in each.upstream],
        "failure_message": group.failure_message or None,
        "gpus": group.gpus,
        "queue": queue,
        "k8s_queue": k8s_queue,
        "waiting": None if waiting is None else queue_position_body(waiting),
        "gang": gang_body(read_gang_tree_rows(group)),
        "waits": [_wait_body(each) for each in waits],
        "tasks": [_task_body(workflow, group, task, links) for task in group.loaded_tasks],
    }


def _wait_body(wait: GangWait) -> GangWaitAnswer:
    return {
        "since": zoned_text(wait.since),
        "until": zoned_text(wait.until) if wait.is_over else None,
        "started": wait.has_started,
        "seconds": wait.seconds,
        "parts": [
            {
                "cause": part.cause.value,
                "title": part.title,
                "since": zoned_text(part.since),
                "until": zoned_text(part.until),
                "seconds": part.seconds,
            }
            for part in wait.parts
        ],
    }


def _task_body(workflow: Workflow, group: Group, task: Task, links: WorkflowLinks) -> TaskAnswer:
    return {
        "name": task.name,
        "retry_id": task.retry_id,
        "status": task.status,
        "failure_message": task.failure_message or None,
        "exit_code": task.exit_code,
        "logs": links.task_text_url(workflow, task, "logs"),
        "error_logs": links.task_text_url(workflow, task, "error_logs"),
        "events": links.task_text_url(workflow, task, "events"),
        "processing_start_time": utc_text(group.ready_at),
        "scheduling_start_time": utc_text(group.ready_at),
        "initializing_start_time": utc_text(task.start_time),
        "start_time": utc_text(task.start_time),
        "end_time": utc_text(task.end_time),
        "input_download_start_time": None,
        "input_download_end_time": None,
        "output_upload_start_time": None,
        "dashboard_url": None,
        "pod_name": None if task.dispatched_at is None else pod_name(task.pk),
        "pod_ip": task.pod_ip or None,
        "task_uuid": str(task.pk),
        "node_name": task.node_name or None,
        "lead": task.lead,
        "sub_group": task.sub_group or None,
        "gpu": task.gpu_count,
    }


def _duration(work: Workflow | ListedWorkflow | Task) -> float | None:
    """The seconds of its run until now or its end; None before its start."""
    return None if work.start_time is None else _seconds_between(work.start_time, work.end_time)


def _seconds_between(start: datetime, end: datetime | None) -> float:
    """Seconds between two times; until now while the second time is unknown."""
    return ((end or timezone.now()) - start).total_seconds()


def _seconds(span: Any) -> float | None:
    return None if span is None else span.total_seconds()
