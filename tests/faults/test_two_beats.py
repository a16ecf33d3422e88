"""Two beats: one sends, the other stands by and takes over when the first one dies; nothing is sent twice."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator

import pytest

from osmo_admin.celery import app
from osmo_admin.ops.programs import process_commands
from osmo_admin.ops.programs.processes import ChildProcess, start_child
from osmo_admin.processes.beat import LEASE_TIMING, Scheduler
from scheduling.models import BeatLease
from scheduling.services.kubernetes import leases
from tests.faults.installation import FaultyInstallation
from tests.support.children import popen_of
from tests.support.services import ROOT, Services

pytestmark = pytest.mark.fault
JOB = "scheduling.settle_all"  # each second in these installations
LONGEST_GAP = LEASE_TIMING.duration.total_seconds() + 6


@pytest.fixture
def second(installation: FaultyInstallation) -> Iterator[ChildProcess]:
    """A second beat of the installation."""
    log = installation.folder / "second.log"
    child = start_child("second", process_commands.beat_command(), log=log, env=installation.env, cwd=ROOT)
    yield child
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


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=lambda how: how.name)
def test_the_second_takes_over(installation: FaultyInstallation, second: ChildProcess, how: signal.Signals) -> None:
    installation.wait_until(
        lambda: "beat_stands_by" in (installation.folder / "second.log").read_text(), what="it stands by"
    )
    with installation.suspend_process(process_commands.WORKER), installation.broker_client() as broker:
        time.sleep(1)
        broker.delete("celery")
        before, began = runs(installation), time.monotonic()
        time.sleep(4)
        both = runs(installation) - before
        assert abs(sent(installation) - both) <= 1  # one may be sent between the two questions
        assert both <= time.monotonic() - began + 1

        first = installation.children[process_commands.BEAT]
        first.popen.send_signal(how)
        popen_of(first).wait(20)
        died, before_takeover = time.monotonic(), runs(installation)
        installation.wait_until(
            lambda: runs(installation) >= before_takeover + 3, seconds=LONGEST_GAP + 10, what="the second one sends"
        )
        if how is signal.SIGTERM:
            assert time.monotonic() - died < LEASE_TIMING.duration.total_seconds()  # it has released its lease
        total = runs(installation) - before
        assert abs(sent(installation) - total) <= 1
        assert total <= time.monotonic() - began + 2
    assert second.exit_code() is None
    installation.restart_dead()
    installation.wait_ready()


def test_a_frozen_beat_sends_nothing_when_it_goes_on(installation: FaultyInstallation, second: ChildProcess) -> None:
    installation.wait_until(
        lambda: "beat_stands_by" in (installation.folder / "second.log").read_text(), what="it stands by"
    )
    with installation.suspend_process(process_commands.WORKER), installation.broker_client() as broker:
        broker.delete("celery")
        before, began = runs(installation), time.monotonic()
        with installation.suspend_process(process_commands.BEAT):
            start = runs(installation)
            installation.wait_until(
                lambda: runs(installation) >= start + 2, seconds=LONGEST_GAP + 10, what="the second one sends"
            )
        time.sleep(4)
        total = runs(installation) - before
        assert abs(sent(installation) - total) <= 1
        assert total <= time.monotonic() - began + 2
    assert second.exit_code() is None


@pytest.mark.django_db
def test_a_task_is_refused_after_the_lease(running_services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the renewal and the sending, too."""
    scheduler = Scheduler(app=app, lazy=True)
    assert scheduler._holds_lease()
    assert BeatLease.objects.get().lease_holder == scheduler._lease.holder
    assert not Scheduler(app=app, lazy=True)._holds_lease()
    later = leases._clock() + LEASE_TIMING.safe_for + 1
    monkeypatch.setattr(leases, "_clock", lambda: later)
    with pytest.raises(leases.LeaseLost):
        scheduler.apply_async(None)
