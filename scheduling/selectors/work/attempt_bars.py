"""The attempts of a workflow over time, from its loaded groups and tasks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from scheduling.domain.statuses import TaskStatus
from scheduling.domain.timelines.attempt_bars import AttemptChart, AttemptFact, draw_attempts
from scheduling.models import Workflow


def read_attempt_chart(workflow: Workflow, now: datetime) -> AttemptChart | None:
    """The chart of all attempts. The caller has loaded them (`get_full_workflow(…, all_attempts=True)`)."""
    return draw_attempts(_facts(workflow), now)


def _facts(workflow: Workflow) -> Iterator[AttemptFact]:
    for group in workflow.loaded_groups:
        since: dict[str, datetime | None] = {}
        for task in group.loaded_tasks:
            yield AttemptFact(
                group.name, task.name, task.retry_id, TaskStatus(task.status), task.node_name,
                since.get(task.name, group.ready_at), task.start_time, task.end_time,
            )  # fmt: skip
            since[task.name] = task.end_time  # the next attempt waits from the end of this one
