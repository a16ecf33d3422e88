"""The page of counters of a process without an address."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from osmo_admin.ops.programs import ports, process_commands
from tests.support.kube_server import wait_for
from tests.support.services import ROOT
from tests.support.stack import Stack

PROGRAM = """
import os, sys, time
from osmo_admin.processes.counter_page import serve_counters
from scheduling.kube.connection import metrics
if os.fork() == 0:  # a child process, as those of the worker that run tasks
    metrics.count_lease("agent", "claimed")
    os._exit(0)
os.wait()
metrics.count_lease("agent", "claimed")
print(serve_counters(int(sys.argv[1])), flush=True)
time.sleep(60)
"""


def read(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def test_the_counters_of_a_process_and_its_children_are_on_one_page(tmp_path: Path) -> None:
    port = ports.choose_port("127.0.0.1", None)
    env = {**os.environ, "PYTHONPATH": str(ROOT), process_commands.METRICS_DIR: str(tmp_path)}
    child = subprocess.Popen([sys.executable, "-c", PROGRAM, str(port)], env=env)
    try:
        page = wait_for(lambda: read(port), description="the page answers")
    finally:
        child.kill()
        child.wait()
    assert 'osmo_cluster_lease_transitions_total{event="claimed",loop="agent"} 2.0' in page
    assert "osmo_leaf" not in page, "what the database has is on the page of web"


def test_a_port_that_is_taken_stops_nothing_and_without_a_port_there_is_no_page(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), process_commands.METRICS_DIR: str(tmp_path)}
    program = PROGRAM.replace("time.sleep(60)", "")
    with socket.create_server(("0.0.0.0", 0)) as taken:
        for port in (taken.getsockname()[1], 0):
            done = subprocess.run(
                [sys.executable, "-c", program, str(port)], env=env, capture_output=True, text=True, check=True
            )
            assert done.stdout.splitlines()[-1] == "None"


@pytest.mark.parametrize("process", ["worker", "clusters"])
def test_a_served_process_answers_at_its_port(stack: Stack, process: str, tmp_path: Path) -> None:
    port = ports.choose_port("127.0.0.1", None)
    broker = re.sub(r"\d+$", "15", stack.env["REDIS_URL"])  # its own: it is killed, with what it has taken
    env = {**os.environ, **stack.env, process_commands.METRICS_PORT: str(port), "TMPDIR": str(tmp_path)}
    env |= {"REDIS_URL": broker}
    env.pop(process_commands.METRICS_DIR, None)
    command = [sys.executable, "-m", "osmo_admin.cli.server", "serve", process]
    log = (tmp_path / "log").open("wb")
    child = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)

    def status() -> int:
        assert child.poll() is None, (tmp_path / "log").read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                return int(answer.status)
        except OSError:
            return 0

    try:
        assert wait_for(status, seconds=90, description="the page answers") == 200
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        log.close()
