"""Live changes as server-sent events (design, A8).

A stream lasts about half a minute and then ends; clients of server-sent events come back with `Last-Event-ID` and miss
nothing. Streams that began together end one by one, so that they do not come back together. Between two polls a stream
yields an empty chunk, and our server then gives its thread to others. All streams of a process ask together whether
there are new entries. Beyond the allowed number of streams a client gets the present events, learns of it by an event
`crowded`, and reconnects a little later, so no client is refused or has to wait.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator

from django.conf import settings
from django.db import Error, close_old_connections
from django.http import StreamingHttpResponse
from django.utils import timezone
from rest_framework.request import Request

from pools.api.authentication import SessionAuthentication
from pools.api.rendering import UtcJsonEncoder
from pools.api.schema import TEXT, QueryParameter, describe_operation
from pools.api.stream_pauses import PAUSES
from pools.api.views import View
from pools.database.errors import is_database_away
from pools.database.open_transactions import current_snapshot
from pools.database.transactions import one_snapshot
from pools.domain.errors import BadInput, DomainError, Fault, Violation
from pools.models import AccessToken, AuditEntry, User
from pools.selectors.audit_trail import (
    AuditReader,
    BrowserSession,
    Login,
    StreamPosition,
    entries_after,
    entry_body,
    has_passed,
    is_beyond,
    newest_before,
    parse_position,
    read_audit_readers,
    stream_horizon,
)

logger = logging.getLogger(__name__)

STREAM_SECONDS = 30.0
"""On average; a stream lasts between two thirds and four thirds of it."""
STREAM_BYTES = 128 * 1024
"""The most that one stream sends: what a client does not read stays in the memory of the server, which cannot know how
much that is."""
CROWDED_BYTES = 16 * 1024
"""The same beyond the allowed number of streams, where only the number of connections is limited."""
POLL_SECONDS = 0.5
HEARTBEAT_SECONDS = 5.0
RETRY_MS = 1000
"""The pause before a client reconnects after a broken connection."""
RETRY_AFTER_END_MS = 200
RETRY_WHEN_CROWDED_MS = 5000
BATCH_SIZE = 200
Batch = list[tuple[StreamPosition, bytes]]
"""Events with their positions, as they are sent."""
Entries = list[tuple[StreamPosition, AuditEntry, bytes]]
"""Entries with their positions and their events, for all readers."""


class _Round:
    """What all streams of the process read in one pause: the horizon `end` of the stream, the position `newest` of the
    newest transaction with entries before it, the entries after each position, and the rights of all readers.

    A hundred readers of one change cost as many queries as one. Every change of a right is a transaction, which moves
    the horizon, so the rights of a round are those of its moment."""

    def __init__(self, end: StreamPosition, newest: StreamPosition) -> None:
        self.end, self.newest = end, newest
        self._lock = threading.Lock()
        self._readers: dict[Login, AuditReader] | None = None
        self._present: frozenset[Login] = frozenset()
        self._entries: dict[tuple[StreamPosition, str | None], Entries | None] = {}

    def read(self, login: Login, place: StreamPosition, known: str | None) -> Batch | None:
        """The entries after `place` and before the horizon that this reader may see, without those in the snapshot
        `known`; None after the end of the login. Raises the errors of the database."""
        with self._lock:
            if self._readers is None or (place, known) not in self._entries:
                self._read_for_all(place, known)
            entries, readers = self._entries[place, known], self._readers
        if entries is None or readers is None or login not in self._present:
            return _read_batch(login, place, self.end, known)
        reader = readers.get(login)
        if reader is None:
            return None
        return [(at, text) for at, entry, text in entries if reader.may_see(entry)]

    def _read_for_all(self, place: StreamPosition, known: str | None) -> None:
        """Read the entries after a position for all readers; none after a position with a long backlog, which each
        reads by itself."""
        with one_snapshot():  # which ends before anything is sent
            if self._readers is None:
                self._present = _logins.present()
                self._readers = read_audit_readers(self._present, timezone.now())
            found = entries_after(None, place, self.end, limit=BATCH_SIZE + 1, known_snapshot=known)
        is_long = len(found) > BATCH_SIZE
        self._entries[place, known] = None if is_long else [(at, entry, _entry_event(at, entry)) for at, entry in found]


class _Latest:
    """The present round. Every transaction moves the horizon, but few of them write entries."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._round = _Round(StreamPosition(0), StreamPosition(0))

    def read(self) -> _Round:
        """A round that is at most a quarter of a pause old. Raises the errors of the database."""
        with self._lock:
            if time.monotonic() - self._read_at > POLL_SECONDS / 4:
                end, last = stream_horizon(), self._round
                self._round = _Round(end, newest_before(end, since=last.end) or last.newest)
                self._read_at = time.monotonic()
                close_old_connections()  # between two polls a stream must not hold a connection of the pool
            return self._round


