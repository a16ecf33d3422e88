"""Repeated requests: the stored success of a request that carried an `Idempotency-Key`."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class IdempotencyRecord(models.Model):
    """One key of one user for one address (method, path, query). `response` is the stored
    success (it may be null) and its ETag, in a list; errors are not stored. Rows are kept for 24 hours."""

    user = models.TextField()
    address = models.TextField()
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    response = models.JSONField(null=True)
    created_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "address", "key"], name="idempotency_key_once")]

    def __str__(self) -> str:
        return self.key
