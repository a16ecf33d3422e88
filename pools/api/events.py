"""Live changes as server-sent events (api.md, "Audit and events").

A stream lasts half a minute and then ends; clients of server-sent events come back with `Last-Event-ID` and miss
nothing. Between two polls a stream yields an empty chunk, and our server then gives its thread to others. All
streams of a process ask together whether there are new entries. Beyond the allowed number of streams a client gets the
present events and reconnects a little later, so no client is refused or has to wait.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections
from django.http import StreamingHttpResponse
from django.utils import timezone
from rest_framework.request import Request

from pools.api.rendering import UtcJsonEncoder
from pools.api.schema import TEXT, QueryParameter, describe_operation
from pools.api.stream_pauses import PAUSES
from pools.api.views import View
from pools.domain.roles import Actor
from pools.models import AccessToken, AuditEntry, User
from pools.selectors.audit_trail import (
    StreamPosition,
    current_snapshot,
    entries_after,
    entry_body,
    is_beyond,
    newest_before,
    parse_position,
    stream_horizon,
)
from pools.transactions import one_snapshot

logger = logging.getLogger(__name__)

STREAM_SECONDS = 30.0
POLL_SECONDS = 0.5
HEARTBEAT_SECONDS = 5.0
RETRY_MS = 1000
RETRY_WHEN_CROWDED_MS = 5000
BATCH_SIZE = 500
Batch = list[tuple[StreamPosition, bytes]]
"""Events with their positions, as they are sent."""


class _Latest:
    """The horizon of the stream and the newest entry before it, read once for all streams of the process that ask
    within one pause. Every transaction moves the horizon, but few of them write entries."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._end = self._newest = StreamPosition(0)

    def read(self) -> tuple[StreamPosition, StreamPosition]:
        """A horizon that is at most half a pause old, and the position of the newest transaction with entries before
        it. Raises the errors of the database."""
        with self._lock:
            if time.monotonic() - self._read_at > POLL_SECONDS / 2:
                end = stream_horizon()
                self._newest = newest_before(end, since=self._end) or self._newest
                self._end, self._read_at = end, time.monotonic()
                close_old_connections()  # between two polls a stream must not hold a connection of the pool
            return self._end, self._newest


@dataclass(slots=True)
class _Shared:
    """What one reader gets after one position: read by the first stream that asks, under the lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    is_read: bool = False
    batch: Batch | None = None


class _Batches:
    """The entries up to the newest horizon, for all streams of one reader in the process that ask from one position: a
    person with many windows, or many clients with one token. Every change of a right is a transaction, which moves the
    horizon, so the rights of a batch are those of its moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._end = StreamPosition(0)
        self._shared: dict[tuple[int, int | None, StreamPosition, str | None], _Shared] = {}

    def read(
        self, user_id: int, token_id: int | None, place: StreamPosition, end: StreamPosition, known: str | None
    ) -> Batch | None:
        """The entries after `place` and before `end`, without those in the snapshot `known`; None after the end of the
        login. Raises the errors of the database."""
        with self._lock:
            if self._end != end:
                self._end, self._shared = end, {}
            shared = self._shared.setdefault((user_id, token_id, place, known), _Shared())
        with shared.lock:
            if not shared.is_read:
                shared.batch = _read_batch(user_id, token_id, place, end, known)
                shared.is_read = True
            return shared.batch


def _read_batch(
    user_id: int, token_id: int | None, place: StreamPosition, end: StreamPosition, known: str | None
) -> Batch | None:
    with one_snapshot():  # which ends before anything is sent
        actor = _read_actor(user_id, token_id)
        if actor is None:
            return None
        entries = entries_after(actor, place, end, limit=BATCH_SIZE, known_snapshot=known)
        return [(at, f"id: {at}\ndata: {_entry_text(entry)}\n\n".encode()) for at, entry in entries]


_latest = _Latest()
_batches = _Batches()
_slots = threading.BoundedSemaphore(settings.OSMO.event_streams)


class AuditEventStream(View):
    """Changes as they happen."""

    @describe_operation(
        "Follow the audit trail. `Last-Event-ID` (the id of an event, or of an entry of the audit list) resumes.",
        query_parameters=[
            QueryParameter("last_event_id", TEXT, "The same as the header, for a browser's first request.")
        ],
        answer=TEXT,
        media_type="text/event-stream",
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        place, now = parse_position(_last_event(request)), current_snapshot()
        if place is not None and is_beyond(place, now):
            place = None  # of another database server, before a restore: it would wait for numbers that do not come
        user = request.user
        assert isinstance(user, User)
        token = request.auth.pk if isinstance(request.auth, AccessToken) else None
        # Other servers (Django's for development, that of tests) would ask again at once.
        pause = POLL_SECONDS if PAUSES not in request.META else 0
        if place is not None:
            stream = _stream(user.pk, token, place, pause=pause)
        else:  # from now on; entries after the horizon may be committed already, beside an older open transaction
            stream = _stream(user.pk, token, stream_horizon(now), known=now, pause=pause)
        return StreamingHttpResponse(
            stream, content_type="text/event-stream", headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        )


def _last_event(request: Request) -> str:
    """The id of the last event that the client has; a browser cannot send the header with its first request."""
    return str(request.headers.get("Last-Event-ID") or request.query_params.get("last_event_id", ""))


def _stream(
    user_id: int, token_id: int | None, place: StreamPosition, *, pause: float, known: str | None = None
) -> Iterator[bytes]:
    """The bytes of one stream after `place`, without the entries in the snapshot `known`. An empty chunk is a pause.
    The user and the rights of the user are read again before anything is sent."""
    has_slot = _slots.acquire(blocking=False)
    try:
        yield f"retry: {RETRY_MS if has_slot else RETRY_WHEN_CROWDED_MS}\nid: {place}\n\n".encode()
        ends_at = time.monotonic() + (STREAM_SECONDS if has_slot else 0)
        last_sent_at = time.monotonic()
        while True:
            end, newest = _latest.read()
            is_over = time.monotonic() >= ends_at
            is_silent = time.monotonic() - last_sent_at >= HEARTBEAT_SECONDS
            batch: Batch = []
            if newest.transaction >= place.transaction:  # most polls find that nothing has changed
                read = _batches.read(user_id, token_id, place, end, known)
                close_old_connections()
                if read is None:
                    return
                batch = read
            for _, text in batch:
                yield text
                last_sent_at = time.monotonic()
            # After a full batch there are more entries, which follow now or when the client reconnects.
            place = max(place, end) if len(batch) < BATCH_SIZE else batch[-1][0]
            if is_over or is_silent:
                # With this position a client that reconnects does not read entries again that it may not see.
                yield f": still here\nid: {place}\n\n".encode()
                last_sent_at = time.monotonic()
            if is_over:
                return
            if len(batch) < BATCH_SIZE:
                time.sleep(pause)
            yield b""
    except (OperationalError, InterfaceError) as problem:
        logger.warning("an event stream lost its database: %s", problem)
    finally:
        close_old_connections()
        if has_slot:
            _slots.release()


def _entry_text(entry: AuditEntry) -> str:
    return json.dumps(entry_body(entry), cls=UtcJsonEncoder, ensure_ascii=False)


def _read_actor(user_id: int, token_id: int | None) -> Actor | None:
    """The caller with its present rights; None after the end of the login."""
    user = User.objects.filter(pk=user_id, is_active=True).first()
    if user is None:
        return None
    if token_id is None:
        return user.as_actor()
    token = AccessToken.objects.filter(pk=token_id, expires_at__gt=timezone.now()).first()
    return user.as_actor(token=token) if token else None
