"""Requests that may be sent twice: the first answer is stored in the same transaction as its change.

A process that dies therefore leaves both or neither, and a request with the same key never makes the change twice. The
age of an answer is measured by the database's clock, so that a process with a wrong clock repeats nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import OperationalError, transaction
from django.db.models.functions import Now

from pools.database.errors import is_lock_timeout
from pools.database.prepared import read_rows
from pools.database.statements import execute_sql
from pools.domain.errors import BadInput, Busy, Conflict, Fault, Throttled, Violation
from pools.domain.people.roles import Actor
from pools.locking import LOCK_ANSWERS_SQL
from pools.models import IdempotencyRecord

WAIT_FOR_FIRST = "250ms"
OWN_LOGIN = 0
"""In place of the id of a token: the browser's session, or the header of dev mode."""

# The count is a statement of its own, because its snapshot must be younger than the lock.
_STORE_SQL = f"""
    SELECT set_config('lock_timeout', %s, true);
    {LOCK_ANSWERS_SQL};
    UPDATE pools_idempotencyrecord SET response = %s, size = %s
        WHERE user_id = %s AND token_id = %s AND address = %s AND key = %s;
    SELECT count(*), COALESCE(sum(size), 0), extract(epoch FROM min(created_at) + make_interval(secs => %s) - now())
        FROM pools_idempotencyrecord WHERE user_id = %s AND created_at > now() - make_interval(secs => %s)
"""
_STATEMENTS_BEFORE_COUNT = 3


class StillRunning(Conflict):
    """The first request with the same key has not ended."""


@dataclass
class IdempotencySlot:
    """The record of one key. `stored` is the answer of the first request and `etag` its version, if there was a first
    request; else the caller sets `answer`, and `etag` if the answer has one."""

    stored: Any = None
    answer: Any = None
    etag: str | None = None
    is_repeat: bool = False


@contextmanager
def run_once(
    *,
    actor: Actor,
    address: str,
    key: str,
    body: bytes,
    wait: str = WAIT_FOR_FIRST,
    encoder: type[json.JSONEncoder] = json.JSONEncoder,
) -> Iterator[IdempotencySlot]:
    """Run the body of the `with` at most once per key, inside one transaction. A key belongs to the credential: the
    access token of the actor, or the user's own login. `encoder` is the one of the answer.

    Raises Conflict for the key with another body, and StillRunning (with Retry-After) while the first request runs: its
    row is not committed yet, so the second request waits for its lock. Raises BadInput for an answer that is too large
    to be stored, and Throttled if the user has too many stored answers. An exception rolls the key back with everything
    else.
    """
    assert actor.user_id is not None, "only people send requests"
    credential = actor.user_id, actor.token_id or OWN_LOGIN
    body_fingerprint = hashlib.sha256(body).hexdigest()
    with transaction.atomic():
        slot = _claim(credential, address, key, body_fingerprint, wait)
        yield slot
        if not slot.is_repeat:
            _store(credential, address, key, json.dumps([slot.answer, slot.etag], cls=encoder))


def has_record(*, actor: Actor, address: str, key: str) -> bool:
    """Whether a request with this key has an answer already, as far as it is known without waiting."""
    assert actor.user_id is not None, "only people send requests"
    return bool(read_rows(_HAS_RECORD_SQL, [actor.user_id, actor.token_id or OWN_LOGIN, address, key])[0][0])


_HAS_RECORD_SQL = """
    SELECT EXISTS (SELECT FROM pools_idempotencyrecord
        WHERE user_id = %s AND token_id = %s AND address = %s AND key = %s)
"""


def record_retention() -> timedelta:
    """How long an answer is stored."""
    return timedelta(hours=settings.OSMO.idempotency_hours)


def purge_old_records() -> int:
    """Delete records that are older than the retention and return their number."""
    gone, _ = IdempotencyRecord.objects.filter(created_at__lt=Now() - record_retention()).delete()
    return gone


def _store(credential: tuple[int, int], address: str, key: str, text: str) -> None:
    """Store the answer, as the last statement of its transaction. The lock lets one request of a user at a time count,
    so that the limits hold for requests that run side by side."""
    user_id, token_id = credential
    size, limits = len(text.encode()), settings.OSMO
    if size > limits.max_answer_bytes:
        raise BadInput.of(
            [
                Violation(
                    "Idempotency-Key",
                    Fault.ANSWER_TOO_LARGE,
                    f"The answer to this request has {size} bytes; at most {limits.max_answer_bytes} are stored for an "
                    "Idempotency-Key. Nothing was changed: send less in one request, or leave the key out.",
                    numbers=(("size", size), ("limit", limits.max_answer_bytes)),
                )
            ]
        )
    try:
        wait = f"{limits.lock_timeout_ms}ms"
        record: list[str | int] = [text, size, user_id, token_id, address, key]
        kept = record_retention().total_seconds()
        cursor = execute_sql(_STORE_SQL, [wait, user_id, *record, kept, user_id, kept])
        for _ in range(_STATEMENTS_BEFORE_COUNT):
            cursor.nextset()
        count, stored, seconds_left = cursor.fetchone()
    except OperationalError as error:
        if is_lock_timeout(error):
            raise Busy(
                "Other requests of yours are being stored; nothing was changed, try again.", retry_after=1
            ) from error
        raise
    if count > limits.max_stored_answers or stored > limits.max_stored_bytes:
        seconds = max(1, math.ceil(seconds_left))
        raise Throttled(
            f"{count - 1} answers of {stored - size} bytes are stored for your Idempotency-Keys; at most "
            f"{limits.max_stored_answers} answers and {limits.max_stored_bytes} bytes are, for "
            f"{limits.idempotency_hours} hours each. Nothing was changed: leave the key out, "
            f"or wait {seconds} seconds until the oldest is deleted.",
            retry_after=seconds,
        )


def _claim(credential: tuple[int, int], address: str, key: str, body_fingerprint: str, wait: str) -> IdempotencySlot:
    try:
        with transaction.atomic():
            execute_sql("SELECT set_config('lock_timeout', %s, true)", [wait])
            claimed = execute_sql(
                """
                INSERT INTO pools_idempotencyrecord AS known
                    (user_id, token_id, address, key, fingerprint, response, size, created_at)
                VALUES (%s, %s, %s, %s, %s, NULL, 0, now())
                ON CONFLICT (user_id, token_id, address, key) DO UPDATE
                    SET fingerprint = excluded.fingerprint, response = NULL, size = 0, created_at = excluded.created_at
                    WHERE known.created_at < now() - make_interval(secs => %s)
                RETURNING id
                """,
                [*credential, address, key, body_fingerprint, record_retention().total_seconds()],
            )
            if claimed.fetchone():
                return IdempotencySlot()
    except OperationalError as error:
        if is_lock_timeout(error):
            raise StillRunning(
                "The first request with this Idempotency-Key is still running; ask again.", retry_after=1
            ) from error
        raise
    user_id, token_id = credential
    record = IdempotencyRecord.objects.get(user_id=user_id, token_id=token_id, address=address, key=key)
    if record.fingerprint != body_fingerprint:
        message = "This Idempotency-Key was used with another body; use a new key for a new request."
        raise Conflict(message, [Violation("Idempotency-Key", Fault.KEY_REUSED, message)])
    assert record.response is not None, "it is written in the transaction that wrote the key"
    stored, etag = record.response
    return IdempotencySlot(stored=stored, etag=etag, is_repeat=True)
