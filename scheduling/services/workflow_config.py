"""Reads and changes the scheduler settings; a change takes effect without a restart."""

from __future__ import annotations

from typing import Final, TypedDict

from pools.domain.errors import BadInput, Violation
from pools.domain.roles import Actor
from pools.domain.version_check import check_version
from pools.permissions import require_platform
from pools.transactions import change
from scheduling.locking import lock_workflow_config
from scheduling.models import WorkflowConfig
from scheduling.services import periodic_tasks

DRAIN_INTERVAL: Final = "subpool_drain_interval_minutes"
MAX_RETRY: Final = "max_retry_per_task"
MIN_MINUTES, MAX_MINUTES = 1, 10_080
MAX_RETRIES = 100


def current_config() -> WorkflowConfig:
    """The only row; before the first change it exists only with its default values."""
    return WorkflowConfig.objects.filter(pk=1).first() or WorkflowConfig(pk=1)


def update_workflow_config(
    *,
    actor: Actor,
    drain_interval_minutes: object = None,
    max_retry_per_task: object = None,
    description: str = "",
    expected_version: int | None = None,
) -> WorkflowConfig:
    """Change the interval of the drain monitor and the maximum of retries of a task, without a restart; None keeps a
    value. `osmo-admin` only.

    Raises BadInput (not a whole number from 1 to 10080, from 0 to 100), Forbidden, Stale.
    """
    require_platform(actor)
    requested = {
        name: value
        for name, value in ((DRAIN_INTERVAL, drain_interval_minutes), (MAX_RETRY, max_retry_per_task))
        if value is not None
    }
    if found := config_violations(drain_interval_minutes, max_retry_per_task):
        raise BadInput.of(found)
    with change(actor=actor, description=description):
        WorkflowConfig.objects.get_or_create(pk=1)
        row = lock_workflow_config()
        check_version("The workflow configuration", expected_version, row.version)
        if different := [name for name, value in requested.items() if getattr(row, name) != value]:
            for name in different:
                setattr(row, name, requested[name])
            row.version += 1
            row.save(update_fields=[*different, "version"])
        if DRAIN_INTERVAL in different:
            periodic_tasks.set_drain_interval(row.subpool_drain_interval_minutes)
        return row


def config_violations(drain_interval_minutes: object, max_retry_per_task: object) -> list[Violation]:
    """The faults of new values; None means no new value."""
    judged = (
        drain_interval_minutes is not None and interval_violation(drain_interval_minutes),
        max_retry_per_task is not None and retry_violation(max_retry_per_task),
    )
    return [fault for fault in judged if fault]


def interval_violation(minutes: object) -> Violation | None:
    """The fault of an interval for the drain monitor, if it has one."""
    if isinstance(minutes, int) and not isinstance(minutes, bool) and MIN_MINUTES <= minutes <= MAX_MINUTES:
        return None
    return Violation(
        DRAIN_INTERVAL,
        "bad_value",
        f"{DRAIN_INTERVAL} is a whole number of minutes from {MIN_MINUTES} to {MAX_MINUTES} (a week).",
    )


def retry_violation(times: object) -> Violation | None:
    """The fault of a number of retries, if it has one."""
    if isinstance(times, int) and not isinstance(times, bool) and 0 <= times <= MAX_RETRIES:
        return None
    return Violation(MAX_RETRY, "bad_value", f"{MAX_RETRY} is a whole number from 0 to {MAX_RETRIES}.")


class WorkflowConfigAnswer(TypedDict):
    """The scheduler settings."""

    subpool_drain_interval_minutes: int
    max_retry_per_task: int
    version: int


def config_body(row: WorkflowConfig) -> WorkflowConfigAnswer:
    """The settings in the form of the API."""
    return {
        DRAIN_INTERVAL: row.subpool_drain_interval_minutes,
        MAX_RETRY: row.max_retry_per_task,
        "version": row.version,
    }
