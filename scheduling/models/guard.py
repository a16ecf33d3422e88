"""The queue guard of a cluster: mode of the admission webhooks, allowed accounts, and recorded bypasses."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from pools.domain.audit_actions import AuditAction
from pools.models import Backend
from pools.models.triggers import AuditTrigger, NoTruncateTrigger
from scheduling.domain.changes.webhooks import GuardMode


class QueueGuard(models.Model):
    """The settings of the admission webhooks of one backend. `identity` is our own user name in the cluster, and
    `accounts` are other users or groups that may use its queues, as the API server names them
    (`system:serviceaccount:team:runner`). `strict_minimums` refuses PodGroups of other software that KAI would take.

    `mark_generation` counts the rotations of the mark in the addresses of the webhooks; until `previous_mark_until` the
    mark before the last rotation is believed too."""

    class Mode(models.TextChoices):
        OFF = GuardMode.OFF.value, "off: allow everything"
        AUDIT = GuardMode.AUDIT.value, "audit: allow, and record requests that enforce would refuse"
        ENFORCE = GuardMode.ENFORCE.value, "enforce: refuse"

    backend = models.OneToOneField(Backend, on_delete=models.CASCADE, related_name="guard")
    mode = models.TextField(choices=Mode.choices, default=Mode.AUDIT)
    identity = models.TextField(blank=True)
    accounts = models.JSONField(default=list, blank=True)
    strict_minimums = models.BooleanField(default=False)
    mark_generation = models.PositiveIntegerField(default=1)
    previous_mark_until = models.DateTimeField(null=True)
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
                action=f"CASE TG_OP WHEN 'INSERT' THEN '{AuditAction.WEBHOOK_CREATED}' "
                f"WHEN 'DELETE' THEN '{AuditAction.WEBHOOK_DELETED}' ELSE '{AuditAction.WEBHOOK_UPDATED}' END",
                ignore=["version"],
            ),
            NoTruncateTrigger("The table of webhook settings"),
        ]

    def __str__(self) -> str:
        return f"webhooks of {self.backend_id}"


class WebhookInstallation(models.Model):
    """The webhook configuration that a cluster should have, and what was last found there.

    `url`, or the Service, is our address for the API server; `authorities` are the PEM certificates that it trusts.
    `fails_closed` None follows the mode of the guard. After `removed_at` the cluster should have none. `problem` is the
    last thing that was wrong and is not put right, or empty; `repair` says what was put back at `repaired_at`.
    """

    backend = models.OneToOneField(
        Backend, on_delete=models.CASCADE, primary_key=True, related_name="webhook_installation"
    )
    url = models.TextField(blank=True)
    service = models.TextField(blank=True)
    service_port = models.PositiveIntegerField(default=443)
    authorities = models.TextField(blank=True)
    fails_closed = models.BooleanField(null=True)
    namespace_selector = models.JSONField(null=True)
    removed_at = models.DateTimeField(null=True)
    problem = models.TextField(blank=True)
    checked_at = models.DateTimeField(null=True)
    repair = models.TextField(blank=True)
    repairs = models.PositiveIntegerField(default=0)
    repaired_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(url="") ^ models.Q(service=""),
                name="webhook_has_one_address",
                violation_error_message="The webhooks of a cluster have a URL or a Service as their address.",
            )
        ]
        triggers = [
            AuditTrigger(
                subject="'webhook/' || (SELECT name FROM pools_backend "
                "WHERE id = COALESCE(NEW.backend_id, OLD.backend_id))",
                action=f"CASE TG_OP WHEN 'INSERT' THEN '{AuditAction.WEBHOOK_INSTALLED}' "
                f"WHEN 'DELETE' THEN '{AuditAction.WEBHOOK_DELETED}' "
                f"ELSE CASE WHEN NEW.removed_at IS NOT NULL THEN '{AuditAction.WEBHOOK_REMOVED}' "
                f"WHEN NEW.repairs > OLD.repairs THEN '{AuditAction.WEBHOOK_PUT_BACK}' "
                f"ELSE '{AuditAction.WEBHOOK_INSTALLED}' END END",
                ignore=["problem", "checked_at"],
            ),
            NoTruncateTrigger("The table of installed webhooks"),
        ]

    def __str__(self) -> str:
        return f"installed webhooks of {self.backend_id}"


class UnmarkedReviews(models.Model):
    """Reviews that came for a backend without the mark of its webhooks: by anybody on the network, or by a
    cluster whose configuration is older than the mark. They are only counted, at intervals of seconds."""

    backend = models.OneToOneField(Backend, on_delete=models.CASCADE, primary_key=True, related_name="unmarked_reviews")
    attempts = models.PositiveBigIntegerField(default=0)
    first_at = models.DateTimeField(db_default=Now())
    last_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"unmarked reviews of {self.backend_id}"


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
