"""Dirty tracking of simulated backends: the last full scheduling cycle."""

from __future__ import annotations

from django.db import models

from pools.models import Backend


class BackendSchedulingState(models.Model):
    """The last full scheduling cycle of a backend, after which nothing could start or move.

    `plan_token` is the token of the backend's plan then (:class:`pools.models.ChangeToken`): while it stays, only new
    work can change anything. `unfinished` is set before several transactions that change the backend, and cleared after
    the next full cycle: a process that dies between them leaves it. `snapshot` is PostgreSQL's snapshot of the last
    cycle: work submitted in a transaction that the snapshot does not see is new. `full_cycle_at` is when the last full
    cycle ended and `full_cycle_seconds` its duration. Later cycles may have planned new work alone; then
    `full_cycle_due` requests a full cycle. `waits_for_external`: some work waits for a change that does not move the
    token (a GPU quota of a namespace, pools of a cohort on another backend).
    """

    backend = models.OneToOneField(Backend, on_delete=models.CASCADE, primary_key=True, related_name="+")
    snapshot = models.TextField()
    plan_token = models.TextField(default="", db_default="")
    unfinished = models.BooleanField(default=False, db_default=False)
    full_cycle_at = models.DateTimeField()
    full_cycle_seconds = models.FloatField()
    full_cycle_due = models.BooleanField(default=False)
    waits_for_external = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.backend_id} clean since {self.full_cycle_at}"
