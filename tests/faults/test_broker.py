"""The broker is flushed, dies, or stops answering: work is accepted nevertheless and starts later."""

from __future__ import annotations

import signal
import statistics
import time

import pytest

from osmo_admin.celery import app
from osmo_admin.ops.programs import process_commands
from tests.faults.installation import FaultyInstallation

pytestmark = pytest.mark.fault

SUBMISSIONS = 20
QUICK = 1.0  # seconds; far above a submission, far below the time-outs of a broker that is silent (2 and 5)
SLOWEST = 15.0


def test_flushed_with_notifications_and_tasks_queued(installation: FaultyInstallation) -> None:
    pids, pools, name = installation.process_ids(), installation.make_pools(3), installation.unique_name("flushed")
    with installation.suspend_process(process_commands.WORKER), installation.broker_client() as broker:
        for pool in pools:
            assert installation.submit(pool, name, count=5).status_code == 200
        installation.wait_until(lambda: broker.llen("celery") >= 2, what="tasks are queued")
        with installation.suspend_process(process_commands.BEAT):
            broker.flushall()
            assert broker.llen("celery") == 0
            assert broker.keys("osmo:hint:*") == []  # living processes write theirs again at once
    installation.wait_all_running(name)
    assert installation.submit(pools[0], name).status_code == 200
    installation.wait_all_running(name)
    installation.assert_consistent()
    installation.wait_ready()
    assert installation.process_ids() == pids


def submit_one_by_one(installation: FaultyInstallation, pool: str, name: str) -> list[float]:
    """Seconds of each submission; all are accepted."""
    took = []
    for _ in range(SUBMISSIONS):
        began = time.monotonic()
        assert installation.submit(pool, name).status_code == 200
        took.append(time.monotonic() - began)
    return took


@pytest.mark.parametrize("broker", ["dead", "silent"])
def test_submissions_do_not_wait_for_the_broker(installation: FaultyInstallation, broker: str) -> None:
    pids, pools, name = installation.process_ids(), installation.make_pools(1), installation.unique_name("without")
    installation.check_notifications(pools[0])
    if broker == "dead":
        installation.servers.stop_broker(signal.SIGKILL)
        took = submit_one_by_one(installation, pools[0], name)
        installation.servers.start_broker()
    else:
        with installation.servers.frozen_broker():
            took = submit_one_by_one(installation, pools[0], name)
    print([round(seconds, 2) for seconds in took])
    assert max(took) < SLOWEST, "the first one after the outage"
    assert statistics.median(took) < QUICK, "at most one wait for each web process, not each request"
    installation.wait_all_running(name)
    assert len(installation.workflow_statuses(name)) == SUBMISSIONS
    installation.assert_consistent()
    installation.wait_ready()
    assert installation.process_ids() == pids


def test_notifications_and_beat_both_recover(installation: FaultyInstallation) -> None:
    """Celery beat starts work without a notification, and a notification starts work without beat."""
    pools = installation.make_pools(2)
    installation.set_offline(pools[1])
    quiet = installation.unique_name("quiet")
    assert installation.submit(pools[1], quiet).status_code == 200
    installation.servers.stop_broker(signal.SIGTERM)
    assert installation.submit(pools[0], installation.unique_name("lost")).status_code == 200
    installation.servers.start_broker()
    installation.set_online(pools[1])
    installation.wait_all_running(quiet)
    installation.check_notifications(pools[0])
    installation.assert_consistent()


def test_the_worker_never_gives_up_on_the_broker() -> None:
    assert app.conf.broker_connection_max_retries is None
