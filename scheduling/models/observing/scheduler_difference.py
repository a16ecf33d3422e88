"""Decisions of the scheduler of an observed cluster that our engine would not have made."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from pools.models import Backend, Pool
from pools.models.triggers import NoTruncateTrigger
from scheduling.domain.observed.differences import DIFFERENCE_LABELS, DifferenceKind
from scheduling.models.decision import APPEND_ONLY
from scheduling.models.workflow import Workflow


class SchedulerDifference(models.Model):
    """One difference (:class:`scheduling.domain.observed.differences.FoundDifference`), written with the observation,
    and kept as long as decisions. Its message may name work of any pool of the cluster, so only readers of the platform
    see it."""

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
        triggers = [APPEND_ONLY, NoTruncateTrigger("The table of differences")]

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"
