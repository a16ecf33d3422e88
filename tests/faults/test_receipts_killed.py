"""The Celery worker dies between the end of attempts and their receipts: both are there, or neither is."""

from __future__ import annotations

import pytest

from osmo_admin.ops.programs import process_commands
from tests.faults.installation import FaultyInstallation
from tests.support import world

pytestmark = pytest.mark.fault

GPUS = 4
PREEMPTED = """
    SELECT count(*) AS attempts, count(receipt.task_id) AS receipts
    FROM scheduling_task attempt JOIN scheduling_group part ON part.uuid = attempt.group_id
    JOIN scheduling_workflow work ON work.uuid = part.workflow_id
    LEFT JOIN scheduling_receipt receipt ON receipt.task_id = attempt.uuid
    WHERE attempt.exit_code = 3006 AND work.spec_name = %s
"""


def counts(installation: FaultyInstallation, name: str) -> tuple[int, int]:
    """The preempted attempts of these workflows, and their receipts."""
    (row,) = installation.query(PREEMPTED, name)
    return row["attempts"], row["receipts"]


def test_killed_between_the_end_of_attempts_and_their_receipts(installation: FaultyInstallation) -> None:
    with installation.orm():
        backend = world.make_backend(installation.unique_name("backend"), nodes=1, gpus=GPUS)
        pool = world.make_pool(installation.unique_name("pool"), GPUS, on=backend).name
    low = installation.unique_name("low")
    for _ in range(GPUS):
        body = {"file": world.workflow_file(low)}
        assert installation.admin_client.post(f"/api/pool/{pool}/workflow?priority=LOW", json=body).status_code == 200
    installation.wait_all_running(low)
    urgent = installation.unique_name("urgent")
    with installation.hold_tables("scheduling_interruption"):
        assert installation.submit(pool, urgent).status_code == 200
        installation.wait_until(installation.is_waiting_for_lock, what="the worker writes receipts")
        installation.kill_process(process_commands.WORKER)
    assert counts(installation, low) == (0, 0)
    installation.assert_consistent()
    installation.restart_dead()
    installation.wait_all_running(urgent)
    assert counts(installation, low) == (1, 1)
    installation.assert_consistent()
