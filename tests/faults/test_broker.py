"""The broker forgets everything, dies, or stops answering: work is taken all the same and starts by itself."""

from __future__ import annotations

import signal
import time

import pytest

from osmo_admin.celery import app
from osmo_admin.ops import commands
from tests.faults.house import FaultyHouse

pytestmark = pytest.mark.fault

SUBMISSIONS = 20
QUICK = 1.0  # seconds; far above a submission, far below any time-out
SLOWEST = 3.0


def test_flushed_with_hints_and_tasks_queued(house: FaultyHouse) -> None:
    pids, pools, name = house.pids(), house.pools(3), house.name("flushed")
    with house.frozen(commands.WORKER), house.broker() as broker:
        for pool in pools:
            assert house.submit(pool, name, count=5).status_code == 200
        house.until(lambda: broker.llen("celery") >= 2, what="tasks are queued")
        with house.frozen(commands.BEAT):
            broker.flushall()
            assert broker.llen("celery") == 0
            assert broker.keys("osmo:hint:*") == []  # who is alive says so again at once
    house.all_run(name)
    assert house.submit(pools[0], name).status_code == 200
    house.all_run(name)
    house.is_right()
    house.wait_ready()
    assert house.pids() == pids


def submit_one_by_one(house: FaultyHouse, pool: str, name: str) -> list[float]:
    """Seconds that each submission took; every one is accepted."""
    took = []
    for _ in range(SUBMISSIONS):
        began = time.monotonic()
        assert house.submit(pool, name).status_code == 200
        took.append(time.monotonic() - began)
    return took


@pytest.mark.parametrize("broker", ["dead", "silent"])
def test_submissions_do_not_wait_for_the_broker(house: FaultyHouse, broker: str) -> None:
    pids, pools, name = house.pids(), house.pools(1), house.name("without")
    house.hints_arrive(pools[0])
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
    house.all_run(name)
    assert len(house.statuses(name)) == SUBMISSIONS
    house.is_right()
    house.wait_ready()
    assert house.pids() == pids


def test_both_ways_to_the_worker_come_back(house: FaultyHouse) -> None:
    """The beat starts work without a hint, and a hint starts work without the beat."""
    pools = house.pools(2)
    house.take_offline(pools[1])
    quiet = house.name("quiet")
    assert house.submit(pools[1], quiet).status_code == 200
    house.servers.stop_broker(signal.SIGTERM)
    assert house.submit(pools[0], house.name("lost")).status_code == 200
    house.servers.start_broker()
    house.put_online(pools[1])
    house.all_run(quiet)
    house.hints_arrive(pools[0])
    house.is_right()


def test_the_worker_never_gives_up_on_the_broker() -> None:
    assert app.conf.broker_connection_max_retries is None