class _Logins:
    """The logins with open streams in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[Login] = Counter()

    def add(self, login: Login, number: int) -> None:
        """A stream of the login begins (1) or ends (-1)."""
        with self._lock:
            self._counts[login] += number
            if not self._counts[login]:
                del self._counts[login]

    def present(self) -> frozenset[Login]:
        """All of them."""
        with self._lock:
            return frozenset(self._counts)


def _read_batch(login: Login, place: StreamPosition, end: StreamPosition, known: str | None) -> Batch | None:
    with one_snapshot():  # which ends before anything is sent
        reader = read_audit_readers([login], timezone.now()).get(login)
        if reader is None:
            return None
        entries = entries_after(reader.actor, place, end, limit=BATCH_SIZE, known_snapshot=known)
        return [(at, _entry_event(at, entry)) for at, entry in entries]


_latest = _Latest()
_logins = _Logins()
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
        place, now = _read_place(request), current_snapshot()
        if place is not None and is_beyond(place, now):
            raise _bad_place("is beyond every event here, as one from before the restore of a backup")
        login = _login_of(request)
        # Other servers (Django's for development, that of tests) would ask again at once.
        pause = POLL_SECONDS if PAUSES not in request.META else 0
        if place is not None:
            stream = _stream(login, place, pause=pause)
        else:  # from now on; entries after the horizon may be committed already, while an older transaction is open
            stream = _stream(login, stream_horizon(now), known=now, pause=pause)
        return StreamingHttpResponse(
            stream, content_type="text/event-stream", headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        )


def _login_of(request: Request) -> Login:
    """The login of the request, with which the stream ends."""
    user = request.user
    assert isinstance(user, User)
    if isinstance(request.auth, AccessToken):
        return Login(user.pk, request.auth.pk)
    key = request.session.session_key if isinstance(request.successful_authenticator, SessionAuthentication) else None
    if key is None:  # the plain header of dev mode
        return Login(user.pk)
    return Login(user.pk, None, BrowserSession(key, user.get_session_auth_hash(), user.sign_on_epoch is not None))


def _read_place(request: Request) -> StreamPosition | None:
    """The position of the last event that the client has; None without one. A browser cannot send the header with its
    first request. Raises BadInput: with another place than it asks for a client would miss events without a word."""
    text = str(request.headers.get("Last-Event-ID") or request.query_params.get("last_event_id", ""))
    place = parse_position(text) if text else None
    if text and place is None:
        raise _bad_place("is not a place in this stream")
    return place


def _bad_place(fault: str) -> DomainError:
    message = (
        f"Last-Event-ID (or last_event_id) {fault}. Send the id of an event, or of an entry of the audit list; 0 "
        "begins at the first entry, and without it the stream begins now."
    )
    return BadInput.of([Violation("last_event_id", Fault.BAD_QUERY, message)])


def _stream(login: Login, place: StreamPosition, *, pause: float, known: str | None = None) -> Iterator[bytes]:
    """The bytes of one stream after `place`, without the entries in the snapshot `known`. An empty chunk is a pause.
    The user and the rights of the user are read again before anything is sent."""
    has_slot = _slots.acquire(blocking=False)
    _logins.add(login, 1)
    try:
        yield _opening(place, is_crowded=not has_slot)
        ends_at = time.monotonic() + (_stream_seconds() if has_slot else 0)
        last_sent_at, left = time.monotonic(), STREAM_BYTES if has_slot else min(CROWDED_BYTES, STREAM_BYTES)
        while True:
            latest = _latest.read()
            is_silent = time.monotonic() - last_sent_at >= HEARTBEAT_SECONDS
            batch: Batch = []
            if latest.newest.transaction >= place.transaction:  # most polls find that nothing has changed
                read = latest.read(login, place, known)
                close_old_connections()
                if read is None:
                    return
                batch = read
            # After a full batch there are more entries, which follow now or when the client reconnects.
            after = max(place, latest.end) if len(batch) < BATCH_SIZE else batch[-1][0]
            for at, text in batch:
                yield text
                last_sent_at, left = time.monotonic(), left - len(text)
                if left <= 0:
                    after = at
                    break
            place = after
            if known is not None and has_passed(place, known):
                known = None  # no later entry is in it, and streams without it share what they read
            if time.monotonic() >= ends_at or left <= 0:
                yield _ending(place, is_crowded=not has_slot)
                return
            if is_silent:
                yield f": still here\nid: {place}\n\n".encode()
                last_sent_at = time.monotonic()
            if len(batch) < BATCH_SIZE:
                time.sleep(pause)
            yield b""
    except Error as problem:
        if not is_database_away(problem):
            raise
        logger.warning("an event stream lost its database: %s", problem)
    finally:
        close_old_connections()
        _logins.add(login, -1)
        if has_slot:
            _slots.release()


def _stream_seconds() -> float:
    return STREAM_SECONDS * random.uniform(2 / 3, 4 / 3)  # noqa: S311  (spreads load, keeps no secret)


def _opening(place: StreamPosition, *, is_crowded: bool) -> bytes:
    if is_crowded:
        advice = json.dumps({"retry_ms": RETRY_WHEN_CROWDED_MS})
        return f"retry: {RETRY_WHEN_CROWDED_MS}\nid: {place}\nevent: crowded\ndata: {advice}\n\n".encode()
    return f"retry: {RETRY_MS}\nid: {place}\n\n".encode()


def _ending(place: StreamPosition, *, is_crowded: bool) -> bytes:
    """The end of a stream. With this position a client that reconnects does not read entries again that it may not
    see."""
    retry = "" if is_crowded else f"retry: {RETRY_AFTER_END_MS}\n"
    return f": still here\n{retry}id: {place}\n\n".encode()


def _entry_event(at: StreamPosition, entry: AuditEntry) -> bytes:
    text = json.dumps(entry_body(entry), cls=UtcJsonEncoder, ensure_ascii=False)
    return f"id: {at}\ndata: {text}\n\n".encode()
