"""Replays of recorded history that people have requested."""

from __future__ import annotations

from uuid import uuid4

from django.contrib.postgres.functions import RandomUUID
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from pools.models.people.membership import User


class ReplayStatus(models.TextChoices):
    """The life of a replay; the last three are final."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


class HistoryReplay(models.Model):
    """One replay (docs/replay.md): its question, how far it is, and its answer.

    `question` is `{"backend", "since", "until", "changes"}`, with `{"advise": true, "tries"}` for advice. `reads_all`
    and `pools` (ids of root pools) are what the requester could see and change when it was requested. `progress` is a
    share from 0 to 1. `tries` counts the processes that have begun it, `beat_at` is the last sign of the present one.
    `refusal` is why it has failed: `{"message", "details"}`. It changes nothing, so the audit trail has no entry of
    it."""

    id = models.UUIDField(primary_key=True, default=uuid4, db_default=RandomUUID())
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="replays")
    backend_id = models.BigIntegerField()
    question = models.JSONField()
    reads_all = models.BooleanField()
    pools = models.JSONField()
    status = models.CharField(max_length=10, choices=ReplayStatus.choices, default=ReplayStatus.WAITING)
    progress = models.FloatField(default=0)
    tries = models.PositiveSmallIntegerField(default=0)
    answer = models.JSONField(null=True)
    refusal = models.JSONField(null=True)
    requested_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    beat_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-requested_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["user"],
                condition=Q(status__in=["WAITING", "RUNNING"]),
                name="one_replay_of_a_user",
                violation_error_message="One replay of a user runs at a time.",
            ),
            models.CheckConstraint(
                condition=(Q(status__in=["WAITING", "RUNNING"]) & Q(ended_at__isnull=True))
                | (Q(status__in=["COMPLETED", "FAILED", "CANCELED"]) & Q(ended_at__isnull=False)),
                name="replay_ends_with_its_status",
                violation_error_message="A replay has an end exactly if its status is final.",
            ),
            models.CheckConstraint(
                condition=Q(status="COMPLETED", answer__isnull=False)
                | (~Q(status="COMPLETED") & Q(answer__isnull=True)),
                name="replay_answer_when_completed",
                violation_error_message="A replay has an answer exactly if it is complete.",
            ),
        ]

    def __str__(self) -> str:
        return f"replay of {self.question.get('backend')} from {self.question.get('since')}"
