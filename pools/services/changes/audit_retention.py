"""The retention of the audit trail: old entries are deleted, as far as nothing is computed from them."""

from __future__ import annotations

from django.conf import settings

from pools.database.statements import execute_sql
from pools.models.trigger_guard import MIN_AUDIT_DAYS

BATCH_SIZE = 5_000
"""Entries that one transaction deletes."""


def retention_days() -> int | None:
    """The days for which entries are kept; None: for ever. The record of use follows from the audit trail, so its days
    are kept in any case."""
    configured: int = settings.OSMO.audit_retention_days
    return max(configured, settings.OSMO.usage_retention_days + 1, MIN_AUDIT_DAYS) if configured else None


def delete_old_entries() -> int:
    """Delete the entries that are older than the retention; returns their number."""
    days, deleted = retention_days(), 0
    if days is None:
        return 0
    while True:
        count: int = execute_sql("SELECT osmo_forget_audit(%s, %s)", [days, BATCH_SIZE]).fetchone()[0]
        deleted += count
        if count < BATCH_SIZE:
            return deleted
