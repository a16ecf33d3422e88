"""`osmo-admin probe` finds a background process that hangs, and none that waits for a database or broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from osmo_admin.ops.files import life_files
from osmo_admin.ops.programs import process_commands
from tests.faults.installation import FaultyInstallation
from tests.support.hangable import RENEW_SECONDS, STUCK_SECONDS
from tests.support.services import ROOT

pytestmark = pytest.mark.fault

COMMANDS = {
    process_commands.WORKER: process_commands.worker_command(processes=1),
    process_commands.BEAT: process_commands.beat_command(),
    process_commands.CLUSTERS: process_commands.clusters_command(),
}


@pytest.fixture(scope="module")
def started(worker_installation: FaultyInstallation) -> Iterator[dict[str, int]]:
    """The processes that have short limits and can be made to hang, as the tests of this module start them."""
    pids: dict[str, int] = {}
    yield pids
    for name in COMMANDS:
        worker_installation.kill_process(name)
    worker_installation.restart_dead()


@pytest.fixture
def hangable(installation: FaultyInstallation, started: dict[str, int]) -> Iterator[FaultyInstallation]:
    """The installation with these processes; a test that has killed one gets a new one."""
    for name, command in COMMANDS.items():
        if installation.children[name].pid == started.get(name):
            continue
        installation.kill_process(name)
        installation.end_leases(name)
        python, option, *module = command
        installation.children[name] = installation.launch(name, [python, option, "tests.support.hangable", *module])
        started[name] = installation.children[name].pid
    # The heartbeats in the broker may be those of the killed processes.
    installation.wait_until(lambda: all(files_of(installation, name) for name in COMMANDS), what="all processes live")
    installation.wait_ready()
    yield installation
    installation.servers.start_missing()


def probe(installation: FaultyInstallation, name: str) -> subprocess.CompletedProcess[str]:
    """The command as a probe of Kubernetes runs it."""
    return subprocess.run(
        [sys.executable, "-m", "osmo_admin.cli.server", "probe", name],
        capture_output=True, text=True, check=False, env=installation.env, cwd=ROOT,
    )  # fmt: skip


def let_time_pass(installation: FaultyInstallation) -> None:
    """The signs of life so far are two minutes old; a process that lives renews its own."""
    for file in signs(installation):
        os.utime(file, (time.time() - 120, time.time() - 120))


def wait_for_signs(installation: FaultyInstallation, *, seconds: float) -> None:
    """Each process shows that it lives."""
    installation.wait_until(lambda: all(map(is_fresh, signs(installation))), seconds=seconds, what="all renew")


def files_of(installation: FaultyInstallation, name: str) -> list[Path]:
    """The files by which the present processes of this kind show that they live."""
    folder = life_files._folder(installation.folder)
    return list(folder.glob(f"{name}-{installation.children[name].pid}"))


def signs(installation: FaultyInstallation) -> list[Path]:
    """The files of all these processes."""
    return [file for name in COMMANDS for file in files_of(installation, name)]


def is_fresh(file: Path) -> bool:
    """Whether the process has renewed it since the time that passed."""
    return time.time() - file.stat().st_mtime < 60


def test_a_process_that_hangs_is_found(hangable: FaultyInstallation) -> None:
    """What a file of a dead process says: tests/ops/test_life_files.py."""
    let_time_pass(hangable)
    wait_for_signs(hangable, seconds=STUCK_SECONDS + 8)
    for name, child in hangable.children.items():
        if name in COMMANDS:
            answer = probe(hangable, name)
            assert (answer.returncode, answer.stderr) == (0, ""), name
            assert f"{name} (process {child.pid}) lives" in answer.stdout
            os.kill(child.pid, signal.SIGUSR2)
    last = signs(hangable)
    hangable.wait_until(
        lambda: min(time.time() - file.stat().st_mtime for file in last) > RENEW_SECONDS * 6, what="no signs of life"
    )
    let_time_pass(hangable)
    time.sleep(RENEW_SECONDS * 3)
    for name in COMMANDS:
        answer = probe(hangable, name)
        assert (answer.returncode, answer.stdout) == (1, ""), name
        assert f"{name} (process {hangable.children[name].pid}) hangs: no sign of life for 12" in answer.stderr
        hangable.kill_process(name)


@pytest.mark.parametrize(
    ("how", "lost"),
    [
        pytest.param("dead", "database", id="dead-database", marks=pytest.mark.nightly),
        pytest.param("dead", "broker", id="dead-broker"),
        pytest.param("silent", "database", id="silent-database"),
        pytest.param("silent", "broker", id="silent-broker", marks=pytest.mark.nightly),
    ],
)
def test_a_lost_server_is_no_hang(hangable: FaultyInstallation, lost: str, how: str) -> None:
    pids = hangable.process_ids()
    if how == "dead":
        if lost == "database":
            hangable.servers.stop_database(signal.SIGQUIT)
        else:
            hangable.servers.stop_broker(signal.SIGKILL)
    else:
        os.killpg(hangable.servers._running[lost].child.pid, signal.SIGSTOP)
    try:
        time.sleep(STUCK_SECONDS + 3)  # the last rounds are too old by now, so each process asks the servers
        let_time_pass(hangable)
        # A connection that is not answered is given up after 5 s; then the process renews its sign.
        wait_for_signs(hangable, seconds=STUCK_SECONDS + 12)
        assert {name: probe(hangable, name).returncode for name in COMMANDS} == dict.fromkeys(COMMANDS, 0)
    finally:
        if how == "silent":
            for server in hangable.servers._running.values():
                os.killpg(server.child.pid, signal.SIGCONT)
        hangable.servers.start_missing()
    hangable.wait_ready()
    assert hangable.process_ids() == pids
