"""Revisions of the pool configuration, as OSMO's `config history` counts them."""

from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models.functions import Now

from pools.models.triggers import NeverDeletedTrigger, NoTruncateTrigger, raise_message

_EDITABLE = "ARRAY['tags', 'deleted_at', 'deleted_by']"


class ConfigRevision(models.Model):
    """One write to a configuration type. Its content is not copied: the audit trail has every object of that type up to
    `audit_id`."""

    config_type = models.TextField()
    revision = models.PositiveIntegerField()
    name = models.TextField(blank=True)
    username = models.TextField()
    description = models.TextField(blank=True)
    tags = models.JSONField(null=True)
    audit_id = models.BigIntegerField()
    created_at = models.DateTimeField(db_default=Now())
    deleted_at = models.DateTimeField(null=True)
    deleted_by = models.TextField(blank=True)

    class Meta:
        ordering = ["-revision"]
        constraints = [
            models.UniqueConstraint(fields=["config_type", "revision"], name="revision_once_per_type"),
        ]
        triggers = [
            pgtrigger.Trigger(
                name="keeps_content",
                operation=pgtrigger.Update,
                when=pgtrigger.Before,
                func=f"""
                    IF to_jsonb(NEW) - {_EDITABLE} IS DISTINCT FROM to_jsonb(OLD) - {_EDITABLE} THEN
                        {
                    raise_message("revision_is_history", "Revision % cannot change, except its tags.", "OLD.revision")
                }
                    END IF;
                    RETURN NEW;
                """,
            ),
            NeverDeletedTrigger("Revisions of the configuration"),
            NoTruncateTrigger("The table of revisions"),
        ]

    def __str__(self) -> str:
        return f"{self.config_type}:{self.revision}"
