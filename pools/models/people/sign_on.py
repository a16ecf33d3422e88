"""Accounts at identity providers."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from pools.domain.audit_actions import AuditAction
from pools.models.people.membership import User
from pools.models.triggers import AuditTrigger, NoTruncateTrigger

_OWNER_SQL = "(SELECT username FROM pools_user WHERE id = COALESCE(NEW.user_id, OLD.user_id))"


class SignOnIdentity(models.Model):
    """The account of a user at an identity provider, with the groups that the provider stated last.

    Browser sessions and the tokens of client logins that began with it are valid until `valid_until`, which each
    confirmation by the provider moves, at most to `session_until`. `epoch` grows when they end early: a session
    remembers the epoch in which it began.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="identities")
    provider = models.TextField()
    issuer = models.TextField()
    subject = models.TextField()
    username = models.TextField(blank=True)
    email = models.TextField(blank=True)
    groups = models.JSONField(default=list, blank=True)
    linked_at = models.DateTimeField(db_default=Now())
    signed_on_at = models.DateTimeField(db_default=Now())
    checked_at = models.DateTimeField(db_default=Now())
    valid_until = models.DateTimeField(db_default=Now())
    session_until = models.DateTimeField(db_default=Now())
    epoch = models.BigIntegerField(default=0)
    refresh_token = models.TextField(blank=True)
    id_token = models.TextField(blank=True)
    session_id = models.TextField(blank=True)
    claimed_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["user", "provider"]
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="subject_once_per_issuer")]
        indexes = [models.Index(fields=["checked_at"], name="sign_on_checked")]
        triggers = [
            AuditTrigger(
                subject=f"'user/' || {_OWNER_SQL}",
                action=f"CASE TG_OP WHEN 'INSERT' THEN '{AuditAction.SIGN_ON_LINKED}' "
                f"WHEN 'DELETE' THEN '{AuditAction.SIGN_ON_UNLINKED}' "
                f"ELSE CASE WHEN NEW.epoch <> OLD.epoch THEN '{AuditAction.SIGN_ON_ENDED}' "
                f"WHEN NEW.signed_on_at <> OLD.signed_on_at THEN '{AuditAction.SIGN_ON_SIGNED_ON}' "
                f"ELSE '{AuditAction.SIGN_ON_UPDATED}' END END",
                owner=_OWNER_SQL,
                ignore=["checked_at", "valid_until", "session_until", "refresh_token", "id_token", "claimed_until"],
            ),
            NoTruncateTrigger("The table of accounts at identity providers"),
        ]

    def __str__(self) -> str:
        return f"{self.provider}: {self.subject}"
