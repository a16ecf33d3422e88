"""The times at which a gang ends by itself, also if the check is late."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scheduling.domain.deadlines import GangDeadlines, gang_deadlines
from scheduling.domain.statuses import TaskStatus

T0 = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def at(seconds: int) -> datetime:
    return T0 + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("work", "execution", "queue", "now", "verdict"),
    [
        (None, None, None, 10**6, None),
        (30, None, None, 29, None),
        (30, None, None, 30, TaskStatus.COMPLETED),
        (30, 60, None, 3600, TaskStatus.COMPLETED),
        (60, 30, None, 29, None),
        (60, 30, None, 3600, TaskStatus.FAILED_EXEC_TIMEOUT),
        (30, 30, None, 30, TaskStatus.COMPLETED),
        (None, 30, None, 30, TaskStatus.FAILED_EXEC_TIMEOUT),
        (None, None, 30, 30, TaskStatus.FAILED_QUEUE_TIMEOUT),
        (None, 40, 30, 50, TaskStatus.FAILED_QUEUE_TIMEOUT),
        (None, 30, 40, 50, TaskStatus.FAILED_EXEC_TIMEOUT),
    ],
)
def test_verdict(
    work: int | None, execution: int | None, queue: int | None, now: int, verdict: TaskStatus | None
) -> None:
    moments = [None if seconds is None else at(seconds) for seconds in (work, execution, queue)]

    assert GangDeadlines(*moments).verdict(at(now)) is verdict


@pytest.mark.parametrize(
    ("status", "first"),
    [
        (TaskStatus.WAITING, None),
        (TaskStatus.SCHEDULING, 25),
        (TaskStatus.RUNNING, 30),
        (TaskStatus.COMPLETED, None),
        (TaskStatus.FAILED, None),
    ],
)
def test_only_open_gangs_have_deadlines(status: TaskStatus, first: int | None) -> None:
    found = gang_deadlines(
        status,
        ready_at=at(5),
        ends_at=at(30),
        workflow_started=at(0),
        exec_timeout=timedelta(seconds=100),
        queue_timeout=timedelta(seconds=20),
    )

    assert found.earliest == (None if first is None else at(first))


def test_no_timeouts_and_no_end_means_never() -> None:
    never = gang_deadlines(
        TaskStatus.RUNNING, ready_at=T0, ends_at=None, workflow_started=T0, exec_timeout=None, queue_timeout=None
    )
    assert never.earliest is None
