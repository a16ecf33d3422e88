"""Requests to the server: headers, retries, and the response or a :class:`ClientError`.

urllib3 is imported on first use, so that help, completion scripts and usage errors are fast.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from osmo_admin import __version__
from osmo_admin.cli.base.client_errors import SERVER_FAILED, ClientError, error_from_response

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

PROTOCOL_VERSION = "6.4.0"  # the version of the OSMO client with the same protocol; servers may refuse older ones
USER_AGENT = f"osmo-admin-cli/{__version__}"
RETRIES = 4
FIRST_PAUSE = 0.1  # seconds; doubled each time
MAX_REDIRECTS = 5
STREAM_PIECE_BYTES = 8192
UNAUTHENTICATED = 401
MAX_PAUSE = 30.0  # a longer Retry-After becomes an error message instead of a silent wait
# These are safe to repeat after a lost response: POSTs carry an Idempotency-Key.
REPEATABLE_METHODS = frozenset({"GET", "PUT", "POST"})
LOST_RESPONSE = (
    "The connection broke before the response arrived; the change may have been made. Check first, then retry."
)


def pause(seconds: float) -> None:
    """Wait between two attempts."""
    time.sleep(seconds)


def url_path(*segments: str) -> str:
    """A request path of escaped segments. Raises :class:`ClientError` on one that would change the path's shape."""
    for segment in segments:
        if segment in ("", ".", ".."):
            raise ClientError("A name has a character that no address can hold.")
    return "/".join(quote(segment, safe="") for segment in segments)


