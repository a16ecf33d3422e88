"""The queue guard of a cluster: mode of the admission webhooks, allowed accounts, and recorded bypasses."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from pools.models import Backend
from pools.models.triggers import AuditTrigger, NoTruncateTrigger


class QueueGuard(models.Model):
    """The settings of the admission webhooks of one backend. `identity` is our own user name in the cluster, and
    `accounts` are other users or groups that may use its queues, as the API server names them
    (`system:serviceaccount:team:runner`)."""

    class Mode(models.TextChoices):
        OFF = "off", "off: allow everything"
        AUDIT = "audit", "audit: allow, and record requests that enforce would refuse"
        ENFORCE = "enforce", "enforce: refuse"

    backend = models.OneToOneField(Backend, on_delete=models.CASCADE, related_name="guard")
    mode = models.TextField(choices=Mode.choices, default=Mode.AUDIT)
    identity = models.TextField(blank=True)
    accounts = models.JSONField(default=list, blank=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(mode__in=["off", "audit", "enforce"]),
                name="guard_mode_known",
                violation_error_message="A webhook's mode is off, audit or enforce.",
            )
        ]
        triggers = [
            AuditTrigger(
                subject="'webhook/' || (SELECT name FROM pools_backend "
                "WHERE id = COALESCE(NEW.backend_id, OLD.backend_id))",
                action="CASE TG_OP WHEN 'INSERT' THEN 'webhook.created' WHEN 'DELETE' THEN 'webhook.deleted' "
                "ELSE 'webhook.updated' END",
                ignore=["version"],
            ),
            NoTruncateTrigger("The table of webhook settings"),
        ]

    def __str__(self) -> str:
        return f"webhooks of {self.backend_id}"


class Bypass(models.Model):
    """Attempts of one caller to use our queues without submitting here: one row for each caller, kind, namespace and
    rule.

    `object_name` and `message` are of the last attempt. `refused` counts the refused attempts among `attempts`; the
    others were made in audit mode.
    """

    backend = models.ForeignKey(Backend, on_delete=models.CASCADE, related_name="bypasses")
    kind = models.TextField()
    namespace = models.TextField(blank=True)
    username = models.TextField(blank=True)
    code = models.TextField()
    object_name = models.TextField(blank=True)
    message = models.TextField()
    attempts = models.PositiveBigIntegerField(default=1)
    refused = models.PositiveBigIntegerField(default=0)
    first_at = models.DateTimeField(db_default=Now())
    last_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-last_at", "-pk"]
        verbose_name_plural = "bypasses"
        constraints = [
            models.UniqueConstraint(
                fields=["backend", "kind", "namespace", "username", "code"], name="bypass_once_per_caller"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.username}: {self.kind} {self.namespace}/{self.object_name}"
