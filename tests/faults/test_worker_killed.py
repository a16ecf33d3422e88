"""The Celery worker dies while it starts work: every workflow is started once, no gang by half."""

from __future__ import annotations

import random
import time

import pytest

from osmo_admin.ops import commands
from scheduling.services.simulated.apply_plan import MOST_TREES
from tests.faults.house import FaultyHouse

pytestmark = pytest.mark.fault

POOLS = MOST_TREES + 4
EACH = 6


def waiting_work(house: FaultyHouse, pools: list[str]) -> str:
    """Six gangs in each pool, of one name, which nobody may start yet."""
    name = house.name("batch")
    house.take_offline(pools[0])
    for pool in pools:
        assert house.submit(pool, name, count=EACH).status_code == 200
    return name


def kill(house: FaultyHouse, victim: str) -> None:
    if victim == "the pool's process":
        house.kill_workers_of(commands.WORKER)  # Celery makes another
    else:
        house.kill(commands.WORKER)


@pytest.mark.parametrize("victim", ["the worker", "the pool's process"])
def test_killed_while_a_start_is_half_written(house: FaultyHouse, victim: str) -> None:
    pools = house.pools(1)
    name = waiting_work(house, pools)
    # Groups, tasks and workflows are written before the reservations: this lock stops the worker between the two.
    reservations = "SELECT FROM pools_reservation WHERE workflow_name LIKE %s FOR UPDATE"
    with house.holding(reservations, f"{name}-%"):
        house.put_online(pools[0])
        house.until(house.waits_for_lock, what="the worker writes reservations")
        kill(house, victim)
    assert set(house.statuses(name).values()) == {"PENDING"}
    house.is_right()
    house.mend()
    house.all_run(name)
    house.is_right()


@pytest.mark.parametrize("victim", ["the worker", "the pool's process"])
def test_killed_between_two_transactions(house: FaultyHouse, victim: str) -> None:
    pools = house.pools(POOLS)
    name = waiting_work(house, pools)
    with house.holding("SELECT FROM pools_pool WHERE name = %s FOR UPDATE", pools[-1]):
        house.put_online(pools[0])
        house.until(house.waits_for_lock, what="the worker stands before the locked tree")
        kill(house, victim)
        started = [status for status in house.statuses(name).values() if status == "RUNNING"]
        assert len(started) == MOST_TREES * EACH, "the first trees are done, together"
        house.is_right()
    house.mend()
    house.all_run(name)
    house.is_right()


def test_killed_at_any_moment(house: FaultyHouse) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    moments = random.Random(seed)
    pools = house.pools(POOLS)
    names = []
    for number in range(4):
        names.append(waiting_work(house, pools))
        house.put_online(pools[0])
        time.sleep(moments.uniform(0, 1.2))
        kill(house, "the pool's process" if number % 2 else "the worker")
        house.is_right()
        house.mend()
    for name in names:
        house.all_run(name)
        assert len(house.statuses(name)) == POOLS * EACH
    house.is_right()
    house.serves_again(pools[0])
