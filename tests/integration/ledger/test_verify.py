"""`verify` finds each difference: rows are changed with all triggers off, and each check names its own."""

from __future__ import annotations

import pytest
from django.db import connection

from pools.domain.changes.gpu_allocations import AllocateWorker
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Pool
from pools.services.changes.verify import LEDGER_CHECKS
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.verify import WORKFLOW_CHECKS, verify
from tests.support import world

pytestmark = pytest.mark.django_db

BENT = {
    "counter": "UPDATE pools_leafusage SET used = used + 1, total_usage = total_usage + 1",
    "flavor_counter": "INSERT INTO pools_flavorusage (pool_id, flavor, used, total_usage, committed)"
    " SELECT id, 'h100', 1, 1, 1 FROM pools_pool WHERE name = 'team'",
    "user_counter": "UPDATE pools_livework SET workflows = workflows + 1",
    "promises": "UPDATE pools_pool SET guarantee = 29 WHERE name = 'team'",
    "archived": "UPDATE pools_pool SET subpool_state = 'ARCHIVED' WHERE name = 'team--a'",
    "drained": "UPDATE pools_pool SET updated_at = now() - interval '2 days' WHERE name = 'team--left'",
    "name": "UPDATE pools_pool SET name = 'tram--a' WHERE name = 'team--a'",
    "circle": """
        INSERT INTO pools_cohort (name, explicit, quotas, weight, version) VALUES ('round', true, '{}', 1, 1);
        UPDATE pools_cohort SET parent_id = id
    """,
    "gpu_usage": "UPDATE pools_gpuusage SET workers = workers + 1",
    "gpu_worker": "UPDATE pools_gpuallocation SET source = 'workflow', holder = gen_random_uuid()",
    "audit": "UPDATE pools_pool SET description = 'quietly' WHERE name = 'team'",
    "reservation": "UPDATE pools_reservation SET needed_gpus = needed_gpus + 1 WHERE priority = 'LOW'",
    "status": "UPDATE scheduling_workflow SET status = 'COMPLETED'",
    "gang": "UPDATE scheduling_task SET status = 'COMPLETED'",
    "observed": "UPDATE pools_backend SET kind = 'kubernetes'; UPDATE scheduling_group SET status = 'SCHEDULING'",
    "size": "UPDATE scheduling_group SET gpus = gpus + 1 WHERE status = 'SCHEDULING'",
    "generation": "INSERT INTO scheduling_queuesync (backend_id, applied_generation, synced, reason, message, failures,"
    " objects_observed, untouched, since)"
    " SELECT id, 99, 'True', 'Done', '', 0, 0, '[]', now() FROM pools_backend",
    "receipt": "UPDATE scheduling_task SET end_time = now(), exit_code = 3006 WHERE start_time IS NOT NULL",
    "numbers": "UPDATE scheduling_workflowname SET last_number = last_number + 1",
}


@pytest.fixture(scope="module")
def pool_tree(module_data: world.ModuleData) -> None:
    """Running and waiting work on a subpool, and a subpool that drains with nothing on it."""
    with module_data():
        root = world.make_pool("team", 100, a=30, left=5)
        admin = world.admin_actor()
        world.submit_workflow(admin, "team--a", 8)
        assert root.backend_id is not None
        reconcile_backend(root.backend_id)
        world.submit_workflow(admin, "team--a", 2, name="later", priority=world.Priority.LOW)
        world.apply_change(AllocateWorker(namespace="team-a", id="w1"), actor=admin)
        Pool.objects.filter(name="team--left").update(subpool_state=SubpoolState.DELETING)
        world.check_deferred_constraints()


DELETED = {
    "user_counter": "DELETE FROM pools_livework",
    "counter": "DELETE FROM pools_leafusage",
    "gpu_usage": "DELETE FROM pools_gpuusage",
    "reservation": "DELETE FROM pools_reservation",
    "numbers": "DELETE FROM scheduling_workflowname",
}
"""Rows that are missing altogether."""

RESERVED = {
    f"assumed_{name}": f"UPDATE pools_gpuusage SET assumed_{name} = assumed_{name} + 1"
    for name in ("requests_tflops", "requests_vram", "limits_tflops", "limits_vram", "workers")
}


def test_every_check_has_a_failing_example() -> None:
    assert set(BENT) == {check.code for check in (*LEDGER_CHECKS, *WORKFLOW_CHECKS)}


def test_a_correct_ledger_has_no_difference(pool_tree: None) -> None:
    assert verify() == []


@pytest.mark.parametrize(("code", "sql"), BENT.items(), ids=BENT)
def test_the_check_names_the_difference(pool_tree: None, code: str, sql: str) -> None:
    with world.triggers_off(), connection.cursor() as cursor:
        cursor.execute(sql)
        assert cursor.rowcount
    found = {difference.code: difference.message for difference in verify()}
    assert code in found
    assert found[code]
    assert "{}" not in found[code]


@pytest.mark.parametrize(("code", "sql"), DELETED.items(), ids=DELETED)
def test_the_check_names_missing_rows(pool_tree: None, code: str, sql: str) -> None:
    with world.triggers_off(), connection.cursor() as cursor:
        cursor.execute(sql)
        assert cursor.rowcount
    assert code in {difference.code for difference in verify()}


@pytest.mark.parametrize("sql", RESERVED.values(), ids=RESERVED)
def test_the_check_names_each_counter_of_reserved_workers(pool_tree: None, sql: str) -> None:
    with world.triggers_off(), connection.cursor() as cursor:
        cursor.execute(sql)
    assert [difference.code for difference in verify()] == ["gpu_usage"]
