"""Requests that may be sent twice: the first answer is stored in the same transaction as its change.

A process that dies therefore leaves both or neither, and a request with the same key never makes the change twice. The
age of an answer is measured by the database's clock, so that a process with a wrong clock repeats nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import OperationalError, connection, transaction
from django.db.models.functions import Now
from psycopg import errors as pg

from pools.domain.errors import Conflict, Violation
from pools.models import IdempotencyRecord

RECORD_RETENTION = timedelta(hours=24)
WAIT_FOR_FIRST = "250ms"


@dataclass
class IdempotencySlot:
    """The record of one key. `stored` is the answer of the first request and `etag` its version, if there was a first
    request; else the caller sets `answer`, and `etag` if the answer has one."""

    stored: Any = None
    answer: Any = None
    etag: str | None = None
    is_repeat: bool = False


@contextmanager
def run_once(*, user: str, address: str, key: str, body: bytes) -> Iterator[IdempotencySlot]:
    """Run the body of the `with` at most once per key, inside one transaction.

    Raises Conflict for the key with another body, and (with Retry-After) while the first request still runs: its row is
    not committed yet, so the second request waits for its lock. An exception rolls the key back with everything else.
    """
    body_fingerprint = hashlib.sha256(body).hexdigest()
    with transaction.atomic():
        slot = _claim(user, address, key, body_fingerprint)
        yield slot
        if not slot.is_repeat:
            IdempotencyRecord.objects.filter(user=user, address=address, key=key).update(
                response=[slot.answer, slot.etag]
            )


def purge_old_records() -> int:
    """Delete records older than a day and return their number."""
    gone, _ = IdempotencyRecord.objects.filter(created_at__lt=Now() - RECORD_RETENTION).delete()
    return gone


def _claim(user: str, address: str, key: str, body_fingerprint: str) -> IdempotencySlot:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [WAIT_FOR_FIRST])
            cursor.execute(
                """
                INSERT INTO pools_idempotencyrecord AS known ("user", address, key, fingerprint, response, created_at)
                VALUES (%s, %s, %s, %s, NULL, now())
                ON CONFLICT ("user", address, key) DO UPDATE
                    SET fingerprint = excluded.fingerprint, response = NULL, created_at = excluded.created_at
                    WHERE known.created_at < now() - make_interval(secs => %s)
                RETURNING id
                """,
                [user, address, key, body_fingerprint, RECORD_RETENTION.total_seconds()],
            )
            if cursor.fetchone():
                return IdempotencySlot()
    except OperationalError as error:
        if isinstance(error.__cause__, pg.LockNotAvailable):
            raise Conflict(
                "The first request with this Idempotency-Key is still running; ask again.", retry_after=1
            ) from error
        raise
    record = IdempotencyRecord.objects.get(user=user, address=address, key=key)
    if record.fingerprint != body_fingerprint:
        message = "This Idempotency-Key was used with another body; use a new key for a new request."
        raise Conflict(message, [Violation("Idempotency-Key", "key_reused", message)])
    assert record.response is not None, "it is written in the transaction that wrote the key"
    stored, *more = record.response  # records of an older release have no version
    return IdempotencySlot(stored=stored, etag=more[0] if more else None, is_repeat=True)
