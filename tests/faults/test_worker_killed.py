"""The Celery worker dies while it starts work: every workflow is started once, no gang by half."""

from __future__ import annotations

import random
import time

import pytest

from osmo_admin.ops import process_commands
from scheduling.services.simulated.apply_plan import MAX_TREES_TOGETHER
from tests.faults.installation import FaultyInstallation

pytestmark = pytest.mark.fault

POOLS = MAX_TREES_TOGETHER + 4
EACH = 6


def waiting_work(house: FaultyInstallation, pools: list[str]) -> str:
    """Six gangs in each pool, of one name, which nobody may start yet."""
    name = house.unique_name("batch")
    house.set_offline(pools[0])
    for pool in pools:
        assert house.submit(pool, name, count=EACH).status_code == 200
    return name


def kill(house: FaultyInstallation, victim: str) -> None:
    if victim == "the pool's process":
        house.kill_children_of(process_commands.WORKER)  # Celery makes another
    else:
        house.kill_process(process_commands.WORKER)


@pytest.mark.parametrize("victim", ["the worker", "the pool's process"])
def test_killed_while_a_start_is_half_written(house: FaultyInstallation, victim: str) -> None:
    pools = house.make_pools(1)
    name = waiting_work(house, pools)
    # Groups, tasks and workflows are written before the reservations: this lock stops the worker between the two.
    reservations = "SELECT FROM pools_reservation WHERE workflow_name LIKE %s FOR UPDATE"
    with house.hold_locks(reservations, f"{name}-%"):
        house.set_online(pools[0])
        house.wait_until(house.is_waiting_for_lock, what="the worker writes reservations")
        kill(house, victim)
    assert set(house.workflow_statuses(name).values()) == {"PENDING"}
    house.assert_consistent()
    house.restart_dead()
    house.wait_all_running(name)
    house.assert_consistent()


@pytest.mark.parametrize("victim", ["the worker", "the pool's process"])
def test_killed_between_two_transactions(house: FaultyInstallation, victim: str) -> None:
    pools = house.make_pools(POOLS)
    name = waiting_work(house, pools)
    with house.hold_locks("SELECT FROM pools_pool WHERE name = %s FOR UPDATE", pools[-1]):
        house.set_online(pools[0])
        house.wait_until(house.is_waiting_for_lock, what="the worker stands before the locked tree")
        kill(house, victim)
        started = [status for status in house.workflow_statuses(name).values() if status == "RUNNING"]
        assert len(started) == MAX_TREES_TOGETHER * EACH, "the first trees are done, together"
        house.assert_consistent()
    house.restart_dead()
    house.wait_all_running(name)
    house.assert_consistent()


def test_killed_at_any_moment(house: FaultyInstallation) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    moments = random.Random(seed)
    pools = house.make_pools(POOLS)
    names = []
    for number in range(4):
        names.append(waiting_work(house, pools))
        house.set_online(pools[0])
        time.sleep(moments.uniform(0, 1.2))
        kill(house, "the pool's process" if number % 2 else "the worker")
        house.assert_consistent()
        house.restart_dead()
    for name in names:
        house.wait_all_running(name)
        assert len(house.workflow_statuses(name)) == POOLS * EACH
    house.assert_consistent()
    house.wait_serving(pools[0])
