"""Stuck gangs of simulated backends."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from pools.models import Backend
from scheduling.domain.engine.reasons.liveness import StuckKind
from scheduling.models.workflow import Group


class StuckGroup(models.Model):
    """A gang that waits although nothing may stop it (`engine/reasons/liveness.py`), as the last full
    scheduling cycle of its backend found it: a defect of the product. `gang` is the name that people know, `since` the
    time of the cycle that found it first. The row goes with the cycle that does not find it any more."""

    group = models.OneToOneField(Group, on_delete=models.CASCADE, primary_key=True, related_name="+")
    backend = models.ForeignKey(Backend, on_delete=models.CASCADE, related_name="+")
    gang = models.TextField()
    kind = models.TextField(choices=[(kind, kind) for kind in StuckKind])
    since = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=list(StuckKind)),
                name="stuck_kind_known",
                violation_error_message="A stuck gang breaks one of the known rules.",
            )
        ]

    def __str__(self) -> str:
        return f"{self.gang}: {self.kind}"
