"""Requests for changes of quotas that need the approval of a second person
(:mod:`pools.services.configuration.approvals`)."""

from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import Now

from pools.domain.approvals import ApprovalState
from pools.domain.audit_actions import AuditAction
from pools.domain.changes.approvable import APPROVABLE
from pools.domain.changes.pools import PoolChange
from pools.domain.errors import Fault
from pools.domain.people.roles import Actor, Permission
from pools.models.people.membership import account_start
from pools.models.pool import Pool
from pools.models.triggers import AuditTrigger, NeverDeletedTrigger, NoTruncateTrigger, raise_message

_DECISION = "ARRAY['state', 'decided_by', 'decided_at', 'decision_note']"


class ApprovalQuerySet(models.QuerySet["ApprovalRequest"]):
    """Reads of approval requests."""

    def visible_to(self, actor: Actor) -> ApprovalQuerySet:
        """Admins and viewers see all requests, pool admins those of their pools, all users their own. A pool is known
        by its id: an earlier pool of the same name was another one. `pool_now` is its present name."""
        named = self.annotate(pool_now=Subquery(Pool.objects.filter(pk=OuterRef("pool_id_then")).values("name")))
        if actor.can_read_all:
            return named
        pools = Pool.objects.filter(name__in=actor.pools_with(Permission.POOL_AUDIT)).values("id")
        mine = Q(requested_by=actor.username) & Q(requested_at__gte=account_start(actor))
        return named.filter(Q(pool_id_then__in=pools) | mine)

    def waiting(self) -> ApprovalQuerySet:
        """Requests that can be decided now."""
        return self.filter(state=ApprovalState.WAITING, expires_at__gt=Now())


class ApprovalRequest(models.Model):
    """One requested change: the values of its command (JSON, in a `format` of that command) on a version of its object
    (null: a new subpool). `pool_id_then` and `pool` are the top-level pool, `subject` the canonical name of the object,
    `needs` the amounts in GPUs that need the approval, `above` the pool's `approval_above` then. `decided_by` is also
    the person who withdrew the request; an expired one has none."""

    service = models.TextField(choices=[(name, name) for name in APPROVABLE])
    arguments = models.JSONField()
    arguments_format = models.IntegerField(default=1, db_default=1)
    subject = models.TextField()
    pool = models.TextField()
    pool_id_then = models.BigIntegerField()
    expected_version = models.IntegerField(null=True)
    above = models.BigIntegerField()
    needs = models.JSONField()
    description = models.TextField(blank=True)
    requested_by = models.TextField()
    requested_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    state = models.TextField(choices=[(str(each), str(each)) for each in ApprovalState], default=ApprovalState.WAITING)
    decided_by = models.TextField(null=True)
    decided_at = models.DateTimeField(null=True)
    decision_note = models.TextField(blank=True)

    objects = ApprovalQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["pool", "-id"], name="approval_pool")]
        constraints = [
            models.UniqueConstraint(
                fields=["subject"], condition=Q(state=ApprovalState.WAITING), name=Fault.APPROVAL_WAITS_ONCE.value
            ),
            models.CheckConstraint(
                condition=~Q(state__in=[ApprovalState.APPROVED, ApprovalState.REJECTED])
                | Q(decided_by__isnull=False) & ~Q(decided_by=F("requested_by")),
                name=Fault.APPROVAL_BY_SECOND_PERSON.value,
                violation_error_message="The requester cannot decide the own request: a second person approves or "
                "rejects it.",
            ),
            models.CheckConstraint(
                condition=Q(state=ApprovalState.WAITING, decided_at__isnull=True, decided_by__isnull=True)
                | ~Q(state=ApprovalState.WAITING) & Q(decided_at__isnull=False),
                name="approval_decision_complete",
                violation_error_message="A decided request has the time of its decision, a waiting one has none.",
            ),
        ]
        triggers = [
            pgtrigger.Trigger(
                name="decided_once",
                operation=pgtrigger.Update,
                when=pgtrigger.Before,
                func=f"""
                    IF OLD.state <> '{ApprovalState.WAITING}' THEN
                        {
                    raise_message(
                        Fault.APPROVAL_IS_FINAL, "Request % is % already; a decision is final.", "OLD.id", "OLD.state"
                    )
                }
                    END IF;
                    IF to_jsonb(NEW) - {_DECISION} IS DISTINCT FROM to_jsonb(OLD) - {_DECISION} THEN
                        {
                    raise_message(
                        "approval_keeps_content", "Request % cannot change: it is decided as it was made.", "OLD.id"
                    )
                }
                    END IF;
                    RETURN NEW;
                """,
            ),
            AuditTrigger(
                subject="'approval/' || NEW.id",
                action=f"CASE WHEN TG_OP = 'INSERT' THEN '{AuditAction.APPROVAL_REQUESTED}' "
                "ELSE 'approval.' || NEW.state END",
                pool_id="NEW.pool_id_then",
                owner="NEW.requested_by",
                operation=pgtrigger.Insert | pgtrigger.Update,
            ),
            NeverDeletedTrigger("An approval request"),
            NoTruncateTrigger("The table of approval requests"),
        ]

    def __str__(self) -> str:
        return f"{self.pk}: {self.service} {self.subject}"

    @property
    def permission(self) -> Permission:
        """The permission that the change needs, and with it the decision."""
        kind = APPROVABLE.get(self.service)  # None: a change that another version of the product stored
        return (kind and kind.permission) or Permission.POOL_CONFIGURE

    @property
    def changes_pool(self) -> bool:
        """Whether the change is one of the top-level pool itself, and not of a subpool."""
        return issubclass(APPROVABLE.get(self.service, PoolChange), PoolChange)
