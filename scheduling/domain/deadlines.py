"""The times at which a gang ends by itself: its work is done, or its time is over.

Source: design, O7.3, O7.4. `queue_timeout` counts from the time a gang is ready to start,
`exec_timeout` from the first start of the workflow. The work of a simulated gang lasts as long as its label says.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduling.domain.statuses import TaskStatus


@dataclass(frozen=True, slots=True)
class GangDeadlines:
    """The times at which a gang ends by itself; None means never."""

    work: datetime | None = None
    execution: datetime | None = None
    queue: datetime | None = None

    @property
    def earliest(self) -> datetime | None:
        """The earliest deadline."""
        return min((at for at in (self.work, self.execution, self.queue) if at is not None), default=None)

    def verdict(self, now: datetime) -> TaskStatus | None:
        """The final status of the gang now, None if it goes on.

        The earliest deadline decides, however late the check comes. Work that is done at its timeout is done.
        """
        first = self.earliest
        if first is None or first > now:
            return None
        if first == self.work:
            return TaskStatus.COMPLETED
        return TaskStatus.FAILED_EXEC_TIMEOUT if first == self.execution else TaskStatus.FAILED_QUEUE_TIMEOUT


def gang_deadlines(
    status: TaskStatus,
    *,
    ready_at: datetime | None,
    ends_at: datetime | None,
    workflow_started: datetime | None,
    exec_timeout: timedelta | None,
    queue_timeout: timedelta | None,
) -> GangDeadlines:
    """The deadlines of a gang that waits for GPUs, has them or runs; any other gang has none."""
    if status not in {TaskStatus.SCHEDULING, TaskStatus.INITIALIZING, TaskStatus.RUNNING}:
        return GangDeadlines()
    return GangDeadlines(
        work=ends_at if status is TaskStatus.RUNNING else None,
        execution=_deadline_after(workflow_started, exec_timeout),
        queue=_deadline_after(ready_at, queue_timeout) if status is TaskStatus.SCHEDULING else None,
    )


def _deadline_after(start: datetime | None, span: timedelta | None) -> datetime | None:
    return None if start is None or span is None else start + span
