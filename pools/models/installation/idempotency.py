"""Repeated requests: the stored success of a request that carried an `Idempotency-Key`."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class IdempotencyRecord(models.Model):
    """One key of one credential for one address (method, path, query). `response` is the stored success (it may be
    null) and its ETag, in a list, of `size` bytes; errors and secrets are not stored. Rows are kept for
    `OSMO_IDEMPOTENCY_HOURS`.

    The credential is an access token, or the user's own login (`token_id` 0). These are numbers and no references: a
    number is never given again, and a row outlives its token by a day at most."""

    user_id = models.BigIntegerField()
    token_id = models.BigIntegerField()
    address = models.TextField()
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    response = models.JSONField(null=True)
    size = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user_id", "token_id", "address", "key"], name="idempotency_key_once")
        ]

    def __str__(self) -> str:
        return self.key
