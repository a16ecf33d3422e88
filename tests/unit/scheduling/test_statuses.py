"""A workflow's status follows from its groups' (design, O7.4)."""

from __future__ import annotations

import pytest

from scheduling.domain.statuses import (
    ACTIVE_WORKFLOW_STATUSES,
    EXIT_CODES,
    UNFINISHED_TASK_STATUSES,
    TaskStatus,
    WorkflowStatus,
    derive_workflow_status,
)


@pytest.mark.parametrize(
    ("groups", "workflow"),
    [
        ("RUNNING", "RUNNING"),
        ("SCHEDULING", "PENDING"),
        ("WAITING", "PENDING"),
        ("RUNNING SCHEDULING WAITING", "RUNNING"),
        ("COMPLETED SCHEDULING", "PENDING"),
        ("FAILED RUNNING", "RUNNING"),
        ("FAILED_CANCELED WAITING", "PENDING"),
        ("COMPLETED", "COMPLETED"),
        ("COMPLETED COMPLETED", "COMPLETED"),
        ("FAILED", "FAILED"),
        ("COMPLETED FAILED_EVICTED", "FAILED_EVICTED"),
        ("FAILED_EVICTED FAILED_UPSTREAM", "FAILED_EVICTED"),
        ("FAILED_EVICTED FAILED_PREEMPTED", "FAILED"),
        ("FAILED_UPSTREAM", "FAILED"),
        ("FAILED FAILED_CANCELED", "FAILED_CANCELED"),
        ("FAILED_QUEUE_TIMEOUT FAILED_EXEC_TIMEOUT", "FAILED_EXEC_TIMEOUT"),
        ("FAILED_EXEC_TIMEOUT FAILED_SERVER_ERROR", "FAILED_SERVER_ERROR"),
        ("FAILED_SERVER_ERROR FAILED_CANCELED", "FAILED_CANCELED"),
        ("FAILED_QUEUE_TIMEOUT FAILED_UPSTREAM COMPLETED", "FAILED_QUEUE_TIMEOUT"),
    ],
)
def test_workflow_from_groups(groups: str, workflow: str) -> None:
    assert derive_workflow_status(TaskStatus(each) for each in groups.split()) == workflow


def test_active_and_failed() -> None:
    assert {"PENDING", "RUNNING", "WAITING"} == ACTIVE_WORKFLOW_STATUSES
    assert all(
        status.is_active != (status.is_failed or status is WorkflowStatus.COMPLETED) for status in WorkflowStatus
    )


def test_every_end_of_a_task_is_finished_and_none_before_it() -> None:
    ended = {status for status in TaskStatus if status.is_finished}
    assert ended == set(TaskStatus) - UNFINISHED_TASK_STATUSES
    assert {status for status in ended if not status.is_failed} == {TaskStatus.COMPLETED, TaskStatus.RESCHEDULED}
    assert EXIT_CODES[TaskStatus.FAILED_PREEMPTED] == 3006
    assert set(EXIT_CODES) <= ended
