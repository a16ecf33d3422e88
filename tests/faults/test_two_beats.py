"""Of several beats one sends, the others stand by, and one of them takes over; nothing is sent twice."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from osmo_admin.celery import app
from osmo_admin.ops.programs import process_commands
from osmo_admin.ops.programs.processes import ChildProcess, start_child
from osmo_admin.processes.beat import LEASE_TIMING, Scheduler
from scheduling.models import BeatLease
from scheduling.services.kubernetes import leases
from tests.faults.installation import FaultyInstallation
from tests.support.children import popen_of
from tests.support.hangable import LEASE_SECONDS
from tests.support.services import ROOT, Services

pytestmark = pytest.mark.fault
JOB = "scheduling.settle_all"  # each second in these installations
TAKEOVERS = 3


@pytest.fixture
def start(installation: FaultyInstallation) -> Iterator[Callable[[str], ChildProcess]]:
    """Starts a beat with a short lease; that of the installation rests meanwhile. The third is a process of its own, as
    in production, and no fork of one that has loaded the product."""
    started: list[ChildProcess] = []
    python, option, *module = process_commands.beat_command()

    def begin(name: str) -> ChildProcess:
        command = [python, option, "tests.support.hangable", *module]
        if name == "third":
            log = installation.folder / f"{name}.log"
            started.append(start_child(name, command, log=log, env=installation.env, cwd=ROOT))
        else:
            started.append(installation.launch(name, command))
        return started[-1]

    installation.kill_process(process_commands.BEAT)
    installation.end_leases(process_commands.BEAT)
    yield begin
    for child in started:
        child.kill_group()
        popen_of(child).wait(20)


def runs(installation: FaultyInstallation) -> int:
    """How often the job was sent, by its row."""
    (row,) = installation.query(
        "SELECT total_run_count FROM django_celery_beat_periodictask WHERE task = %s AND enabled", JOB
    )
    return int(row["total_run_count"])


def sent(installation: FaultyInstallation) -> int:
    """How many messages of the job wait in the queue, of which nobody takes any."""
    with installation.broker_client() as broker:
        messages = [json.loads(each) for each in broker.lrange("celery", 0, -1)]
    return sum(message["headers"]["task"] == JOB for message in messages)


def is_working(beat: ChildProcess) -> bool | None:
    """Whether it sends or stands by, as it said last; None before."""
    said = [line for line in beat.log_tail(1000).splitlines() if "beat_works" in line or "beat_stands_by" in line]
    return "beat_works" in said[-1] if said else None


def test_one_sends_and_another_takes_over(
    installation: FaultyInstallation, start: Callable[[str], ChildProcess]
) -> None:
    """One is frozen and goes on, one ends in order, one is killed."""

    def wait_for_runs(count: int) -> None:
        enough = runs(installation) + count
        installation.wait_until(lambda: runs(installation) >= enough, seconds=LEASE_SECONDS + 16, what="one sends")

    first = start("first")
    installation.wait_until(lambda: is_working(first), what="the first works")
    second = start("second")
    installation.wait_until(lambda: is_working(second) is False, what="the second stands by")
    with installation.suspend_process(process_commands.WORKER), installation.broker_client() as broker:
        time.sleep(0.5)
        broker.delete("celery")
        before, began = runs(installation), time.monotonic()

        def check_sent(takeovers: int) -> None:
            total, seconds = runs(installation) - before, time.monotonic() - began
            assert abs(sent(installation) - total) <= 1  # one may be sent between the two questions
            assert total <= seconds + 1 + takeovers

        wait_for_runs(3)
        check_sent(0)

        os.killpg(first.pid, signal.SIGSTOP)
        wait_for_runs(2)
        os.killpg(first.pid, signal.SIGCONT)
        third = start("third")
        installation.wait_until(lambda: is_working(third) is False, what="the third stands by")
        check_sent(1)
        assert is_working(second)

        second.popen.send_signal(signal.SIGTERM)
        popen_of(second).wait(20)
        died = time.monotonic()
        wait_for_runs(1)
        assert time.monotonic() - died < LEASE_SECONDS, "it has released its lease"
        check_sent(2)

        killed, left = (first, third) if is_working(first) else (third, first)
        killed.kill_group()
        wait_for_runs(2)
        check_sent(TAKEOVERS)
    assert left.exit_code() is None


def test_it_ends_in_the_middle_of_a_statement(
    installation: FaultyInstallation, start: Callable[[str], ChildProcess]
) -> None:
    """The end is noted while a statement of the beat waits; it then writes the schedule, and releases its lease."""
    first = start("first")
    installation.wait_until(lambda: is_working(first), what="the first works")
    with installation.hold_tables("scheduling_beatlease"):
        installation.wait_until(installation.is_waiting_for_lock, what="the beat renews its lease")
        first.popen.send_signal(signal.SIGTERM)
        time.sleep(0.5)
    popen_of(first).wait(10)
    assert installation.query("SELECT FROM scheduling_beatlease WHERE lease_holder IS NULL"), (
        "it has released its lease"
    )


@pytest.mark.django_db
def test_a_task_is_refused_after_the_lease(running_services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the renewal and the sending, too."""
    scheduler = Scheduler(app=app, lazy=True)
    assert scheduler._holds_lease()
    assert BeatLease.objects.get().lease_holder == scheduler._lease.holder
    assert scheduler._lease.timing.duration == timedelta(seconds=15), "a dead beat is replaced within it"
    assert not Scheduler(app=app, lazy=True)._holds_lease()
    later = leases._clock() + LEASE_TIMING.safe_for + 1
    monkeypatch.setattr(leases, "_clock", lambda: later)
    with pytest.raises(leases.LeaseLost):
        scheduler.apply_async(None)
