"""The scheduler settings."""

from __future__ import annotations

from typing import TypedDict

from scheduling.domain.changes.settings import DRAIN_INTERVAL, MAX_RETRY
from scheduling.models import WorkflowConfig


def current_config() -> WorkflowConfig:
    """The only row; before the first change it exists only with its default values."""
    return WorkflowConfig.objects.filter(pk=1).first() or WorkflowConfig(pk=1)


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