def query_pairs(query: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The query as OSMO's client writes it: lists as repeated keys, booleans as True and False, without None and []."""
    pairs: list[tuple[str, Any]] = []
    for key, value in query.items():
        values: Iterable[Any] = value if isinstance(value, list | tuple) else [value]
        pairs += [(key, str(each)) for each in values if each is not None]
    return pairs


@dataclass(slots=True)
class HttpClient:
    """A connection to one server. `authorize` returns the headers of the login and is called for every request."""

    url: str
    authorize: Callable[[], dict[str, str]]
    warn: Callable[[str], None]
    timeout: float = 60.0
    retries: int = RETRIES
    forwarded_for: str | None = None
    """The address of the caller for whom a gateway asks."""
    renew: Callable[[], bool] = lambda: False
    """Begins a new session; False where there is nothing to begin it with."""
    _connections: PoolManager | None = field(default=None, init=False)

    def get(self, path: str, query: Mapping[str, Any] | None = None, *, version_header: bool = True) -> Any:
        """The JSON of a GET."""
        return self._parse_json(self._send("GET", path, query or {}, None, {}, version_header=version_header))

    def get_with_headers(self, path: str) -> tuple[Any, Mapping[str, str]]:
        """The JSON of a GET, and the headers of the answer."""
        response = self._send("GET", path, {}, None, {}, version_header=False)
        return self._parse_json(response), response.headers

    def get_text(self, path: str, query: Mapping[str, Any] | None = None) -> str:
        """The body of a GET that answers plain text."""
        return _decode(self._send("GET", path, query or {}, None, {}).data)

    def stream_text(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[str]:
        """The body of a GET that answers plain text, in pieces as they arrive."""
        response = self._send("GET", path, query or {}, None, {}, stream=True)
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        try:
            for piece in response.stream(STREAM_PIECE_BYTES):
                yield decoder.decode(piece)
            yield decoder.decode(b"", final=True)
        finally:
            response.close()

    def send_change(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        if_match: str | None = None,
        submitting: bool = False,
        with_idempotency_key: bool = True,
    ) -> Any:
        """The JSON of a POST, PUT, PATCH or DELETE. A POST is safe to repeat: it carries an Idempotency-Key.

        `with_idempotency_key=False` is for requests that change nothing: simulations, and the exchange of a token,
        whose response must not be stored.
        """
        headers = {"Idempotency-Key": str(uuid.uuid4())} if method == "POST" and with_idempotency_key else {}
        if if_match is not None:
            headers["If-Match"] = if_match if if_match == "*" else f'"{if_match.strip(chr(34))}"'
        return self._parse_json(self._send(method, path, query or {}, body, headers, submitting=submitting))

    def close(self) -> None:
        """Close the connection."""
        if self._connections is not None:
            self._connections.clear()

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        body: Any,
        headers: dict[str, str],
        *,
        submitting: bool = False,
        version_header: bool = True,
        stream: bool = False,
        may_renew: bool = True,
    ) -> BaseHTTPResponse:
        headers = {**headers, **self.authorize(), "Content-Type": "application/json", "User-Agent": USER_AGENT}
        headers["Accept-Encoding"] = "gzip"
        if self.forwarded_for is not None:
            headers["X-Forwarded-For"] = self.forwarded_for
        if version_header:
            headers["x-osmo-client-version"] = PROTOCOL_VERSION
        content = None if body is None else json.dumps(body).encode()
        pairs = query_pairs(query)
        address = f"{self.url}/{path}" + (f"?{urlencode(pairs)}" if pairs else "")
        for attempt in range(self.retries + 1):
            wait = FIRST_PAUSE * 2**attempt
            last = attempt == self.retries
            response = self._attempt(method, address, content, headers, last=last, stream=stream)
            if response is not None:
                self._show_warning(response)
                if response.status < 300:
                    return response
                # The clock of this machine may be behind that of the server, so that an ended session looks valid here.
                if response.status == UNAUTHENTICATED and may_renew and self.renew():
                    return self._send(
                        method, path, query, body, headers, submitting=submitting, version_header=version_header,
                        stream=stream, may_renew=False,
                    )  # fmt: skip
                delay = self._retry_delay(response, headers)
                if delay is None or last:
                    raise error_from_response(
                        response.status, response.headers, _decode(response.data), submitting=submitting
                    )
                wait = delay
            pause(wait)
        raise AssertionError("the last attempt either answers or raises")

    def _attempt(
        self,
        method: str,
        address: str,
        content: bytes | None,
        headers: dict[str, str],
        *,
        last: bool,
        stream: bool,
    ) -> BaseHTTPResponse | None:
        """One attempt: the response, or None if the request may be repeated."""
        from urllib3 import exceptions

        if not address.startswith(("http://", "https://")):  # urllib3 would add http:// by itself
            raise ClientError(f"{self.url} is not a valid server address: it begins with http:// or https://.")
        try:
            return self._open(address).urlopen(
                method,
                address,
                body=content,
                headers=headers,
                # A redirect turns a POST into a GET, so only reads follow redirects.
                redirect=method == "GET",
                preload_content=not stream,
            )
        except (exceptions.LocationValueError, UnicodeError) as error:
            raise ClientError(f"{self.url} is not a valid server address: {error}") from error
        except (exceptions.NewConnectionError, exceptions.ConnectTimeoutError) as error:
            if last:
                raise self._unreachable_error(error) from error
        except exceptions.TimeoutError as error:
            raise ClientError(
                f"{self.url} did not answer within {self.timeout:g} seconds.",
                exit_code=SERVER_FAILED,
                hint=None if method == "GET" else LOST_RESPONSE,
            ) from error
        except exceptions.ProtocolError as error:
            if method not in REPEATABLE_METHODS:
                raise ClientError(LOST_RESPONSE, exit_code=SERVER_FAILED) from error
            if last:
                raise self._unreachable_error(error) from error
        except exceptions.HTTPError as error:
            raise self._unreachable_error(error) from error
        return None

    def _open(self, address: str) -> PoolManager:
        """The connections of this run, through the proxy that the environment names for this address."""
        if self._connections is None:
            import urllib3

            # Errors of a connection are raised as they are: `_send` decides what may be repeated.
            options: dict[str, Any] = {
                "timeout": self.timeout,
                "retries": urllib3.Retry(
                    total=None, connect=False, read=False, redirect=MAX_REDIRECTS, status=False, other=False
                ),
            }
            proxy = find_proxy(address)
            self._connections = urllib3.ProxyManager(proxy, **options) if proxy else urllib3.PoolManager(**options)
        return self._connections

    def _unreachable_error(self, error: Exception) -> ClientError:
        return ClientError(f"Cannot reach the server at {self.url}: {_cause_of(error)}.", exit_code=SERVER_FAILED)

    @staticmethod
    def _retry_delay(response: BaseHTTPResponse, headers: Mapping[str, str]) -> float | None:
        """Seconds after which the same request may be repeated, or None if it may not.

        503 means that nothing was changed (a lock or a dependency was busy), so every method may be repeated; 409 with
        Retry-After means that our first attempt with the same Idempotency-Key is still running.
        """
        busy = response.status == 503
        own_first_attempt = response.status == 409 and "Idempotency-Key" in headers
        if not (busy or own_first_attempt):
            return None
        seconds = parse_retry_after(response.headers.get("retry-after"), now=time.time())
        return seconds if seconds is not None and seconds <= MAX_PAUSE else None

    def _show_warning(self, response: BaseHTTPResponse) -> None:
        if header := response.headers.get("x-osmo-warning"):
            try:
                self.warn(base64.b64decode(header, validate=True).decode())
            except (binascii.Error, UnicodeDecodeError):
                self.warn(header)

    def _parse_json(self, response: BaseHTTPResponse) -> Any:
        if not response.data:
            return None
        try:
            return response.json()
        except ValueError as error:
            raise ClientError(
                f"{self.url} did not answer with JSON; is it an OSMO server?", exit_code=SERVER_FAILED
            ) from error


def find_proxy(address: str) -> str | None:
    """The proxy of the environment (`https_proxy`, `http_proxy`, `all_proxy`, without the hosts of `no_proxy`)."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(address)
    proxies = getproxies()
    if proxy_bypass(parts.netloc):
        return None
    return proxies.get(parts.scheme) or proxies.get("all")


def _cause_of(error: BaseException) -> str:
    """The words of the operating system for a failed connection, which those of the library are wrapped around."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return str(error)


def _decode(body: bytes) -> str:
    return body.decode("utf-8", errors="replace")


def parse_retry_after(value: str | None, *, now: float) -> float | None:
    """Seconds of a Retry-After header, which holds a number or a date; None without a header."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except ValueError:
        return None
