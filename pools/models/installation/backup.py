"""The time of the last backup."""

from __future__ import annotations

from django.db import models


class LastBackup(models.Model):
    """One row, written after each complete `osmo-admin backup`. It does not belong to the ledger, so the audit trail
    has no entry of it; a database that was restored has the time of the backup before the one that it comes from."""

    made_at = models.DateTimeField()
    size = models.PositiveBigIntegerField()

    class Meta:
        verbose_name = "last backup"

    def __str__(self) -> str:
        return f"{self.made_at:%Y-%m-%d %H:%M} UTC, {self.size} bytes"
