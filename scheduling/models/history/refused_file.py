"""Files of the configuration that could not be applied."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from pools.domain.audit_actions import AuditAction
from pools.models.triggers import AuditTrigger, NoTruncateTrigger


class RefusedFile(models.Model):
    """The last content of a source that could not be applied, until one of its contents is applied. `digest` is the
    SHA-256 of the content, so that the same one is reported once; `faults` counts the lines of `message`."""

    source = models.TextField(primary_key=True)
    path = models.TextField()
    digest = models.CharField(max_length=64)
    faults = models.PositiveIntegerField()
    message = models.TextField()
    refused_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["source"]
        triggers = [
            AuditTrigger(
                subject="'config_file/' || COALESCE(NEW.path, OLD.path)",
                action=f"CASE TG_OP WHEN 'DELETE' THEN '{AuditAction.CONFIG_FILE_ACCEPTED}' "
                f"ELSE '{AuditAction.CONFIG_FILE_REFUSED}' END",
                ignore=["refused_at"],
            ),
            NoTruncateTrigger("The table of refused files"),
        ]

    def __str__(self) -> str:
        return self.path
