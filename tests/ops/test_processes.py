"""Children end on request, by force, with their own children, and after the death of their parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from osmo_admin.ops.files import orphans
from osmo_admin.ops.files.data_directory import DataDirectory
from osmo_admin.ops.programs.processes import (
    ChildProcess,
    process_start_time,
    read_tail,
    start_child,
    stop_children,
)
from tests.support.children import popen_of
from tests.support.services import ROOT
from tests.support.up import is_running

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
IGNORES_SIGTERM = [
    sys.executable, "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)",
]  # fmt: skip
PARENT = [
    sys.executable, "-c",
    ("import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
    "print(p.pid, flush=True); time.sleep(60)"),
]  # fmt: skip


def wait_for_output(child: ChildProcess) -> str:
    """Wait for the first output and return it."""
    deadline = time.monotonic() + 10
    while not (text := child.log.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return text.strip()


def has_ended(pid: int) -> bool:
    """True if the process ends within a few seconds."""
    deadline = time.monotonic() + 5
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_running(pid)


def test_all_are_asked_at_once_and_the_remaining_are_killed(tmp_path: Path) -> None:
    polite = start_child("polite", SLEEP, log=tmp_path / "polite.log")
    deaf = start_child("deaf", IGNORES_SIGTERM, log=tmp_path / "deaf.log")
    assert wait_for_output(deaf) == "deaf"
    assert stop_children([polite, deaf], grace=0.5) == ["deaf"]
    assert (polite.exit_code(), deaf.exit_code()) == (-signal.SIGTERM, -signal.SIGKILL)


def test_workers_of_a_dead_leader_are_ended_too(tmp_path: Path) -> None:
    leader = start_child("leader", PARENT, log=tmp_path / "leader.log")
    worker = int(wait_for_output(leader))
    os.kill(leader.pid, signal.SIGKILL)
    popen_of(leader).wait(60)
    assert is_running(worker)
    stop_children([leader], grace=1)
    assert has_ended(worker)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals children of a dead parent")
def test_a_child_does_not_outlive_a_killed_supervisor(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from osmo_admin.ops.programs.processes import start_child;"
        f"print(start_child('sleep', {SLEEP!r}, log=Path({str(tmp_path / 'log')!r})).pid, flush=True); time.sleep(60)"
    )
    supervisor = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    with supervisor:
        assert supervisor.stdout is not None
        child = int(supervisor.stdout.readline())
        assert is_running(child)
        supervisor.kill()
    assert has_ended(child)


def test_children_of_a_killed_supervisor_are_ended_at_the_next_start(tmp_path: Path) -> None:
    data = DataDirectory.open(tmp_path / "data")
    data.prepare()
    left = start_child("left", SLEEP, log=data.logs / "left.log")
    sockets = tmp_path / "sockets"
    sockets.mkdir()
    orphans.record_children(data, [left], sockets)
    assert orphans.end_orphans(data) == ["left"]
    popen_of(left).wait(60)
    assert not data.children.exists()
    assert not sockets.exists()


def test_another_process_with_a_recycled_id_is_left_alone(tmp_path: Path) -> None:
    data = DataDirectory.open(tmp_path / "data")
    data.prepare()
    stranger = start_child("stranger", SLEEP, log=data.logs / "stranger.log")
    entry = {"name": "web", "pid": stranger.pid, "started": "long ago", "signal": int(signal.SIGTERM)}
    data.children.write_text(json.dumps({"children": [entry], "socket_dir": None}))
    assert orphans.end_orphans(data) == []
    assert stranger.exit_code() is None
    stop_children([stranger], grace=2)


@pytest.mark.skipif(sys.platform != "linux", reason="the environment of other processes is read from /proc")
def test_workers_without_leader_are_found_by_their_installation(tmp_path: Path) -> None:
    data = DataDirectory.open(tmp_path / "data")
    data.prepare()
    leader = start_child(
        "web", PARENT, log=data.logs / "web.log", env={**os.environ, orphans.INSTALLATION_VARIABLE: str(data.root)}
    )
    worker = int(wait_for_output(leader))
    orphans.record_children(data, [leader], None)
    os.kill(leader.pid, signal.SIGKILL)
    popen_of(leader).wait(60)
    orphans.end_orphans(data)
    assert has_ended(worker)


def test_a_missing_process_has_no_start_time() -> None:
    assert process_start_time(os.getpid()) != ""
    assert process_start_time(2**22 + 1) == ""


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert read_tail(path) == ""
    path.write_text("".join(f"{number}\n" for number in range(100)))
    assert read_tail(path, 2) == "98\n99"


def test_work_in_a_fork_leaves_its_modules_there_and_its_error_here(tmp_path: Path) -> None:
    """In a process of one thread, as the supervisor is; this one may have more."""
    program = (
        "import os, sys\nfrom osmo_admin.ops.programs.errors import OperationError\n"
        "from osmo_admin.ops.programs.processes import run_in_fork\n"
        "def work():\n    import wave; open(sys.argv[1], 'w').write('done')\n"
        "run_in_fork(work); print('wave' in sys.modules)\n"
        "try:\n    run_in_fork(lambda: {}['no such key'])\nexcept OperationError as problem:\n    print(problem)\n"
        "try:\n    run_in_fork(lambda: os._exit(7))\nexcept OperationError as problem:\n    print(problem)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "result")]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert (tmp_path / "result").read_text() == "done"
    assert answer.stdout.splitlines() == ["False", "KeyError: 'no such key'", "A helper process ended with code 7."]


def test_the_supervisor_loads_no_database_driver() -> None:
    program = "import sys, osmo_admin.ops.supervisor, osmo_admin.cli.server; print('psycopg' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert answer.stdout == "False\n"
