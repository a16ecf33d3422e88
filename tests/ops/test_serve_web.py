"""The parent of the server processes outlives them, however often they die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from tests.support.kube_server import wait_for
from tests.support.services import ROOT
from tests.support.stack import find_free_port

APPLICATION = """
import os
from granian.constants import HTTPModes, Interfaces
from osmo_admin.web.serve_web import ApplicationLoader, WebServer

async def app(scope, proto):
    proto.response_str(200, [], str(os.getpid()))

if __name__ == "__main__":
    WebServer(
        "served:app", address="127.0.0.1", port={port}, workers=1, interface=Interfaces.RSGI, http=HTTPModes.http1,
        websockets=False,
    ).serve(target_loader=ApplicationLoader())
"""


def test_a_server_process_that_dies_again_and_again_is_started_again(tmp_path: Path) -> None:
    """Granian alone ends the whole server when one dies twice within 5.5 s."""
    port = find_free_port()
    (tmp_path / "served.py").write_text(APPLICATION.format(port=port))
    env = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    dead: set[int] = set()

    def living() -> int | None:
        try:
            pid = int(httpx.get(f"http://127.0.0.1:{port}/", timeout=2).text)
        except httpx.HTTPError:
            return None
        return None if pid in dead else pid

    with subprocess.Popen([sys.executable, "served.py"], cwd=tmp_path, env=env) as parent:
        try:
            for _ in range(2):
                pid = wait_for(living)
                dead.add(pid)
                os.kill(pid, signal.SIGKILL)
            assert wait_for(living)
            assert parent.poll() is None
        finally:
            parent.terminate()
