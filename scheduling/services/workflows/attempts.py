"""The attempts of tasks during a transition: they get nodes, end and are retried. All changes are written once, in a
few statements.

An attempt is a row. An attempt that has ended does not change; a retry is a new row with the next `retry_id`.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from django.db.models import Count

from pools.database.statements import execute_sql
from scheduling.domain.statuses import UNFINISHED_TASK_STATUSES, TaskStatus
from scheduling.models import Task

_COPIED_FIELDS = (
    "group_id", "name", "position", "lead", "sub_group", "gpu_count", "cpu_count", "memory_bytes", "storage_bytes",
    "platform", "nodes_excluded", "gpu_flavors", "exit_actions",
)  # fmt: skip


class TaskAttempts:
    """The open attempts of some gangs. All are read in one statement, on first use."""

    def __init__(self, groups: Collection[UUID], *, now: datetime) -> None:
        self._groups, self._now = groups, now
        self._open: dict[UUID, list[Task]] | None = None
        self._ends: Counter[tuple[UUID, str, str]] | None = None
        self._placed: dict[UUID, Task] = {}
        self._observed: dict[UUID, Task] = {}
        self._ended: defaultdict[tuple[TaskStatus, str, int | None], list[UUID]] = defaultdict(list)
        self._new: list[Task] = []

    def open_attempts(self, group: UUID) -> Sequence[Task]:
        """The attempts of a gang that have not ended, by position."""
        if self._open is None:
            self._open = defaultdict(list)
            rows = Task.objects.filter(group__in=self._groups, status__in=UNFINISHED_TASK_STATUSES)
            for task in rows.order_by("position", "name"):
                self._open[task.group_id].append(task)
        return self._open[group]

    def running(self, group: UUID) -> list[Task]:
        """The open attempts that run."""
        return [task for task in self.open_attempts(group) if task.status == TaskStatus.RUNNING]

    def placed_attempts(self, group: UUID) -> list[Task]:
        """The open attempts that have a node: they run, or are about to."""
        return [
            task for task in self.open_attempts(group) if task.status in {TaskStatus.INITIALIZING, TaskStatus.RUNNING}
        ]

    def count_ends(self, task: Task, statuses: Collection[TaskStatus]) -> int:
        """The number of earlier attempts of this task with one of these ends."""
        if self._ends is None:
            ended = Task.objects.filter(group__in=self._groups).exclude(status__in=UNFINISHED_TASK_STATUSES)
            rows = ended.exclude(status=TaskStatus.RESCHEDULED, start_time=None, exit_code=None)
            counts = rows.order_by().values_list("group_id", "name", "status").annotate(Count("pk"))
            self._ends = Counter({(group, name, status): count for group, name, status, count in counts})
        return sum(self._ends[task.group_id, task.name, status] for status in statuses)

    def count_reschedules(self, task: Task) -> int:
        """The number of retries of this task by its exit actions. A preemption is not a retry (design, D11), nor is the
        end of an attempt that never ran."""
        return self.count_ends(task, [TaskStatus.RESCHEDULED])

    def place_on_node(self, task: Task, node: str, flavor: str = "") -> None:
        """Start a waiting attempt on a node, where it counts in this GPU flavor."""
        self._start(task, node, flavor)
        self._placed[task.pk] = task  # the row of a new attempt is inserted with these values

    def record_observed(
        self, task: Task, status: TaskStatus, *, node: str, pod_ip: str, started: datetime | None
    ) -> None:
        """Record from the cluster that an attempt has a node, or runs since `started`."""
        task.status, task.node_name, task.pod_ip, task.start_time = status, node, pod_ip, started
        self._observed[task.pk] = task

    def close(self, task: Task, status: TaskStatus, message: str, exit_code: int | None) -> None:
        """End an attempt; only `WorkflowTransition.end_attempt` does, which knows whether it has a receipt."""
        assert self._open is not None
        self._open[task.group_id].remove(task)
        self._ended[status, message, exit_code].append(task.pk)

    def add(self, task: Task) -> None:
        """A task that a cluster made in addition to those of the gang."""
        self._new.append(task)
        self.open_attempts(task.group_id)
        assert self._open is not None
        self._open[task.group_id].append(task)

    def discard(self, task: Task) -> bool:
        """Take back an attempt of this transition that nobody needs: it is not inserted. False if it has a row
        already."""
        if not any(each is task for each in self._new):
            return False
        self._new.remove(task)
        assert self._open is not None
        self._open[task.group_id].remove(task)
        return True

    def retry(self, task: Task, node: str | None = None, *, retry_id: int | None = None) -> None:
        """Retry a task whose attempt ended: it waits, or starts on `node` at once, in the same GPU flavor. Its number
        is the next one, or the given one where several tasks may have the name."""
        following = Task(
            uuid=uuid.uuid4(),
            retry_id=task.retry_id + 1 if retry_id is None else retry_id,
            status=TaskStatus.SCHEDULING,
            **{name: getattr(task, name) for name in _COPIED_FIELDS},
        )
        if node is not None:
            self._start(following, node, task.flavor)
        self._new.append(following)
        found = self._open
        assert found is not None
        found[task.group_id].append(following)
        found[task.group_id].sort(key=lambda each: (each.position, each.name))

    def _start(self, task: Task, node: str, flavor: str) -> None:
        task.status, task.start_time, task.node_name, task.flavor = TaskStatus.RUNNING, self._now, node, flavor

    def save(self) -> None:
        """Write all changes."""
        if self._placed:
            _update_placed(self._placed, self._now)
        if self._observed:
            _update_observed(self._observed.values())
        for (status, message, exit_code), attempts in self._ended.items():
            Task.objects.filter(pk__in=attempts).update(
                status=status, end_time=self._now, exit_code=exit_code, failure_message=message
            )
        Task.objects.bulk_create(self._new)


def _update_placed(placed: Mapping[UUID, Task], now: datetime) -> None:
    execute_sql(
        """
        UPDATE scheduling_task AS task
        SET status = %s, start_time = %s, node_name = chosen.node, flavor = chosen.flavor
        FROM unnest(%s::uuid[], %s::text[], %s::text[]) AS chosen(task, node, flavor)
        WHERE task.uuid = chosen.task
        """,
        [
            TaskStatus.RUNNING,
            now,
            list(placed),
            [task.node_name for task in placed.values()],
            [task.flavor for task in placed.values()],
        ],
    )


def _update_observed(attempts: Collection[Task]) -> None:
    execute_sql(
        """
        UPDATE scheduling_task AS task
        SET status = observed.status, node_name = observed.node, pod_ip = observed.ip,
            start_time = observed.started
        FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::timestamptz[])
            AS observed(task, status, node, ip, started)
        WHERE task.uuid = observed.task
        """,
        [
            [task.pk for task in attempts],
            [str(task.status) for task in attempts],
            [task.node_name for task in attempts],
            [task.pod_ip for task in attempts],
            [task.start_time for task in attempts],
        ],
    )
