"""A load of keep-alive HTTP clients, each sending its next request after the previous answer."""

from __future__ import annotations

import asyncio
import functools
import re
import ssl
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """One request of the load."""

    method: str
    path: str
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Measurements of a load. Times in milliseconds; `statuses` counts the answers by HTTP code."""

    seconds: float
    latencies_ms: tuple[float, ...]
    statuses: dict[int, int]

    def summary(self) -> dict[str, Any]:
        """Rate and percentiles, for the report."""
        ordered = sorted(self.latencies_ms)
        at = lambda share: round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 2) if ordered else None  # noqa: E731
        return {
            "requests": len(ordered),
            "per_second": round(len(ordered) / self.seconds, 1),
            "p50_ms": at(0.50),
            "p99_ms": at(0.99),
            "statuses": {str(code): count for code, count in sorted(self.statuses.items())},
        }


def run_load(
    base_url: str,
    jwt: str | Sequence[str],
    *,
    clients: int,
    seconds: float,
    next_request: Callable[[int, int], LoadRequest],
    trust: ssl.SSLContext | None = None,
) -> LoadResult:
    """Let `clients` send for `seconds`. `next_request(client, number)` makes each client's requests; with `trust` they
    speak TLS. Of several tokens each client takes one, in turn."""
    tokens = [jwt] if isinstance(jwt, str) else jwt
    return asyncio.run(_run(base_url, tokens, clients, seconds, next_request, trust))


async def _run(
    base_url: str,
    tokens: Sequence[str],
    clients: int,
    seconds: float,
    next_request: Callable[[int, int], LoadRequest],
    trust: ssl.SSLContext | None,
) -> LoadResult:
    parts = urlsplit(base_url)
    loop = asyncio.get_running_loop()
    heads = [
        f" HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {jwt}\r\nContent-Type: application/json\r\n"
        for jwt in tokens
    ]
    begin = time.perf_counter()
    ends: list[asyncio.Future[None]] = [loop.create_future() for _ in range(clients)]
    connections = []
    for index, end in enumerate(ends):
        head = heads[index % len(heads)].encode()
        connections.append(_Client(head, functools.partial(next_request, index), begin + seconds, end))
    for each in connections:
        await loop.create_connection(lambda each=each: each, parts.hostname, parts.port, ssl=trust)  # type: ignore[misc]
    await asyncio.gather(*ends)
    return LoadResult(
        time.perf_counter() - begin,
        tuple(taken for each in connections for taken in each.latencies_ms),
        dict(Counter(status for each in connections for status in each.statuses)),
    )


class _Client(asyncio.Protocol):
    """One connection: it sends the next request when the last is answered. It reads no more of an answer than its
    status and length, because client and server share the processor."""

    def __init__(
        self, common: bytes, next_request: Callable[[int], LoadRequest], deadline: float, end: asyncio.Future[None]
    ) -> None:
        self._common, self._next_request, self._deadline, self._end = common, next_request, deadline, end
        self._received, self._sent = b"", 0.0
        self.latencies_ms: list[float] = []
        self.statuses: list[int] = []

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        end_of_head = self._received.find(b"\r\n\r\n")
        if end_of_head < 0:
            return
        head = self._received[:end_of_head].lower()
        length = _LENGTH.search(head)
        if length is None:
            self._end.set_exception(SystemExit(f"an answer has no length: {head[:500]!r}"))
            self._transport.abort()
        elif len(self._received) >= end_of_head + 4 + int(length[1]):
            self.latencies_ms.append((time.perf_counter() - self._sent) * 1000)
            self.statuses.append(int(head[9:12]))
            self._received = b""
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._end.done():
            self._end.set_exception(exc or ConnectionError("the server closed the connection"))

    def _send(self) -> None:
        self._sent = time.perf_counter()
        if self._sent >= self._deadline:
            self._end.set_result(None)
            self._transport.close()
            return
        request = self._next_request(len(self.statuses))
        line = f"{request.method} {request.path}".encode()
        self._transport.write(
            b"%b%bContent-Length: %d\r\n\r\n%b" % (line, self._common, len(request.body), request.body)
        )


_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)")
