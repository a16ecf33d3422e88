"""What only real processes can show: streams that arrive while others are served, the beat that follows a change, the
docs page in a browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.browser import Tab
from tests.support.stack import Stack

pytestmark = pytest.mark.acceptance


def _events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    return (json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: "))


def _stream(client: httpx.Client, **headers: str) -> Any:
    return client.stream("GET", "/api/events", headers=headers, timeout=httpx.Timeout(40))


class TestEvents:
    def test_they_come_while_they_happen_and_others_are_served_meanwhile(self, stack: Stack) -> None:
        watcher, admin, name = stack.admin_client, stack.admin_client, stack.unique_name("user")
        last = admin.get("/api/audit", params={"limit": 1}).json()["entries"][0]["id"]
        for number in range(4):  # a stream ends before another test's long transaction may; a client comes back
            with _stream(watcher, **{"Last-Event-ID": str(last)}) as response:
                lines = response.iter_lines()
                assert next(lines).startswith("retry: ")
                if number == 0:
                    assert admin.post("/api/auth/user", json={"id": name}).status_code == 200
                event = next((each for each in _events(lines) if each["object"] == f"user/{name}"), None)
                if event is not None:
                    assert event["sentence"] == f"admin created user {name}"
                    assert [admin.get("/api/version").status_code for _ in range(20)] == [200] * 20
                    return
        pytest.fail(f"{name} did not come")

    def test_many_watchers_starve_nobody(self, stack: Stack) -> None:
        watchers = [stack.admin_client for _ in range(4)]
        admin, name = stack.admin_client, stack.unique_name("user")
        streams = [_stream(watcher) for watcher in watchers]
        responses = [stream.__enter__() for stream in streams]
        try:
            assert {response.status_code for response in responses} == {200}
            assert admin.post("/api/auth/user", json={"id": name}).status_code == 200
        finally:
            for stream in streams:
                stream.__exit__(None, None, None)

    def test_a_watcher_who_comes_back_missed_nothing(self, stack: Stack) -> None:
        watcher, admin = stack.admin_client, stack.admin_client
        last = admin.get("/api/audit", params={"limit": 1}).json()["entries"][0]["id"]
        name = stack.unique_name("user")
        admin.post("/api/auth/user", json={"id": name})
        for _ in range(4):  # a stream ends before another test's long transaction may; a client comes back
            with _stream(watcher, **{"Last-Event-ID": str(last)}) as response:
                if any(event["object"] == f"user/{name}" for event in _events(response.iter_lines())):
                    return
        pytest.fail(f"{name} did not come")


@pytest.mark.nightly
def test_the_beat_follows_a_new_interval_without_a_restart(stack: Stack) -> None:
    """A subpool that no event will ever archive waits for the monitor, whose fifteen minutes have just begun."""
    pool = stack.unique_name("team")
    configs = {"backend": "simulated", "resources": {"gpu": {"guarantee": 10, "maximum": -1, "weight": 1}}}
    assert stack.admin_client.put(f"/api/configs/pool/{pool}", json={"configs": configs}).status_code == 200
    body = {"subpool_name": "a", "quota": 1}
    assert stack.admin_client.post(f"/api/configs/pool/{pool}/subpool", json=body).status_code == 200
    stack.query("UPDATE pools_pool SET subpool_state = 'DELETING' WHERE name = %s RETURNING id", f"{pool}--a")
    answer = stack.admin_client.patch("/api/configs/workflow", json={"subpool_drain_interval_minutes": 1})
    assert answer.status_code == 200

    def archived() -> bool:
        rows = stack.query("SELECT subpool_state FROM pools_pool WHERE name = %s", f"{pool}--a")
        return bool(rows[0]["subpool_state"] == "ARCHIVED")

    try:
        stack.wait_until(archived, seconds=90, what="the monitor's pass")
    finally:
        stack.admin_client.patch("/api/configs/workflow", json={"subpool_drain_interval_minutes": 15})


@pytest.mark.browser
def test_the_docs_page_lists_the_operations_under_its_policy(tab: Tab, stack: Stack) -> None:
    """The tab fails on a console error (a refused script is one) and on a request to another host."""
    tab.page.goto(f"{stack.base_url}/api/docs/try")
    assert "OSMO Admin" in (tab.page.locator(".info .title").text_content(timeout=30_000) or "")
    seen: set[str] = set()
    for _ in range(200):  # the page holds only the operations around those that one scrolls to
        seen |= set(tab.page.locator(".opblock-summary-path").all_inner_texts())
        if len(seen) > 70:
            break
        tab.page.mouse.wheel(0, 700)
        tab.page.wait_for_timeout(50)
    assert len(seen) > 70
