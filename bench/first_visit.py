"""The first visit on a slow line: the bytes over the wire, and the seconds to the first paint.

Chromium emulates 400 kbit/s with 400 ms of latency. The login page, the page after it and the lists that people open
most are measured in a browser that has loaded nothing before; `again` is the same page a second time. The targets are
120 kB and 3 s.
"""

from __future__ import annotations

from statistics import median
from typing import Any

from bench import fill
from bench.installation import ADMIN_PASSWORD, Installation

VISITS = 3
ROWS = 60
"""Pools and waiting workflows: more than one screen of each list."""
PAGES = {"login": "/login/", "home": "/", "workflows": "/workflows", "queue": "/queue", "pools": "/pools"}
LINE = {"offline": False, "latency": 400, "downloadThroughput": 400_000 / 8, "uploadThroughput": 400_000 / 8}
PAINT = """() => new Promise(done => new PerformanceObserver(entries =>
    entries.getEntriesByName('first-contentful-paint').forEach(entry => done(entry.startTime))
).observe({type: 'paint', buffered: true}))"""  # a fast page is loaded before its first frame is noted


def run(installation: Installation, *, seconds: int) -> dict[str, Any]:
    """`{PAGE: {"first": {"kilobytes", "paint_seconds", "requests"}, "again": …}}` of each of `PAGES`."""
    from tests.support.browser import launch_chromium

    names = fill.insert_pools(ROWS, prefix="visit", subpools=2)
    fill.insert_pending([fill.PendingWorkload(f"{name}--s1") for name in names])
    with launch_chromium() as browser:
        cookies = _log_in(browser, installation.base_url)
        return {
            name: _measure(browser, f"{installation.base_url}{path}", [] if name == "login" else cookies)
            for name, path in PAGES.items()
        }


def _log_in(browser: Any, base_url: str) -> list[Any]:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{base_url}/login/")
    page.fill("input[name=username]", "admin")
    page.fill("input[name=password]", ADMIN_PASSWORD)
    page.press("input[name=password]", "Enter")
    page.wait_for_url(f"{base_url}/")
    cookies: list[Any] = context.cookies()
    context.close()
    return cookies


def _measure(browser: Any, address: str, cookies: list[Any]) -> dict[str, Any]:
    first, again = [], []
    for _ in range(VISITS):
        context = browser.new_context()
        context.add_cookies(cookies)
        page = context.new_page()
        first.append(_visit(page, address))
        again.append(_visit(page, address))
        context.close()
    return {"first": _middle(first), "again": _middle(again)}


def _visit(page: Any, address: str) -> dict[str, float]:
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.emulateNetworkConditions", LINE)
    sizes: list[float] = []
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    page.goto(address, wait_until="load")
    page.evaluate("document.fonts.ready")
    paint = page.evaluate(PAINT)
    session.detach()
    return {"kilobytes": sum(sizes) / 1000, "paint_seconds": paint / 1000, "requests": len(sizes)}


def _middle(visits: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(median(visit[name] for visit in visits), 2) for name in visits[0]}
