"""The database constraints of the ledger: raw SQL that breaks a rule gets its name."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connection, transaction
from psycopg import errors as pg

from pools.domain.changes.subpools import DeleteSubpool
from pools.models import AuditEntry, Pool
from tests.support import world

pytestmark = pytest.mark.django_db

SUBPOOL = "UPDATE pools_pool SET {} WHERE name = 'team--a'"
ROOT = "UPDATE pools_pool SET {} WHERE name = 'team'"

BROKEN = {
    "promises above the guarantee": (SUBPOOL.format("last_quota = 101"), "slices_within_guarantee"),
    "guarantee below the promises": (ROOT.format("guarantee = 29"), "slices_within_guarantee"),
    "no guarantee under subpools": (ROOT.format("guarantee = -1"), "slices_within_guarantee"),
    "negative quota of a subpool": (SUBPOOL.format("last_quota = -1"), "pool_is_root_or_slice"),
    "negative guarantee": (ROOT.format("guarantee = -2"), "pool_no_negative_quota"),
    "a subpool with configuration": (SUBPOOL.format("description = 'mine'"), "pool_is_root_or_slice"),
    "DELETING to ACTIVE": (
        "UPDATE pools_pool SET subpool_state = 'ACTIVE' WHERE name = 'team--drains'",
        "subpool_state_machine",
    ),
    "ARCHIVED to DELETING": (
        "UPDATE pools_pool SET subpool_state = 'DELETING' WHERE name = 'team--old'",
        "subpool_state_machine",
    ),
    "quota of an ARCHIVED subpool": ("UPDATE pools_pool SET last_quota = 1 WHERE name = 'team--old'", "subpool_frozen"),
    "archived under live work": (
        "UPDATE pools_pool SET subpool_state = 'ARCHIVED' WHERE name = 'team--drains'",
        "archived_has_no_live_work",
    ),
    "pool archived under subpools": (ROOT.format("archived = true"), "archived_has_no_slices"),
    "another parent": (
        SUBPOOL.format("parent_id = (SELECT id FROM pools_pool WHERE name = 'other')"),
        "subpool_identity",
    ),
    "a name that leaves its parent": (SUBPOOL.format("name = 'b'"), "subpool_name_follows_parent"),
    "a pool's name of capitals": ("UPDATE pools_pool SET name = 'Other' WHERE name = 'other'", "pool_name_rule"),
    "a separator in a pool's name": ("UPDATE pools_pool SET name = 'o--r' WHERE name = 'other'", "pool_name_separator"),
    "a queue name of 64 characters": (
        "UPDATE pools_pool SET name = repeat('o', 42) WHERE name = 'other'",
        "queue_name_length",
    ),
    "delete of an ARCHIVED subpool": ("DELETE FROM pools_pool WHERE name = 'team--old'", "subpool_never_deleted"),
    "delete of an ACTIVE subpool": ("DELETE FROM pools_pool WHERE name = 'team--a'", "subpool_never_deleted"),
    "truncate of pools": ("TRUNCATE pools_pool CASCADE", "no_truncate"),
    "truncate of the trail": ("TRUNCATE pools_auditentry", "no_truncate"),
    "truncate of reservations": ("TRUNCATE pools_reservation", "no_truncate"),
    "an edited counter of live work": ("UPDATE pools_livework SET workflows = 0", "live_work_follows_reservations"),
    "an edited counter of a flavor": (
        "UPDATE pools_flavorusage SET used = used + 1",
        "flavor_usage_follows_reservations",
    ),
    "an edited counter": ("UPDATE pools_leafusage SET used = used + 1", "usage_follows_reservations"),
    "usage below zero": (
        "UPDATE pools_reservation SET held_gpus = -1",
        "pools_reservation_held_gpus_check",
    ),
    "an edited trail": ("UPDATE pools_auditentry SET actor = 'nobody'", "append_only"),
    "a shortened trail": ("DELETE FROM pools_auditentry", "append_only"),
    "new work on a draining subpool": (
        """
        INSERT INTO pools_reservation (workflow, workflow_name, pool_id, owner, priority, held_gpus, needed_gpus)
        SELECT gen_random_uuid(), 'w', id, 'o', 'LOW', 0, 0 FROM pools_pool WHERE name = 'team--drains'
        """,
        "leaf_takes_work",
    ),
}


@pytest.fixture(scope="module")
def pool_tree(module_data: world.ModuleData) -> None:
    """A pool with an ACTIVE, a DELETING and an ARCHIVED subpool, and another pool without any."""
    with module_data():
        world.make_pool("team", 100, a=30, drains=10, old=5)
        world.make_pool("other", 10)
        world.submit_workflow(world.admin_actor(), "team--drains")
        for name in ("drains", "old"):
            world.apply_change(DeleteSubpool(parent="team", subpool_name=name))
        world.check_deferred_constraints()


def _at_commit(sql: str) -> None:
    """Run it as a transaction of its own would: deferred rules included, and undone whatever happens."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        transaction.set_rollback(True)


@pytest.mark.parametrize(("sql", "rule"), BROKEN.values(), ids=BROKEN)
def test_raw_sql_meets_the_rule(pool_tree: None, sql: str, rule: str) -> None:
    with pytest.raises(IntegrityError) as refused:
        _at_commit(sql)
    cause = refused.value.__cause__
    assert isinstance(cause, pg.Error)
    assert cause.diag.constraint_name == rule
    assert cause.diag.message_primary


@pytest.mark.parametrize(
    "sql",
    [
        SUBPOOL.format("last_quota = 100"),
        SUBPOOL.format("subpool_state = 'DELETING'"),
        ROOT.format("guarantee = 30"),
        "UPDATE pools_pool SET subpool_state = 'ACTIVE' WHERE name = 'team--old'",
        "UPDATE pools_pool SET name = repeat('o', 41) WHERE name = 'other'",
    ],
)
def test_raw_sql_that_keeps_the_rules_passes(pool_tree: None, sql: str) -> None:
    _at_commit(sql)


def test_raw_sql_is_in_the_trail_under_the_databases_own_name(pool_tree: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('osmo.actor', '', true)")
        cursor.execute(SUBPOOL.format("last_quota = 20"))
        cursor.execute("SELECT session_user")
        (role,) = cursor.fetchone()
    entry = AuditEntry.objects.first()
    assert entry is not None
    assert (entry.actor, entry.action, entry.object) == (f"database:{role}", "subpool.updated", "pool/team--a")
    assert (entry.before["last_quota"], entry.after["last_quota"]) == (30, 20)  # type: ignore[index]
    assert Pool.objects.get(name="team--a").version == 2
