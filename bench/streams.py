"""Open event streams, and the time until a change is in each of them: `python -m bench streams`.

500 streams of one pool admin, then 500 of as many pool admins, each a connection of its own that comes back as a
browser does. Meanwhile Chromium shows the page of the pool. A client makes a subpool over HTTP every two seconds. The
time of a change is from its answer, which follows its commit, to its event in the last of all streams, and to its row
in the page; a negative time counts as 0. The streams load no pages; 500 open pages that show the changed pool would
each fetch theirs again.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from bench.installation import ADMIN_PASSWORD, Installation
from pools.domain.changes.tokens import CreateToken
from pools.domain.changes.users import CreateUser

STREAMS = 500
CHANGES = 20
PAUSE_SECONDS = 2.0
PATIENCE_SECONDS = 60.0
TARGET_SECONDS = 2.0
POOL = "live"


def run(installation: Installation, *, seconds: int) -> dict[str, Any]:
    """For `one_user` and `many_users`: seconds until all streams are open, and until a change is in half of them, in
    the last one and in the page (the median and the worst of the changes); how many streams ended and came back in that
    time (`returns`), and how often one found no place (`crowded`)."""
    from pools.security.tokens import issue_jwt

    tokens = _make_readers()
    answer: dict[str, Any] = {"streams": STREAMS, "target_seconds": TARGET_SECONDS}
    for name, readers in (("one_user", tokens[:1] * STREAMS), ("many_users", tokens)):
        jwts = {token.pk: issue_jwt(token)[0] for token in readers}
        answer[name] = asyncio.run(_measure(installation, [jwts[token.pk] for token in readers], prefix=name[:3]))
    answer["within_target"] = all(
        answer[name][worst] <= TARGET_SECONDS
        for name in ("one_user", "many_users")
        for worst in ("last_worst", "page_worst")
    )
    return answer


def _make_readers() -> list[Any]:
    from bench import fill
    from pools.domain.people.roles import SYSTEM
    from pools.services.people.access_tokens import create_token
    from pools.services.people.users import create_user

    fill.insert_pools(1, prefix=POOL, guarantee=100_000)
    role = f"osmo-{POOL}0-admin"
    tokens = []
    for number in range(STREAMS):
        create_user(CreateUser(id=f"live{number}", roles=[role]), actor=SYSTEM)
        tokens.append(create_token(CreateToken(owner=f"live{number}", name="stream"), actor=SYSTEM)[0])
    return tokens


async def _measure(installation: Installation, jwts: list[str], *, prefix: str) -> dict[str, Any]:
    parts = urlsplit(installation.base_url)
    assert parts.hostname is not None
    assert parts.port is not None
    watch = _Watch()
    begin = time.monotonic()
    streams = [_Stream(parts.hostname, parts.port, jwt, watch) for jwt in jwts]
    tasks = [asyncio.create_task(stream.follow()) for stream in streams]
    try:
        while not all(stream.is_open for stream in streams):
            _raise_failures(tasks)
            await asyncio.sleep(0.05)
        opened = time.monotonic() - begin
        async with _open_page(installation.base_url) as page:
            await asyncio.sleep(PAUSE_SECONDS)
            times = await _time_changes(installation, watch, streams, tasks, page, prefix.replace("_", ""))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "open_seconds": round(opened, 2),
        "half_median": round(statistics.median(each.half for each in times), 2),
        "last_median": round(statistics.median(each.last for each in times), 2),
        "last_worst": round(max(each.last for each in times), 2),
        "page_median": round(statistics.median(each.page for each in times), 2),
        "page_worst": round(max(each.page for each in times), 2),
        "returns": sum(stream.requests - 1 for stream in streams),
        "crowded": sum(stream.crowded for stream in streams),
    }


class _Times(NamedTuple):
    """Seconds until one change was in half of the streams, in the last of them, and in the page."""

    half: float
    last: float
    page: float


async def _time_changes(
    installation: Installation,
    watch: _Watch,
    streams: list[_Stream],
    tasks: list[asyncio.Task[None]],
    page: Any,
    prefix: str,
) -> list[_Times]:
    login = await asyncio.to_thread(installation.login)
    found = []
    for number in range(CHANGES):
        name = f"{POOL}0--{prefix}{number}"
        watch.expect(f"pool/{name}", len(streams))
        shown = asyncio.create_task(_time_of_row(page, name))
        answered = await asyncio.to_thread(_make_subpool, installation.base_url, login, f"{prefix}{number}")
        try:
            await asyncio.wait_for(watch.all_have_it.wait(), PATIENCE_SECONDS)
        except TimeoutError:
            _raise_failures(tasks)
            missing = [f"{each.requests} requests, last {each.last!r}" for each in streams if each.seen < watch.number]
            raise SystemExit(f"{name} was not in {len(missing)} streams: {'; '.join(missing[:5])}") from None
        times = sorted(max(0.0, at - answered) for at in watch.times)
        found.append(_Times(times[len(times) // 2], times[-1], max(0.0, await shown - answered)))
        await asyncio.sleep(PAUSE_SECONDS)
    return found


def _raise_failures(tasks: list[asyncio.Task[None]]) -> None:
    """Raise the error of a stream that has ended for good."""
    for task in tasks:
        if task.done():
            task.result()


@asynccontextmanager
async def _open_page(base_url: str) -> AsyncIterator[Any]:
    """The page of the pool in Chromium, as a platform admin sees it; it follows its changes."""
    from playwright.async_api import async_playwright

    from tests.support.browser import QUIET
    from tests.support.optional_tools import find_chromium

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium(), args=[*QUIET, "--no-sandbox"])
        page = await browser.new_page()
        await page.goto(f"{base_url}/login/?next=/pools/{POOL}0")
        await page.fill("input[name=username]", "admin")
        await page.fill("input[name=password]", ADMIN_PASSWORD)
        await page.press("input[name=password]", "Enter")
        await page.wait_for_selector("html[data-live=on]", state="attached")
        yield page
        await browser.close()


async def _time_of_row(page: Any, name: str) -> float:
    """The time at which the page shows the row of a subpool."""
    await page.get_by_role("link", name=f"Delete {name}", exact=True).wait_for(timeout=PATIENCE_SECONDS * 1000)
    return time.monotonic()


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
        self.requests = self.crowded = 0

    async def follow(self) -> None:
        while True:
            reader, writer = await asyncio.open_connection(self.host, self.port)
            last = b"Last-Event-ID: %b\r\n" % self.last if self.last else b""
            self.requests += 1
            writer.write(  # the connection ends with the answer, so that its end is seen whatever its form is
                b"GET /api/events HTTP/1.1\r\nHost: %b\r\nAuthorization: Bearer %b\r\nConnection: close\r\n%b\r\n"
                % (f"{self.host}:{self.port}".encode(), self.jwt.encode(), last)
            )
            try:
                await self._read(reader)
            finally:
                writer.close()
            await asyncio.sleep(self.retry)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        text = b""
        status = await reader.readline()
        if b" 200 " not in status:
            raise SystemExit(f"a stream was refused: {status.decode().strip()}")
        while data := await reader.read(65_536):
            text += data
            if found := _RETRY.findall(text):
                self.is_open, self.retry = True, int(found[-1]) / 1000
            if self.watch.event and self.seen < self.watch.number and self.watch.event in text:
                self.seen = self.watch.number
                self.watch.note()
            if places := _PLACE.findall(text):
                self.last = places[-1]
            self.crowded += b"event: crowded\n" in data
            text = b"" if text.endswith(b"\n\n\r\n") else text[-20_000:]


_RETRY = re.compile(rb"retry: ([0-9]+)\n")
_PLACE = re.compile(rb"(?:^|\n)id: ([0-9]+)\n")
