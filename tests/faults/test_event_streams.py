"""Clients of event streams come back after a crash with the last event they had, and miss no change."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import pytest

from osmo_admin.ops.programs import process_commands
from tests.faults.installation import FaultyInstallation
from tests.support.stack import NO_TLS

pytestmark = pytest.mark.fault

WATCHERS = 4
PAUSE = 0.1
PATIENCE = 60.0


@dataclass
class Watcher:
    """A client that follows the stream as a browser does. `seen` are the objects of its events, in their order."""

    seen: list[str] = field(default_factory=list)
    last: str = ""
    ends: int = 0

    def follow(self, base_url: str, bearer: str, may_return: threading.Event, enough: threading.Event) -> None:
        """Read until it is enough; come back after each end and each error, when it may."""
        with httpx.Client(base_url=base_url, headers={"Authorization": bearer}, timeout=10, verify=NO_TLS) as client:
            while not enough.is_set():
                try:
                    headers = {"Last-Event-ID": self.last} if self.last else {}
                    with client.stream("GET", "/api/events", headers=headers) as answer:
                        self._read(answer, enough)
                except httpx.TransportError:
                    pass
                self.ends += 1
                time.sleep(PAUSE)
                may_return.wait(PATIENCE)

    def _read(self, answer: httpx.Response, enough: threading.Event) -> None:
        position = ""
        for line in answer.iter_lines():
            if enough.is_set():
                return
            if line.startswith("id: "):
                position = line.removeprefix("id: ")
            elif line.startswith("data: ") and "object" in (event := json.loads(line.removeprefix("data: "))):
                self.seen.append(event["object"])
            elif not line and position:  # an event without its end does not count
                self.last = position


@contextmanager
def watch(installation: FaultyInstallation, may_return: threading.Event) -> Iterator[list[Watcher]]:
    """Watchers whose streams are open."""
    watchers, enough = [Watcher() for _ in range(WATCHERS)], threading.Event()
    bearer = installation.client_for("admin").headers["Authorization"]
    threads = [
        threading.Thread(target=watcher.follow, args=(installation.base_url, bearer, may_return, enough))
        for watcher in watchers
    ]
    for thread in threads:
        thread.start()
    try:
        installation.wait_until(lambda: all(each.last for each in watchers), what="all streams are open")
        yield watchers
    finally:
        enough.set()
        may_return.set()
        for thread in threads:
            thread.join(30)


def make_user(installation: FaultyInstallation, name: str) -> str:
    """Make a user, however often that must be tried; the object of its events."""

    def is_made() -> bool:
        try:
            answer = installation.admin_client.post("/api/auth/user", json={"id": name})
        except httpx.TransportError:
            return False
        return answer.status_code in (200, 409)  # 409: it was made, and the answer was lost

    installation.wait_until(is_made, what=f"user {name} is made")
    return f"user/{name}"


def kill_web(installation: FaultyInstallation) -> None:
    installation.kill_children_of(process_commands.WEB)


def crash_database(installation: FaultyInstallation) -> None:
    installation.servers.stop_database(signal.SIGQUIT)


@pytest.mark.parametrize("fault", [kill_web, crash_database])
def test_no_change_is_missed(installation: FaultyInstallation, fault: Callable[[FaultyInstallation], None]) -> None:
    may_return = threading.Event()
    with watch(installation, may_return) as watchers:
        made = [make_user(installation, installation.unique_name("watched")) for _ in range(2)]
        ends = [watcher.ends for watcher in watchers]
        fault(installation)
        installation.wait_until(
            lambda: all(watcher.ends > end for watcher, end in zip(watchers, ends, strict=True)),
            what="all streams have ended",
        )
        installation.servers.start_missing()
        made += [make_user(installation, installation.unique_name("watched")) for _ in range(2)]
        may_return.set()
        made += [make_user(installation, installation.unique_name("watched")) for _ in range(2)]
        installation.wait_until(
            lambda: all(set(made) <= set(watcher.seen) for watcher in watchers), seconds=60, what="all have all changes"
        )
    for watcher in watchers:
        first_times = list(dict.fromkeys(each for each in watcher.seen if each in made))
        assert first_times == made, "in the order of the changes"
