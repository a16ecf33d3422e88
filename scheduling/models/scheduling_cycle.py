"""What each scheduling cycle of a simulated backend had seen."""

from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models import Q

from pools.models import Backend
from pools.models.triggers import NoTruncateTrigger, raise_message

APPEND_ONLY = pgtrigger.Trigger(
    name="append_only",
    operation=pgtrigger.Update,
    when=pgtrigger.Before,
    func=raise_message("append_only", "Scheduling cycles are history: they cannot be changed."),
)


class SchedulingCycle(models.Model):
    """A cycle that planned something, written with its first decision; a replay judges at the same points of the order
    of commits.

    `time` is the time of its decisions, `judged_at` the time by which it planned. `snapshot` is PostgreSQL's snapshot
    that it read: it had seen the changes of the transactions that are visible there, whatever the clock says. Null: all
    changes until its time. `new_since`: the cycle planned new work alone, which this earlier snapshot does not see;
    null: everything. `units` is the number of units that it planned: fewer decisions mean that some were dropped, or
    that its process died. `reservations` are the start reservations that it read: `[gang, since, nodes, placed]`.
    """

    backend = models.ForeignKey(Backend, on_delete=models.CASCADE, related_name="+", db_index=False)
    time = models.DateTimeField()
    judged_at = models.DateTimeField()
    snapshot = models.TextField(null=True)
    new_since = models.TextField(null=True)
    units = models.PositiveIntegerField()
    reservations = models.JSONField(default=list)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["backend", "time"], name="one_cycle_at_a_time"),
            models.CheckConstraint(
                condition=Q(units__gt=0),
                name="cycle_planned_something",
                violation_error_message="A scheduling cycle of the record planned at least one unit.",
            ),
        ]
        indexes = [models.Index(fields=["time"], name="scheduling_cycle_time")]
        triggers = [APPEND_ONLY, NoTruncateTrigger("The table of scheduling cycles")]

    def __str__(self) -> str:
        return f"cycle of {self.backend_id} at {self.time}"
