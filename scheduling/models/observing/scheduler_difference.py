"""Decisions of the scheduler of an observed cluster that our engine would not have made."""

from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models import Q

from pools.models import Backend, Pool
from pools.models.triggers import NoTruncateTrigger, raise_message
from scheduling.domain.observed.differences import DIFFERENCE_LABELS, MAX_KEPT, DifferenceKind
from scheduling.models.decision import MIN_RETENTION_DAYS
from scheduling.models.workflow import Workflow

_APPEND_ONLY = pgtrigger.Trigger(
    name="append_only",
    operation=pgtrigger.Update | pgtrigger.Delete,
    when=pgtrigger.Before,
    func=f"""
        IF TG_OP = 'DELETE' AND (
            OLD.time < now() - interval '{MIN_RETENTION_DAYS} day'
            OR OLD.id <= (
                SELECT id FROM scheduling_schedulerdifference WHERE backend_id = OLD.backend_id
                ORDER BY id DESC OFFSET {MAX_KEPT} LIMIT 1
            )
        ) THEN
            RETURN OLD;
        END IF;
        {raise_message("append_only", "Differences are history: they cannot be changed, nor deleted while recent.")}
    """,
)


class SchedulerDifference(models.Model):
    """One difference (:class:`scheduling.domain.observed.differences.FoundDifference`), written with the observation,
    and kept as long as decisions, but only the newest of a cluster. Its message may name work of any pool of the
    cluster, so only readers of the platform see it."""

    time = models.DateTimeField()
    kind = models.TextField(choices=DIFFERENCE_LABELS)
    backend = models.ForeignKey(Backend, on_delete=models.PROTECT, related_name="+", db_index=False)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    workflow = models.ForeignKey(Workflow, on_delete=models.PROTECT, related_name="differences", db_index=False)
    gpus = models.PositiveIntegerField()
    rule = models.TextField(blank=True)
    message = models.TextField()
    instead = models.JSONField(default=list)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=[kind.value for kind in DifferenceKind]),
                name="difference_kind_known",
                violation_error_message=f"A difference is one of {', '.join(DifferenceKind)}.",
            )
        ]
        indexes = [
            models.Index(fields=["backend", "-id"], name="difference_by_backend"),
            models.Index(fields=["time"], name="difference_time"),
        ]
        triggers = [_APPEND_ONLY, NoTruncateTrigger("The table of differences")]

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"
