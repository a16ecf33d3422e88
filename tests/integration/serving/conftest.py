"""A web server of the running installation with short limits, next to the one with the usual limits."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from osmo_admin.ops.programs import process_commands
from osmo_admin.ops.programs.processes import start_child, stop_children
from tests.support.services import ROOT
from tests.support.stack import Stack, find_free_port

BODY_SECONDS = 0.5


@pytest.fixture(scope="module")
def strict_port(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a web server that waits half a second for a body of at most one MiB."""
    port = find_free_port()
    child = start_child(
        process_commands.WEB,
        process_commands.web_command("127.0.0.1", port, workers=1),
        log=tmp_path_factory.mktemp("strict") / "web.log",
        env={**stack.env, "OSMO_BODY_TIMEOUT": str(BODY_SECONDS), "OSMO_BODY_LIMIT_MB": "1"},
        cwd=ROOT,
    )

    def answers() -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    try:
        stack.wait_until(answers, seconds=60, what=f"an answer; {child.log_tail()}")
        yield port
    finally:
        stop_children([child], grace=5)
