"""An RSGI application that runs Django's WSGI application on threads, once the body of a request is complete.

No thread reads from or writes to a connection, so neither a slow client nor a silent one holds a thread. There are
three lanes with threads of their own: requests; `/health`, which so answers while every other thread is busy; and
streams of events, from their first byte. The iterator of a stream yields an empty chunk if it has nothing to send yet
(PEP 3333 allows it); its thread then serves others, and reads the iterator again after `STREAM_PAUSE`. Granian takes
whatever it is given, also for a client that reads nothing, so a stream itself ends before it has sent much.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog
from django.utils.http import parse_header_parameters
from granian.rsgi import ProtocolClosed

from osmo_admin.serving.bodies import RequestBodies
from osmo_admin.serving.environ import make_environ
from osmo_admin.serving.refusals import RequestRefused, internal_error, send_refusal
from osmo_admin.serving.threads import Lane
from pools.domain.errors import Fault

if TYPE_CHECKING:
    from granian.rsgi import HTTPProtocol, Scope

HEALTH, READY = "/health", "/ready"
EVENTS = "text/event-stream"
STREAM_PAUSE = 0.5
DECISIVE = ("authorization", "idempotency-key", "if-match", "last-event-id", "content-encoding")
_CHARSETS = ("utf-8", "utf8", "us-ascii", "ascii")
# Further requests would wait for longer than their clients.
MAX_WAITING = 512
logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Stream:
    """A response that continues after an empty chunk, with its iterator and the chunks so far; or one of events, which
    has not begun."""

    response: Any
    iterator: Iterator[bytes]
    begin: bytes


class Server:
    """One process of a server. It serves the addresses with a prefix of `only_paths`, except those with a prefix of
    `closed_paths`. `on_start` is called once, in the process that serves."""

    def __init__(
        self,
        application: Callable[..., Any],
        *,
        threads: int,
        bodies: RequestBodies,
        only_paths: tuple[str, ...] = ("/",),
        closed_paths: tuple[str, ...] = (),
        on_start: Callable[[], None] = lambda: None,
    ) -> None:
        self._application = application
        self._threads = threads
        self._bodies = bodies
        self._only_paths = only_paths
        self._closed_paths = closed_paths
        self._on_start = on_start

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Called once, in the process that serves."""
        self._requests = Lane("request", self._threads, loop)
        self._health = Lane("health", 1, loop)
        self._ready = Lane("ready", 1, loop)
        self._streams = Lane("stream", 1, loop)
        self._on_start()

    async def __rsgi__(self, scope: Scope, proto: HTTPProtocol) -> None:
        """Called for each request."""
        path, body = scope.path, b""  # granian has decoded the path
        context = contextvars.Context()
        try:
            self._check_path(path)
            headers = scope.headers
            _check_headers(headers)
            if "content-length" in headers or "transfer-encoding" in headers:
                body = await self._bodies.read(scope, proto)
            stream = await self._choose_lane(path).run(context, self._answer, scope, proto, path, body)
        except RequestRefused as refusal:
            logger.info("request_refused", status=refusal.status, code=refusal.code, path=path)
            send_refusal(proto, path, refusal)
        except Exception:
            logger.exception("request_failed_outside_of_django", path=path)
            send_refusal(proto, path, internal_error())
        else:
            if stream is not None:
                await self._send_stream(proto, context, stream)
        finally:
            self._bodies.release(body)

    def _check_path(self, path: str) -> None:
        path = "/" + path.lstrip("/")  # as OneSlashMiddleware will read it
        if not path.startswith(self._only_paths):
            raise RequestRefused(404, Fault.NOT_SERVED, f"Only {' and '.join(self._only_paths)} are served here.")
        if path.startswith(self._closed_paths):
            raise RequestRefused(404, Fault.NOT_SERVED, "Webhooks are served by the webhook server only.")

    def _choose_lane(self, path: str) -> Lane:
        if path == HEALTH:
            return self._health
        # Not behind requests, or busy pods would count as pods without a database and lose their users to the others.
        lane = self._ready if path == READY else self._requests
        if lane.waiting() >= MAX_WAITING:
            raise RequestRefused(503, Fault.TOO_MANY_REQUESTS, "Too many requests wait; try again.", limit=MAX_WAITING)
        return lane

    def _answer(self, scope: Scope, proto: HTTPProtocol, path: str, body: bytes) -> _Stream | None:
        """In a thread: run Django and send its response; or return a stream of events, or one whose first pause has
        come."""
        response = self._application(make_environ(scope, path, body), _ignore_start)
        if not response.streaming:
            proto.response_bytes(response.status_code, _response_headers(response), response.content)
            response.close()
            return None
        iterator = iter(response)
        if response.headers.get("Content-Type", "").startswith(EVENTS):
            return _Stream(response, iterator, b"")
        begin, is_over = _read_until_pause(iterator)
        if not is_over:
            return _Stream(response, iterator, begin)
        proto.response_bytes(response.status_code, _response_headers(response), begin)
        response.close()
        return None

    async def _send_stream(self, proto: HTTPProtocol, context: contextvars.Context, stream: _Stream) -> None:
        """Send the rest of a stream, until it ends or its client has gone. The end of a connection is known at once;
        a send would fail only after the next event, and the stream would keep its place until then."""
        gone = asyncio.ensure_future(proto.client_disconnect())
        try:
            transport = proto.response_stream(stream.response.status_code, _response_headers(stream.response))
            pause, is_over = 0.0, False
            if stream.begin:
                await transport.send_bytes(stream.begin)
                pause = STREAM_PAUSE
            while not is_over:
                await asyncio.sleep(pause)
                pause = STREAM_PAUSE
                if gone.done():
                    return
                chunk, is_over = await self._streams.run(context, _read_until_pause, stream.iterator)
                if chunk:
                    await transport.send_bytes(chunk)
        except ProtocolClosed:  # the client has gone
            return
        except Exception:
            logger.exception("stream_failed")
        finally:
            gone.cancel()
            self._streams.run(context, stream.response.close)


