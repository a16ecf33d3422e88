"""A load of keep-alive HTTP clients, each sending its next request after the previous answer."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
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
    jwt: str,
    *,
    clients: int,
    seconds: float,
    next_request: Callable[[int, int], LoadRequest],
    trust: ssl.SSLContext | None = None,
) -> LoadResult:
    """Let `clients` send for `seconds`. `next_request(client, number)` makes each client's requests; with `trust` they
    speak TLS."""
    return asyncio.run(_run(base_url, jwt, clients, seconds, next_request, trust))


async def _run(
    base_url: str,
    jwt: str,
    clients: int,
    seconds: float,
    next_request: Callable[[int, int], LoadRequest],
    trust: ssl.SSLContext | None,
) -> LoadResult:
    parts = urlsplit(base_url)
    latencies: list[float] = []
    statuses: dict[int, int] = {}
    begin = time.perf_counter()
    deadline = begin + seconds

    async def client(index: int) -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=trust)
        number = 0
        while (sent := time.perf_counter()) < deadline:
            status = await _exchange(reader, writer, next_request(index, number), parts.netloc, jwt)
            latencies.append((time.perf_counter() - sent) * 1000)
            statuses[status] = statuses.get(status, 0) + 1
            number += 1
        writer.close()

    await asyncio.gather(*(client(index) for index in range(clients)))
    return LoadResult(time.perf_counter() - begin, tuple(latencies), statuses)


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: LoadRequest, host: str, jwt: str
) -> int:
    head = (
        f"{request.method} {request.path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {jwt}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(request.body)}\r\n\r\n"
    )
    writer.write(head.encode() + request.body)
    await writer.drain()
    raw = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    status = int(raw.split(" ", 2)[1])
    if "transfer-encoding: chunked" in raw:
        while size := int((await reader.readline()).strip() or b"0", 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    else:
        length = next(line for line in raw.split("\r\n") if line.startswith("content-length:"))
        await reader.readexactly(int(length.split(":")[1]))
    return status
