"""How long decisions are kept: a bounded time, and a bounded number."""

from __future__ import annotations

from datetime import timedelta

from django.db import connection
from django.utils import timezone

from scheduling.models.decision import MIN_RETENTION_DAYS

RETENTION = timedelta(days=30)
MAX_DECISIONS = 1_000_000
"""The oldest beyond these go too, but for what is younger than a day."""

BATCH_SIZE = 10_000


def delete_old_decisions() -> int:
    """Delete the decisions that are too old or too many, a batch at a time; how many went."""
    now = timezone.now()
    forgotten = 0
    while True:
        with connection.cursor() as cursor:
            cursor.execute(
                """
                DELETE FROM scheduling_decision WHERE id IN (
                    SELECT id FROM scheduling_decision
                    WHERE time < %s OR time < %s AND id <= (
                        SELECT id FROM scheduling_decision ORDER BY id DESC OFFSET %s LIMIT 1
                    )
                    ORDER BY id LIMIT %s
                )
                """,
                [now - RETENTION, now - timedelta(days=MIN_RETENTION_DAYS, minutes=1), MAX_DECISIONS, BATCH_SIZE],
            )
            gone: int = cursor.rowcount
        forgotten += gone
        if gone < BATCH_SIZE:
            return forgotten
