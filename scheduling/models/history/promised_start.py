"""Promised starts: the certain latest starts that people have seen, with what became of them."""

from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models import F, Q

from pools.models.triggers import NoTruncateTrigger, raise_message
from scheduling.domain.promised_starts import GRACE, PromiseOutcome, WithdrawalReason
from scheduling.models.work_counters import COUNT_PROMISES
from scheduling.models.workflow import Group

NOT_KEPT = (PromiseOutcome.OPEN, PromiseOutcome.BROKEN)
"""The outcomes of a promise whose gang may still wait after its time."""

_RECENT = "A promised start is history: it is not deleted while it is open or recent."
_FINAL = "The promise to % is % and stays so."
_STANDS = "The promise to % keeps its gang, and its time moves earlier only."

STANDS = pgtrigger.Trigger(
    name="promise_stands",
    operation=pgtrigger.Update | pgtrigger.Delete,
    when=pgtrigger.Before,
    func=f"""
        IF TG_OP = 'DELETE' THEN
            IF COALESCE(OLD.ended_at, OLD.latest_start) >= now() - interval '1 day' THEN
                {raise_message("promise_stands", _RECENT)}
            END IF;
            RETURN OLD;
        END IF;
        IF OLD.outcome <> '{PromiseOutcome.OPEN}' THEN
            {raise_message("promise_stands", _FINAL, "OLD.gang", "OLD.outcome")}
        END IF;
        IF (NEW.id, NEW.group_id, NEW.backend_id, NEW.gang, NEW.waits_since, NEW.made_at)
            <> (OLD.id, OLD.group_id, OLD.backend_id, OLD.gang, OLD.waits_since, OLD.made_at)
            OR NEW.latest_start > OLD.latest_start THEN
            {raise_message("promise_stands", _STANDS, "OLD.gang")}
        END IF;
        RETURN NEW;
    """,
)


class PromisedStart(models.Model):
    """A certain latest start that the owner of a gang has seen, and what became of it
    (:mod:`scheduling.domain.promised_starts`).

    `gang` is the name that people know (`hello-1`, or `hello-1/train` where a workflow has several groups), and
    `waits_since` names the wait: the gang's `ready_at` of that time. `latest_start` is the earliest one that was shown.
    `ended_at`: when the outcome came. The id of the backend is a plain number, because the record outlives the row.
    """

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="promised_starts")
    backend_id = models.BigIntegerField()
    gang = models.TextField()
    waits_since = models.DateTimeField()
    made_at = models.DateTimeField()
    latest_start = models.DateTimeField()
    outcome = models.TextField(choices=[(each, each) for each in PromiseOutcome], default=PromiseOutcome.OPEN)
    reason = models.TextField(choices=[(each, each) for each in WithdrawalReason], blank=True, default="")
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["group"],
                condition=Q(outcome=PromiseOutcome.OPEN),
                name="promise_open_once",
                violation_error_message="A gang has one open promise of its start.",
            ),
            models.CheckConstraint(
                condition=Q(outcome=PromiseOutcome.OPEN, ended_at__isnull=True, reason="")
                | Q(outcome=PromiseOutcome.KEPT, ended_at__lte=F("latest_start") + GRACE, reason="")
                | Q(outcome=PromiseOutcome.BROKEN, ended_at__gt=F("latest_start"), reason="")
                | Q(
                    outcome=PromiseOutcome.WITHDRAWN,
                    ended_at__lte=F("latest_start") + GRACE,
                    reason__in=list(WithdrawalReason),
                ),
                name="promise_ends_truly",
                violation_error_message="A promised start is open without an end, kept by its time, broken after it, "
                "or withdrawn for a reason, at most a minute after it.",
            ),
        ]
        indexes = [
            models.Index(fields=["backend_id"], name="promise_not_kept", condition=Q(outcome__in=NOT_KEPT)),
            models.Index(fields=["ended_at"], name="promise_ended"),
        ]
        triggers = [STANDS, COUNT_PROMISES, NoTruncateTrigger("The table of promised starts")]

    def __str__(self) -> str:
        return f"{self.gang} by {self.latest_start:%Y-%m-%d %H:%M} UTC"
