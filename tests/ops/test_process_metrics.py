"""The page of counters of a process without an address."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

from osmo_admin.ops import ports, process_commands
from tests.support.kube_server import wait_for
from tests.support.services import ROOT

PROGRAM = """
import os, sys, time
from osmo_admin.counter_page import serve_counters
from scheduling.kube import metrics
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