def _check_headers(headers: Any) -> None:
    """Refuse a header that decides what is done and that nobody can read: granian has its name and no value, so a
    change would be made twice, or over another one, as if the client had not sent it."""
    for name in DECISIVE:
        if name in headers and headers.get(name) is None:
            message = f"The header {name} holds characters other than ASCII. Send it in ASCII."
            raise RequestRefused(400, Fault.BAD_ENCODING, message)
    if not _has_readable_kind(",".join(headers.get_all("content-type"))):
        # Django would decode the query by the charset, and Python has codecs that are not for text.
        message = "The Content-Type cannot be read, or names another charset. Send UTF-8, and name no other."
        raise RequestRefused(415, Fault.BAD_ENCODING, message)


def _has_readable_kind(kind: str) -> bool:
    """Whether the parameters of a Content-Type can be read, and the charset is one that we decode."""
    if "charset" not in kind.lower() and "*" not in kind:  # a parameter with * has an encoding of its own
        return True
    try:
        return parse_header_parameters(kind)[1].get("charset", "utf-8").lower() in _CHARSETS
    except ValueError:
        return False


def _read_until_pause(iterator: Iterator[bytes]) -> tuple[bytes, bool]:
    """The chunks up to an empty one, and whether the iterator has ended."""
    chunks: list[bytes] = []
    for chunk in iterator:
        if not chunk:
            return b"".join(chunks), False
        chunks.append(chunk)
    return b"".join(chunks), True


def _response_headers(response: Any) -> list[tuple[str, str]]:
    return [*response.items(), *(("Set-Cookie", cookie.output(header="")) for cookie in response.cookies.values())]


def _ignore_start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
    """The status and headers are read from Django's response."""
