"""Effects that previews showed before their changes were confirmed, with what became of them."""

from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models import F, Q

from pools.models.triggers import NoTruncateTrigger, raise_message
from scheduling.domain.judgement.shown_effects import EffectWithdrawal
from scheduling.domain.promised_starts import PromiseOutcome

_RECENT = "A shown effect is history: it is not deleted while it is open or recent."
_STANDS = "What a preview showed, and what became of it, stays as it is."
_SHOWN = ("id", "backend_id", "user_id", "title", "shown_at", "made_at", "clock", "tokens", "lost", "started")

STANDS = pgtrigger.Trigger(
    name="effect_stands",
    operation=pgtrigger.Update | pgtrigger.Delete,
    when=pgtrigger.Before,
    func=f"""
        IF TG_OP = 'DELETE' THEN
            IF COALESCE(OLD.ended_at, OLD.made_at) >= now() - interval '1 day' THEN
                {raise_message("effect_stands", _RECENT)}
            END IF;
            RETURN OLD;
        END IF;
        IF OLD.outcome <> '{PromiseOutcome.OPEN}'
            OR ({", ".join(f"NEW.{name}" for name in _SHOWN)})
            IS DISTINCT FROM ({", ".join(f"OLD.{name}" for name in _SHOWN)}) THEN
            {raise_message("effect_stands", _STANDS)}
        END IF;
        RETURN NEW;
    """,
)


class ShownEffect(models.Model):
    """What the preview of a change said of the work of one backend, written with the change that was confirmed
    (:mod:`scheduling.domain.judgement.shown_effects`).

    `lost` and `started` are the ids of groups that lose tasks to others, and that start; `found_lost` and
    `found_started` those of the next full cycle, null where nothing was compared. `tokens`: the change tokens by
    subject after the change, empty if something else had changed since the preview. `clock`: the time that the policy
    read in the preview, as an exact number of seconds; empty without a policy. Backend and user are plain numbers,
    because the record outlives the rows.
    """

    backend_id = models.BigIntegerField()
    user_id = models.BigIntegerField(null=True)
    title = models.TextField()
    shown_at = models.DateTimeField()
    made_at = models.DateTimeField()
    clock = models.TextField(blank=True, default="")
    tokens = models.JSONField()
    lost = models.JSONField()
    started = models.JSONField()
    found_lost = models.JSONField(null=True)
    found_started = models.JSONField(null=True)
    outcome = models.TextField(choices=[(each, each) for each in PromiseOutcome], default=PromiseOutcome.OPEN)
    reason = models.TextField(choices=[(each, each) for each in EffectWithdrawal], blank=True, default="")
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(outcome=PromiseOutcome.OPEN, ended_at__isnull=True, reason="", found_lost__isnull=True)
                | Q(
                    outcome=PromiseOutcome.KEPT,
                    ended_at__gte=F("made_at"),
                    reason="",
                    found_lost=F("lost"),
                    found_started=F("started"),
                )
                | (
                    Q(outcome=PromiseOutcome.BROKEN, ended_at__gte=F("made_at"), reason="")
                    & Q(found_lost__isnull=False, found_started__isnull=False)
                    & ~Q(found_lost=F("lost"), found_started=F("started"))
                )
                | Q(
                    outcome=PromiseOutcome.WITHDRAWN,
                    ended_at__gte=F("made_at"),
                    reason__in=list(EffectWithdrawal),
                ),
                name="effect_ends_truly",
                violation_error_message="A shown effect is open without an end, kept if the same happened, broken if "
                "not, or withdrawn for a reason.",
            ),
        ]
        indexes = [
            models.Index(fields=["backend_id"], name="effect_open", condition=Q(outcome=PromiseOutcome.OPEN)),
            models.Index(fields=["ended_at"], name="effect_ended"),
        ]
        triggers = [STANDS, NoTruncateTrigger("The table of shown effects")]

    def __str__(self) -> str:
        return f"{self.title}: {self.outcome}"
