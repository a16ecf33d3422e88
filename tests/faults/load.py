"""Clients that submit without a pause and repeat a request until it is answered."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

from tests.faults.installation import FaultyInstallation
from tests.support import world
from tests.support.stack import NO_TLS

PATIENCE = 40.0
PAUSE = 0.05


@dataclass
class ClientLoad:
    """The answers to the clients. `acknowledged` is Idempotency-Key → workflow, `seconds` the request durations."""

    name: str
    acknowledged: dict[str, str] = field(default_factory=dict)
    error_responses: list[httpx.Response] = field(default_factory=list)
    lost_connections: int = 0
    abandoned_keys: list[str] = field(default_factory=list)
    replayed: int = 0
    seconds: list[float] = field(default_factory=list)

    def wait_for_growth(self, installation: FaultyInstallation, *, by: int = 10, seconds: float = PATIENCE) -> None:
        """Wait until this number of further submissions is acknowledged."""
        goal = len(self.acknowledged) + by
        installation.wait_until(
            lambda: len(self.acknowledged) >= goal, seconds=seconds, what=f"{by} more submissions are accepted"
        )


@contextmanager
def run_load(installation: FaultyInstallation, pools: list[str], *, clients: int = 4) -> Iterator[ClientLoad]:
    """Clients submit inside; afterwards each has the answer to its last request."""
    found, enough = ClientLoad(installation.unique_name("load")), threading.Event()
    token = installation.client_for("admin").headers["Authorization"]
    threads = [
        threading.Thread(
            target=_submit_until_stopped, args=(installation.base_url, token, pools[number % len(pools)], found, enough)
        )
        for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        enough.set()
        for thread in threads:
            thread.join(PATIENCE + 5)
    assert found.abandoned_keys == []


def _submit_until_stopped(base_url: str, token: str, pool: str, found: ClientLoad, enough: threading.Event) -> None:
    with httpx.Client(base_url=base_url, headers={"Authorization": token}, timeout=15, verify=NO_TLS) as client:
        while not enough.is_set():
            key = uuid.uuid4().hex
            deadline = time.monotonic() + PATIENCE
            while (workflow := _submit_once(client, pool, key, found)) is None and time.monotonic() < deadline:
                time.sleep(PAUSE)
            if workflow is None:
                found.abandoned_keys.append(key)
            else:
                found.acknowledged[key] = workflow


def _submit_once(client: httpx.Client, pool: str, key: str, found: ClientLoad) -> str | None:
    began = time.monotonic()
    try:
        answer = client.post(
            f"/api/pool/{pool}/workflow",
            json={"file": world.workflow_file(found.name)},
            headers={"Idempotency-Key": key},
        )
    except httpx.TransportError:
        found.lost_connections += 1
        return None
    found.seconds.append(time.monotonic() - began)
    if answer.status_code != httpx.codes.OK:
        found.error_responses.append(answer)
        return None
    found.replayed += answer.headers.get("Idempotent-Replayed") == "true"
    return str(answer.json()["name"])
