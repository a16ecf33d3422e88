"""Makes notices in tests, as the periodic task does."""

from __future__ import annotations

import time

from django.db import connection

from scheduling.services.notices import planning

_SECONDS = 60


def plan_notices() -> int:
    """Make the notices of everything that was committed so far; returns their number.

    Tests of another process use the same PostgreSQL server, and an open transaction of any of its databases holds the
    trail back; so this waits until the newest entry is final.
    """
    deadline = time.monotonic() + _SECONDS
    while not _is_trail_final():
        assert time.monotonic() < deadline, f"a transaction of another database was open for {_SECONDS} s"
        time.sleep(0.02)
    return planning.plan_notices()


def _is_trail_final() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT COALESCE(max(transaction::text::bigint), 0)"
            " < pg_snapshot_xmin(pg_current_snapshot())::text::bigint FROM pools_auditentry"
        )
        return bool(cursor.fetchone()[0])
