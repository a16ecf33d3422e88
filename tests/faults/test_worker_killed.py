"""The Celery worker dies while it starts work: every workflow starts once, every gang whole."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from osmo_admin.ops.programs import process_commands
from scheduling.services.simulated.apply_plan import MAX_TREES_TOGETHER
from tests.faults.installation import FaultyInstallation

pytestmark = pytest.mark.fault

POOLS = MAX_TREES_TOGETHER + 4
EACH = 6


def waiting_work(installation: FaultyInstallation, pools: list[str]) -> str:
    """Six gangs in each pool, with one name, on an offline backend."""
    name = installation.unique_name("batch")
    installation.set_offline(pools[0])
    for pool in pools:
        assert installation.submit(pool, name, count=EACH).status_code == 200
    return name


def kill(installation: FaultyInstallation, victim: str) -> None:
    if victim == "the pool's process":
        installation.kill_children_of(process_commands.WORKER)  # Celery makes another
    else:
        installation.kill_process(process_commands.WORKER)


@pytest.mark.parametrize("victim", ["the worker", "the pool's process"])
def test_killed_in_the_middle_of_a_transaction(installation: FaultyInstallation, victim: str) -> None:
    pools = installation.make_pools(1)
    name = waiting_work(installation, pools)
    # Groups, tasks and workflows are written before the reservations: this lock stops the worker between the two.
    reservations = "SELECT FROM pools_reservation WHERE workflow_name LIKE %s FOR UPDATE"
    with installation.hold_locks(reservations, f"{name}-%"):
        installation.set_online(pools[0])
        installation.wait_until(installation.is_waiting_for_lock, what="the worker writes reservations")
        kill(installation, victim)
    assert set(installation.workflow_statuses(name).values()) == {"PENDING"}
    installation.assert_consistent()
    installation.restart_dead()
    installation.wait_all_running(name)
    installation.assert_consistent()


@pytest.mark.parametrize("victim", ["the worker", "the pool's process"])
def test_killed_between_two_transactions(installation: FaultyInstallation, victim: str) -> None:
    pools = installation.make_pools(POOLS)
    name = waiting_work(installation, pools)

    def started() -> int:
        return list(installation.workflow_statuses(name).values()).count("RUNNING")

    with installation.hold_locks("SELECT FROM pools_pool WHERE name = %s FOR UPDATE", pools[-1]):
        installation.set_online(pools[0])
        # Periodic tasks may wait for the locked row as well, also before the worker starts work.
        installation.wait_until(lambda: started() > 0, what="the worker starts work")
        assert started() >= MAX_TREES_TOGETHER * EACH, "the first trees are done, together"
        installation.wait_until(installation.is_waiting_for_lock, what="the worker waits for the locked tree")
        kill(installation, victim)
        # After a timeout of the lock the worker goes on with the trees that are not locked.
        assert MAX_TREES_TOGETHER * EACH <= started() <= (POOLS - 1) * EACH
        installation.assert_consistent()
    installation.restart_dead()
    installation.wait_all_running(name)
    installation.assert_consistent()


def test_killed_at_any_moment(installation: FaultyInstallation) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    moments = random.Random(seed)
    pools = installation.make_pools(POOLS)
    names = []
    for victim in ("the worker", "the pool's process"):
        names.append(waiting_work(installation, pools))
        installation.set_online(pools[0])
        time.sleep(moments.uniform(0, 1.2))
        kill(installation, victim)
        installation.assert_consistent()
        installation.restart_dead()
    for name in names:
        installation.wait_all_running(name)
        assert len(installation.workflow_statuses(name)) == POOLS * EACH
    installation.assert_consistent()
    installation.wait_serving(pools[0])


def test_its_processes_end_when_the_parent_alone_is_killed(installation: FaultyInstallation) -> None:
    children = installation.child_pids_of(process_commands.WORKER)
    assert children
    os.kill(installation.process_ids()[process_commands.WORKER], signal.SIGKILL)
    installation.wait_until(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), seconds=10, what="its processes end"
    )
