"""The broker forgets everything, dies, or stops answering: work is taken all the same and starts by itself."""

from __future__ import annotations

import signal
import time

import pytest

from osmo_admin.celery import app
from osmo_admin.ops import process_commands
from tests.faults.installation import FaultyInstallation

pytestmark = pytest.mark.fault

SUBMISSIONS = 20
QUICK = 1.0  # seconds; far above a submission, far below any time-out
SLOWEST = 3.0


def test_flushed_with_hints_and_tasks_queued(house: FaultyInstallation) -> None:
    pids, pools, name = house.process_ids(), house.make_pools(3), house.unique_name("flushed")
    with house.suspend_process(process_commands.WORKER), house.broker_client() as broker:
        for pool in pools:
            assert house.submit(pool, name, count=5).status_code == 200
        house.wait_until(lambda: broker.llen("celery") >= 2, what="tasks are queued")
        with house.suspend_process(process_commands.BEAT):
            broker.flushall()
            assert broker.llen("celery") == 0
            assert broker.keys("osmo:hint:*") == []  # who is alive says so again at once
    house.wait_all_running(name)
    assert house.submit(pools[0], name).status_code == 200
    house.wait_all_running(name)
    house.assert_consistent()
    house.wait_ready()
    assert house.process_ids() == pids


def submit_one_by_one(house: FaultyInstallation, pool: str, name: str) -> list[float]:
    """Seconds that each submission took; every one is accepted."""
    took = []
    for _ in range(SUBMISSIONS):
        began = time.monotonic()
        assert house.submit(pool, name).status_code == 200
        took.append(time.monotonic() - began)
    return took


@pytest.mark.parametrize("broker", ["dead", "silent"])
def test_submissions_do_not_wait_for_the_broker(house: FaultyInstallation, broker: str) -> None:
    pids, pools, name = house.process_ids(), house.make_pools(1), house.unique_name("without")
    house.check_notifications(pools[0])
    if broker == "dead":
        house.servers.stop_broker(signal.SIGKILL)
        took = submit_one_by_one(house, pools[0], name)
        house.servers.start_broker()
    else:
        with house.servers.frozen_broker():
            took = submit_one_by_one(house, pools[0], name)
    print([round(seconds, 2) for seconds in took])
    assert max(took) < SLOWEST, "the one that finds out"
    assert len([seconds for seconds in took if seconds > QUICK]) <= 2, "one for each web process, not each request"
    house.wait_all_running(name)
    assert len(house.workflow_statuses(name)) == SUBMISSIONS
    house.assert_consistent()
    house.wait_ready()
    assert house.process_ids() == pids


def test_both_ways_to_the_worker_come_back(house: FaultyInstallation) -> None:
    """The beat starts work without a hint, and a hint starts work without the beat."""
    pools = house.make_pools(2)
    house.set_offline(pools[1])
    quiet = house.unique_name("quiet")
    assert house.submit(pools[1], quiet).status_code == 200
    house.servers.stop_broker(signal.SIGTERM)
    assert house.submit(pools[0], house.unique_name("lost")).status_code == 200
    house.servers.start_broker()
    house.set_online(pools[1])
    house.wait_all_running(quiet)
    house.check_notifications(pools[0])
    house.assert_consistent()


def test_the_worker_never_gives_up_on_the_broker() -> None:
    assert app.conf.broker_connection_max_retries is None
