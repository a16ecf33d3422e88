"""The broker goes away while the worker holds a message: worker and beat connect again, without a supervisor."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from osmo_admin.celery import app
from osmo_admin.ops.programs import process_commands
from tests.faults.installation import FaultyInstallation

pytestmark = pytest.mark.fault


@pytest.fixture(scope="module")
def two_workers(worker_installation: FaultyInstallation) -> Iterator[None]:
    """The worker has two processes as in production, so it takes more messages while it holds one."""
    installation, name = worker_installation, process_commands.WORKER
    installation.kill_process(name)
    installation.children[name] = installation.launch(name, process_commands.worker_command())
    yield
    installation.kill_process(name)
    installation.start_process(name)


@pytest.fixture
def installation(two_workers: None, installation: FaultyInstallation) -> FaultyInstallation:
    """The installation with this worker, ready to take messages."""
    workers = process_commands.WORKER
    installation.wait_until(lambda: len(installation.child_pids_of(workers)) == 2, what="the worker has two processes")
    installation.wait_until(lambda: _is_consuming(installation), what="the worker consumes")
    return installation


@contextmanager
def hold_messages(installation: FaultyInstallation, count: int = 1) -> Iterator[None]:
    """So many messages are delivered and not finished, because the processes that do the work are suspended."""
    workers = installation.child_pids_of(process_commands.WORKER)
    assert len(workers) == 2
    with installation.suspend_process(process_commands.BEAT), installation.broker_client() as broker:
        installation.wait_until(lambda: broker.llen("celery") == 0, what="the worker has nothing to do")
        installation.wait_until(lambda: _rest(workers), what="the worker has finished what it took")
        broker.flushall()
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        address = installation.env["REDIS_URL"].replace("unix://", "redis+socket://").replace("?db=", "?virtual_host=")
        with app.connection_for_write(address) as connection:
            for _ in range(count):
                app.send_task("scheduling.settle_all", connection=connection)
        installation.wait_until(lambda: broker.hlen("unacked") == count, what="the messages are held")
    try:
        yield
    finally:
        for pid in workers:
            os.kill(pid, signal.SIGCONT)


def _rest(pids: list[int]) -> bool:
    """Whether these processes use no processor for a second."""
    before = [_ticks(pid) for pid in pids]
    time.sleep(1)
    return before == [_ticks(pid) for pid in pids]


def _ticks(pid: int) -> list[str]:
    """The processor time of a process so far: its own, and that of the kernel for it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]


def assert_recovered(installation: FaultyInstallation, pool: str, pids: dict[str, int]) -> None:
    """The same processes work: notifications start work, beat sends, and nothing is inconsistent."""
    installation.wait_ready()
    assert installation.process_ids() == pids
    installation.check_notifications(pool)
    installation.assert_consistent()
    assert installation.process_ids() == pids


@pytest.mark.parametrize(
    ("how", "first"),
    [
        pytest.param(signal.SIGTERM, "normal", id="SIGTERM-normal"),
        pytest.param(signal.SIGTERM, "pubsub", id="SIGTERM-pubsub", marks=pytest.mark.nightly),
        pytest.param(signal.SIGKILL, "normal", id="SIGKILL-normal", marks=pytest.mark.nightly),
        pytest.param(signal.SIGKILL, "pubsub", id="SIGKILL-pubsub"),
    ],
)
def test_a_restart_of_the_broker(installation: FaultyInstallation, how: signal.Signals, first: str) -> None:
    """`first`: which connection of the worker ends first, the one that waits for messages or the one for commands of
    Celery."""
    pids, pool = installation.process_ids(), installation.make_pools(1)[0]
    worker = installation.children[process_commands.WORKER].pid
    for _ in range(2):
        with hold_messages(installation):
            failed = _failed_attempts(installation)
            os.kill(worker, signal.SIGSTOP)
            with installation.broker_client() as broker:
                broker.execute_command("CLIENT", "KILL", "TYPE", first, "SKIPME", "yes")
            installation.servers.stop_broker(how)
            os.kill(worker, signal.SIGCONT)
            # The worker reports each attempt to connect, or it waits in the sending of its heartbeat, which repeats its
            # attempts without a line in the log. Both must end when the broker is back.
            noticed = time.monotonic() + 10
            while _failed_attempts(installation) == failed and time.monotonic() < noticed:
                time.sleep(0.1)
            installation.servers.start_broker()
            installation.wait_until(lambda: _is_consuming(installation), what="the worker consumes again")
        assert_recovered(installation, pool, pids)


@pytest.mark.parametrize("trouble", ["connections are cut", "it is a replica", "its memory is full", "its password"])
def test_a_broker_that_refuses(installation: FaultyInstallation, trouble: str) -> None:
    """A server that answers with an error: during a failover, with a full memory, while its password is changed."""
    pids, pool = installation.process_ids(), installation.make_pools(1)[0]
    commands = {
        "connections are cut": ([], []),
        "it is a replica": ([["REPLICAOF", "127.0.0.1", "1"]], [["REPLICAOF", "NO", "ONE"]]),
        "its memory is full": ([["CONFIG", "SET", "maxmemory", "1"]], [["CONFIG", "SET", "maxmemory", "0"]]),
        "its password": ([["CONFIG", "SET", "requirepass", "x"]], [["CONFIG", "SET", "requirepass", ""]]),
    }
    begin, end = commands[trouble]
    with installation.broker_client() as broker:
        with hold_messages(installation):
            for command in begin:
                broker.execute_command(*command)
            broker.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        if begin:
            installation.wait_until(lambda: not _is_ready(installation), seconds=45, what="it is noticed")
        for command in end:
            broker.execute_command(*command)
        assert_recovered(installation, pool, pids)


def test_refused_acknowledgements_take_no_place(installation: FaultyInstallation) -> None:
    """All the messages that the worker may hold are finished, and not one of them can be acknowledged. See also
    tests/integration/test_acknowledgements.py."""
    pids, pool = installation.process_ids(), installation.make_pools(1)[0]
    with installation.broker_client() as broker:
        with hold_messages(installation, process_commands.WORKER_PROCESSES):
            broker.config_set("requirepass", "x")
            broker.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        installation.wait_until(lambda: not _is_ready(installation), seconds=45, what="it is noticed")
        broker.config_set("requirepass", "")
    assert_recovered(installation, pool, pids)


def test_errors_of_the_server_are_retried_too() -> None:
    assert app.conf.broker_channel_error_retry


def _failed_attempts(installation: FaultyInstallation) -> int:
    return (installation.folder / "worker.log").read_text().count("Cannot connect to")


def _is_consuming(installation: FaultyInstallation) -> bool:
    """A client of the broker waits for messages."""
    with installation.broker_client() as broker:
        return any(client["cmd"] == "brpop" for client in broker.client_list())


def _is_ready(installation: FaultyInstallation) -> bool:
    return installation.admin_client.get("/ready").status_code == 200
