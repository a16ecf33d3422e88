"""Dirty tracking of simulated backends: the last full scheduling cycle, and changes since then."""

from __future__ import annotations

from django.db import models

from pools.models import Backend


class BackendSchedulingState(models.Model):
    """The last full scheduling cycle of a backend, after which nothing could start or move.

    `snapshot` is PostgreSQL's snapshot of the last cycle: work submitted in a transaction that the snapshot does not
    see is new. `full_cycle_at` is when the last full cycle ended and `full_cycle_seconds` its duration. Later cycles
    may have planned new work alone; then `full_cycle_due` requests a full cycle. `waits_for_external`: some work waits
    for a change that leaves no dirty mark here (a GPU quota of a namespace, pools of a cohort on another backend).
    """

    backend = models.OneToOneField(Backend, on_delete=models.CASCADE, primary_key=True, related_name="+")
    snapshot = models.TextField()
    full_cycle_at = models.DateTimeField()
    full_cycle_seconds = models.FloatField()
    full_cycle_due = models.BooleanField(default=False)
    waits_for_external = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.backend_id} clean since {self.full_cycle_at}"


class BackendDirtyMark(models.Model):
    """Something other than new work changed on a simulated backend. The mark is written in the transaction of the
    change and deleted by the next full cycle whose snapshot saw it."""

    backend = models.ForeignKey(Backend, on_delete=models.CASCADE, related_name="+")

    def __str__(self) -> str:
        return f"dirty mark {self.pk} on {self.backend_id}"
