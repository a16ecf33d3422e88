"""Receipts: why something else ended an attempt, and what was lost."""

from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models import Q

from pools.models import Backend, Pool
from pools.models.triggers import AppendOnlyTrigger, NoTruncateTrigger, raise_message
from scheduling.domain.receipts.causes import LOST, EndCause
from scheduling.domain.statuses import EXIT_CODES, TaskStatus
from scheduling.models.work_counters import COUNT_LOST
from scheduling.models.workflow import Group, Task, Workflow


class Interruption(models.Model):
    """Something else ended attempts of one gang at one instant, by one rule; its receipts are the attempts.

    `pool` is the row of the leaf and `root_pool` its tree. `for_workflow` got the place, if one did and it is known;
    `by_user` is the person who cancelled it, `note` what a cluster said. `numbers` has `loser` and `taker`
    (:class:`scheduling.domain.receipts.causes.QueueNumbers`), `quota_at_start` of a lowered quota, and `parts`: the
    flavors that counted parts of shared GPUs. `spared` is other work that the rule also allowed to end: `[{"workflow":
    id, "gang", "gpus", "by", "by_flavor"}]`. All names are kept; a reader gets those that they may know.
    """

    time = models.DateTimeField()
    cause = models.TextField()
    backend = models.ForeignKey(Backend, on_delete=models.PROTECT, related_name="+", db_index=False)
    root_pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    workflow = models.ForeignKey(Workflow, on_delete=models.PROTECT, related_name="interruptions", db_index=False)
    group = models.ForeignKey(Group, on_delete=models.PROTECT, related_name="+", db_index=False)
    for_workflow = models.ForeignKey(Workflow, on_delete=models.PROTECT, null=True, related_name="+")
    by_user = models.TextField(blank=True, default="")
    note = models.TextField(blank=True, default="")
    numbers = models.JSONField(default=dict)
    spared = models.JSONField(default=list)
    has_more_spared = models.BooleanField(default=False)

    class Meta:
        ordering = ["-time", "-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(cause__in=[each.value for each in EndCause]),
                name="interruption_cause",
                violation_error_message="The cause of an interruption is one of the known ones.",
            ),
        ]
        indexes = [
            models.Index(fields=["workflow", "-time"], name="interruption_of_workflow"),
            models.Index(fields=["time"], name="interruption_time"),
        ]
        triggers = [AppendOnlyTrigger("The table of interruptions"), NoTruncateTrigger("The table of interruptions")]

    def __str__(self) -> str:
        return f"{self.cause} of {self.workflow_id}"


class Receipt(models.Model):
    """The receipt of one attempt that something else ended: exactly one for each.

    `lost_since` is its last checkpoint, else its start, else (an attempt that had a node and never ran) its end;
    `lost_gpu_ms` are its GPUs times the milliseconds from then to its end."""

    task = models.OneToOneField(Task, on_delete=models.PROTECT, primary_key=True, related_name="receipt")
    interruption = models.ForeignKey(Interruption, on_delete=models.PROTECT, related_name="receipts")
    gpus = models.PositiveIntegerField(default=0)
    lost_since = models.DateTimeField()
    lost_gpu_ms = models.PositiveBigIntegerField(default=0)

    class Meta:
        triggers = [
            COUNT_LOST,
            AppendOnlyTrigger("The table of receipts"),
            NoTruncateTrigger("The table of receipts"),
            pgtrigger.Trigger(
                name="of_ended_attempt",
                operation=pgtrigger.Insert,
                when=pgtrigger.After,
                timing=pgtrigger.Deferred,
                func=f"""
                    IF NOT EXISTS (
                        SELECT FROM scheduling_task attempt
                        JOIN scheduling_interruption why ON why.id = NEW.interruption_id
                        WHERE attempt.uuid = NEW.task_id AND attempt.end_time = why.time
                            AND attempt.group_id = why.group_id
                    ) THEN
                        {raise_message("receipt_of_ended_attempt", "A receipt is of an attempt that ended then.")}
                    END IF;
                    RETURN NULL;
                """,
            ),
        ]

    def __str__(self) -> str:
        return f"receipt of {self.task_id}"


_BY_OTHERS = sorted({TaskStatus.FAILED_PREEMPTED, *LOST})
_CODES = ", ".join(str(EXIT_CODES[status]) for status in _BY_OTHERS)
_STATUSES = ", ".join(f"'{status}'" for status in _BY_OTHERS)

OWES_RECEIPT = f"""
    {{attempt}}.start_time IS NOT NULL AND {{attempt}}.end_time IS NOT NULL AND (
        {{attempt}}.status IN ({_STATUSES}) OR {{attempt}}.exit_code IN ({_CODES})
        OR {{attempt}}.status = '{TaskStatus.FAILED_CANCELED}' AND EXISTS (
            SELECT FROM scheduling_group part JOIN scheduling_workflow work ON work.uuid = part.workflow_id
            JOIN pools_user owner ON owner.id = work.submitted_by_id
            WHERE part.uuid = {{attempt}}.group_id AND work.cancelled_by NOT IN ('', owner.username)
        )
    )
"""
"""SQL: whether something else ended the attempt `{attempt}`, so that it has a receipt. Other attempts may have one: a
gang whose pod was lost begins again with all its tasks."""


class ReceiptedTask(Task):
    """Attempts, as receipts follow them."""

    class Meta:
        proxy = True
        default_permissions = ()
        triggers = [
            # Deferred, because an end is written before its receipt, and the cancelling person after both.
            pgtrigger.Trigger(
                name="has_receipt",
                operation=pgtrigger.Insert | pgtrigger.UpdateOf("status", "end_time", "exit_code"),
                when=pgtrigger.After,
                timing=pgtrigger.Deferred,
                condition=pgtrigger.Condition(
                    f"NEW.start_time IS NOT NULL AND NEW.end_time IS NOT NULL AND (NEW.exit_code IN ({_CODES})"
                    f" OR NEW.status IN ({_STATUSES}, '{TaskStatus.FAILED_CANCELED}'))"
                ),
                func=f"""
                    IF {OWES_RECEIPT.format(attempt="NEW")}
                        AND NOT EXISTS (SELECT FROM scheduling_receipt receipt WHERE receipt.task_id = NEW.uuid) THEN
                        {raise_message("attempt_has_receipt", "An attempt that something else ended has a receipt.")}
                    END IF;
                    RETURN NULL;
                """,
            )
        ]
