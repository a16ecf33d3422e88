"""Moving work under a tree's lock: gangs start and end, those behind them go on, and everything is written at once.

The number of statements does not depend on how many workflows move together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection

from pools.models import Pool
from pools.services.reservations import Holding, adjust, release
from scheduling.domain.deadlines import Deadlines, deadlines
from scheduling.domain.statuses import EXIT_CODES, UNFINISHED_TASK, TaskStatus, workflow_status
from scheduling.models import Group, Task, Workflow

_BATCH = 200  # rows in one UPDATE; its CASE grows with the square of them


class WorkInHand:
    """Workflows of one locked tree while they are moved. Read after the lock, written by :meth:`save`, once."""

    def __init__(self, root: Pool, workflows: Collection[UUID], *, now: datetime) -> None:
        assert connection.in_atomic_block, "work is moved inside the transaction that holds the tree's lock"
        self.root, self.now = root, now
        rows = Workflow.objects.filter(pk__in=workflows, root_pool=root).defer("spec", "template_spec")
        self.workflows = {row.pk: row for row in rows.order_by("pk")}
        self.groups: dict[UUID, dict[str, Group]] = {pk: {} for pk in self.workflows}
        for group in Group.objects.filter(workflow__in=self.workflows).order_by("position"):
            self.groups[group.workflow_id][group.name] = group
        self._touched: dict[UUID, Group] = {}
        self._nodes: dict[str, str] = {}
        self._went_on: list[UUID] = []
        self._ended: defaultdict[tuple[TaskStatus, str], list[UUID]] = defaultdict(list)

    def start(self, group: Group, nodes: Mapping[str, str]) -> None:
        """Start a gang on the machines chosen for its tasks."""
        workflow = self.workflows[group.workflow_id]
        workflow.start_time = workflow.start_time or self.now
        group.status, group.start_time = TaskStatus.RUNNING, self.now
        group.ends_at = self._end_of_work(workflow)
        self._nodes |= nodes
        self._touched[group.pk] = group

    def end(self, group: Group, status: TaskStatus, message: str = "") -> None:
        """End a gang with all its open tasks. Those behind it follow in :meth:`save`."""
        group.status, group.end_time, group.failure_message = status, self.now, message
        self._ended[status, message].append(group.pk)
        self._touched[group.pk] = group

    def end_open(self, workflow: Workflow, status: TaskStatus, message: str, *, waiting_too: bool) -> None:
        """End every gang that has not ended; `waiting_too` also those that wait for others."""
        for group in self.groups[workflow.pk].values():
            is_open = not TaskStatus(group.status).is_finished
            if is_open and (waiting_too or group.status != TaskStatus.WAITING):
                self.end(group, status, message)

    def deadlines(self, group: Group) -> Deadlines:
        """When this gang ends by itself."""
        workflow = self.workflows[group.workflow_id]
        return deadlines(
            TaskStatus(group.status),
            ready_at=group.ready_at,
            ends_at=group.ends_at,
            workflow_started=workflow.start_time,
            exec_timeout=workflow.exec_timeout,
            queue_timeout=workflow.queue_timeout,
        )

    def save(self) -> None:
        """Let gangs behind ended ones go on or fail with them; bring workflows and reservations in line; write."""
        for groups in self.groups.values():
            self._follow(groups)
        self._plan_ends()
        self._write_tasks()
        self._write_workflows()

    def _follow(self, groups: Mapping[str, Group]) -> None:
        moved = True
        while moved:
            waiting = [group for group in groups.values() if group.status == TaskStatus.WAITING]
            moved = sum(self._advance(group, groups) for group in waiting) > 0

    def _advance(self, group: Group, groups: Mapping[str, Group]) -> bool:
        before = [groups[name] for name in group.upstream]
        if failed := next((each for each in before if TaskStatus(each.status).is_failed), None):
            self.end(group, TaskStatus.FAILED_UPSTREAM, f"{failed.name} did not complete")
            return True
        if all(each.status == TaskStatus.COMPLETED for each in before):
            group.status, group.ready_at = TaskStatus.SCHEDULING, self.now
            self._went_on.append(group.pk)
            self._touched[group.pk] = group
            return True
        return False

    def _end_of_work(self, workflow: Workflow) -> datetime | None:
        assert self.root.backend is not None
        if not self.root.backend.auto_end:
            return None
        # An explicit 0 is a run time too: such work ends at the next look.
        default = timedelta(seconds=settings.OSMO.simulated_runtime)
        return self.now + (default if workflow.simulated_runtime is None else workflow.simulated_runtime)

    def _plan_ends(self) -> None:
        """A start sets the clock of the whole workflow going, so all its open gangs are looked at."""
        for pk in {group.workflow_id for group in self._touched.values()}:
            for group in self.groups[pk].values():
                if (due := self.deadlines(group).first) != group.due_at:
                    group.due_at = due
                    self._touched[group.pk] = group

    def _write_tasks(self) -> None:
        fields = ["status", "ready_at", "start_time", "end_time", "ends_at", "due_at", "failure_message"]
        Group.objects.bulk_update(self._touched.values(), fields, batch_size=_BATCH)
        if self._went_on:
            waiting = Task.objects.filter(group__in=self._went_on, status=TaskStatus.WAITING)
            waiting.update(status=TaskStatus.SCHEDULING)
        if self._nodes:
            _place_tasks(self._nodes, self.now)
        for (status, message), groups in self._ended.items():
            Task.objects.filter(group__in=groups, status__in=UNFINISHED_TASK).update(
                status=status, end_time=self.now, exit_code=EXIT_CODES.get(status), failure_message=message
            )

    def _write_workflows(self) -> None:
        changed, ended, holdings = [], [], []
        for pk in {group.workflow_id for group in self._touched.values()}:
            workflow, groups = self.workflows[pk], list(self.groups[pk].values())
            workflow.status = workflow_status(TaskStatus(group.status) for group in groups)
            changed.append(workflow)
            if workflow.status.is_live:
                holdings.append(_holding(workflow, groups))
                continue
            ended.append(workflow)
            workflow.end_time = self.now
            if workflow.status.is_failed and not workflow.failure_message:
                workflow.failure_message = next((each.failure_message for each in groups if each.failure_message), "")
        fields = ["status", "start_time", "end_time", "failure_message", "cancelled_by"]
        Workflow.objects.bulk_update(changed, fields, batch_size=_BATCH)
        adjust(holdings, at=self.now)
        if ended:
            leaves = {workflow.pool_id for workflow in ended}
            release(root=self.root, leaf_ids=leaves, workflows=[workflow.pk for workflow in ended])


def _holding(workflow: Workflow, groups: Iterable[Group]) -> Holding:
    unfinished = [group for group in groups if not TaskStatus(group.status).is_finished]
    held = sum(group.gpus for group in unfinished if group.status == TaskStatus.RUNNING)
    return Holding(workflow.pk, held, max(group.gpus for group in unfinished))


def _place_tasks(nodes: Mapping[str, str], now: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE scheduling_task AS task SET status = %s, start_time = %s, node_name = chosen.node
            FROM unnest(%s::uuid[], %s::text[]) AS chosen(task, node) WHERE task.uuid = chosen.task
            """,
            [TaskStatus.RUNNING, now, list(nodes), list(nodes.values())],
        )
