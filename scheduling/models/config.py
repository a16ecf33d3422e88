"""Scheduler settings: values that an admin may change at run time."""

from __future__ import annotations

from django.db import models

from pools.domain.configuration.ownership import OwnedKind
from pools.models.ownership import OwnedTrigger
from pools.models.triggers import AuditTrigger, NoTruncateTrigger, plain_actions_sql


class WorkflowConfig(models.Model):
    """The scheduler settings: one row. `subpool_drain_interval_minutes` is the interval at which the drain monitor
    searches for drained subpools; normally the last workflow that ends archives its subpool. `max_retry_per_task` is
    the number of retries of a task by the exit action RESCHEDULE; preemptions do not count."""

    subpool_drain_interval_minutes = models.PositiveIntegerField(default=15)
    max_retry_per_task = models.PositiveIntegerField(default=0)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        verbose_name = "scheduler settings"
        verbose_name_plural = "scheduler settings"
        constraints = [
            models.CheckConstraint(condition=models.Q(pk=1), name="workflow_config_is_one_row"),
            models.CheckConstraint(
                condition=models.Q(subpool_drain_interval_minutes__range=(1, 10_080)),
                name="drain_interval_range",
                violation_error_message="The drain interval is 1 to 10080 minutes.",
            ),
            models.CheckConstraint(
                condition=models.Q(max_retry_per_task__range=(0, 100)),
                name="max_retry_range",
                violation_error_message="A task is retried 0 to 100 times.",
            ),
        ]
        triggers = [
            AuditTrigger(subject="'config/workflow'", action=plain_actions_sql("workflow_config"), ignore=["version"]),
            OwnedTrigger(
                OwnedKind.SETTINGS,
                name="'workflow'",
                unless="TG_OP = 'UPDATE' AND to_jsonb(NEW) - 'version' = to_jsonb(OLD) - 'version'",
            ),
            NoTruncateTrigger("The table of scheduler settings"),
        ]

    def __str__(self) -> str:
        return "scheduler settings"
