"""Open event streams, and the time until a change is in each of them: `python -m bench streams`.

500 streams of one pool admin, then 500 of as many pool admins, each a connection of its own that comes back as a
browser does. A client makes a subpool over HTTP every two seconds. The time of a change is from its answer, which
follows its commit, to its event in the last of all streams; a negative time counts as 0.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import time
from typing import Any
from urllib.parse import urlsplit

from bench.installation import Installation

STREAMS = 500
CHANGES = 20
PAUSE_SECONDS = 2.0
PATIENCE_SECONDS = 20.0
TARGET_SECONDS = 2.0
POOL = "live"


def run(installation: Installation, *, seconds: int) -> dict[str, Any]:
    """For `one_user` and `many_users`: seconds until all streams are open, and until a change is in half of them and in
    the last one (the median and the worst of the changes)."""
    from pools.security.tokens import issue_jwt

    tokens = _make_readers()
    answer: dict[str, Any] = {"streams": STREAMS, "target_seconds": TARGET_SECONDS}
    for name, readers in (("one_user", tokens[:1] * STREAMS), ("many_users", tokens)):
        jwts = {token.pk: issue_jwt(token)[0] for token in readers}
        answer[name] = asyncio.run(_measure(installation, [jwts[token.pk] for token in readers], prefix=name[:3]))
    answer["within_target"] = all(answer[name]["last_worst"] <= TARGET_SECONDS for name in ("one_user", "many_users"))
    return answer


def _make_readers() -> list[Any]:
    from bench import fill
    from pools.domain.roles import SYSTEM
    from pools.services.access_tokens import create_token
    from pools.services.users import create_user

    fill.insert_pools(1, prefix=POOL, guarantee=100_000)
    role = f"osmo-{POOL}0-admin"
    tokens = []
    for number in range(STREAMS):
        create_user(actor=SYSTEM, username=f"live{number}", roles=[role])
        tokens.append(create_token(actor=SYSTEM, owner=f"live{number}", name="stream")[0])
    return tokens


async def _measure(installation: Installation, jwts: list[str], *, prefix: str) -> dict[str, Any]:
    parts = urlsplit(installation.base_url)
    assert parts.hostname is not None
    assert parts.port is not None
    watch = _Watch()
    begin = time.monotonic()
    streams = [_Stream(parts.hostname, parts.port, jwt, watch) for jwt in jwts]
    tasks = [asyncio.create_task(stream.follow()) for stream in streams]
    while not all(stream.is_open for stream in streams):
        await asyncio.sleep(0.05)
    opened = time.monotonic() - begin
    await asyncio.sleep(PAUSE_SECONDS)
    login = await asyncio.to_thread(installation.login)
    half, last = [], []
    for number in range(CHANGES):
        watch.expect(f"pool/{POOL}0--{prefix.replace('_', '')}{number}", len(streams))
        answered = await asyncio.to_thread(_make_subpool, installation.base_url, login, f"{prefix}{number}")
        await asyncio.wait_for(watch.all_have_it.wait(), PATIENCE_SECONDS)
        times = sorted(max(0.0, at - answered) for at in watch.times)
        half.append(times[len(times) // 2])
        last.append(times[-1])
        await asyncio.sleep(PAUSE_SECONDS)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "open_seconds": round(opened, 2),
        "half_median": round(statistics.median(half), 2),
        "last_median": round(statistics.median(last), 2),
        "last_worst": round(max(last), 2),
    }


def _make_subpool(base_url: str, jwt: str, name: str) -> float:
    """The time of the answer."""
    import json
    import urllib.request

    request = urllib.request.Request(
        f"{base_url}/api/configs/pool/{POOL}0/subpool",
        data=json.dumps({"subpool_name": name.replace("_", ""), "quota": 1}).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {jwt}"},
    )
    with urllib.request.urlopen(request, timeout=30):
        return time.monotonic()


class _Watch:
    """The streams that have the event for which all wait."""

    def __init__(self) -> None:
        self.all_have_it = asyncio.Event()
        self.times: list[float] = []
        self.event = b""
        self.number = 0

    def expect(self, subject: str, streams: int) -> None:
        self.number += 1
        self.event, self._left = f'"object": "{subject}"'.encode(), streams
        self.times, self.all_have_it = [], asyncio.Event()

    def note(self) -> None:
        self.times.append(time.monotonic())
        if len(self.times) == self._left:
            self.all_have_it.set()


class _Stream:
    """One client: it looks for the expected event, and comes back where it was when the server ends the stream."""

    def __init__(self, host: str, port: int, jwt: str, watch: _Watch) -> None:
        self.host, self.port, self.jwt, self.watch = host, port, jwt, watch
        self.is_open = False
        self.last, self.retry, self.seen = b"", 1.0, 0

    async def follow(self) -> None:
        while True:
            reader, writer = await asyncio.open_connection(self.host, self.port)
            last = b"Last-Event-ID: %b\r\n" % self.last if self.last else b""
            writer.write(
                b"GET /api/events HTTP/1.1\r\nHost: %b\r\nAuthorization: Bearer %b\r\n%b\r\n"
                % (f"{self.host}:{self.port}".encode(), self.jwt.encode(), last)
            )
            try:
                await self._read(reader)
            finally:
                writer.close()
            await asyncio.sleep(self.retry)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        text = b""
        while data := await reader.read(65_536):
            text += data
            if found := _RETRY.search(text):
                self.is_open, self.retry = True, int(found[1]) / 1000
            if self.watch.event and self.seen < self.watch.number and self.watch.event in text:
                self.seen = self.watch.number
                self.watch.note()
            if places := _PLACE.findall(text):
                self.last = places[-1]
            text = b"" if text.endswith(b"\n\n\r\n") else text[-20_000:]
            if data.endswith(b"0\r\n\r\n"):
                return


_RETRY = re.compile(rb"retry: ([0-9]+)\n")
_PLACE = re.compile(rb"(?:^|\n)id: ([0-9]+)\n")
