"""The attempts of a workflow over time, from its loaded groups and tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from uuid import UUID

from scheduling.domain.statuses import TaskStatus
from scheduling.domain.timelines.attempt_bars import AttemptChart, AttemptFact, draw_attempts
from scheduling.models import Workflow


def read_attempt_chart(workflow: Workflow, first_waits: Mapping[UUID, datetime], now: datetime) -> AttemptChart | None:
    """The chart of all attempts. `first_waits` are the begins of the first waits of groups, whose `ready_at` is that of
    the last. The caller has loaded the attempts (`get_full_workflow(…, all_attempts=True)`)."""
    return draw_attempts(_facts(workflow, first_waits), now)


def _facts(workflow: Workflow, first_waits: Mapping[UUID, datetime]) -> Iterator[AttemptFact]:
    for group in workflow.loaded_groups:
        since: dict[str, datetime | None] = {}
        first = first_waits.get(group.pk, group.ready_at)
        for task in group.loaded_tasks:
            yield AttemptFact(
                group.name, task.name, task.retry_id, TaskStatus(task.status), task.node_name,
                since.get(task.name, first), task.start_time, task.end_time,
            )  # fmt: skip
            since[task.name] = task.end_time  # the next attempt waits from the end of this one
