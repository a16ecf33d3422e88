"""The database constraints of cohorts, and the audit entry of every change."""

from __future__ import annotations

import json

import pytest
from django.db import IntegrityError, connection, transaction
from psycopg import errors as pg

from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.pools import DeletePool, PatchPool
from pools.models import AuditEntry, Cohort
from pools.selectors.change_tokens import read_cohorts_token
from scheduling.services.verify import verify
from tests.integration.cohorts.conftest import create_cohorts, create_member_pool, gpu_quota_row
from tests.support import world

pytestmark = pytest.mark.django_db


def _quotas(**amounts: object) -> str:
    return "quotas = '" + json.dumps({"default/gpu": amounts}) + "' WHERE name = "


SET = "UPDATE pools_cohort SET "
BROKEN = {
    "a name of capitals": (SET + "name = 'Org' WHERE name = 'top'", "cohort_name_rule"),
    "a separator in the name": (SET + "name = 'o--r' WHERE name = 'top'", "cohort_name_rule"),
    "a name of 64 letters": (SET + "name = repeat('o', 64) WHERE name = 'top'", "cohort_name_rule"),
    "a negative quota": (SET + _quotas(nominal=-1) + "'left'", "cohort_no_negative_quota"),
    "a negative limit": (SET + _quotas(nominal=1, lending_limit=-1) + "'left'", "cohort_no_negative_quota"),
    "half a GPU": (SET + _quotas(nominal=0.5) + "'left'", "cohort_no_negative_quota"),
    "an amount that nobody knows": (SET + _quotas(nominal=1, speed=1) + "'left'", "cohort_no_negative_quota"),
    "no nominal quota": (SET + _quotas(lending_limit=1) + "'left'", "cohort_quotas"),
    "a quota without a flavor": (SET + "quotas = '{\"gpu\": {\"nominal\": 1}}' WHERE name = 'top'", "cohort_quotas"),
    "quotas in a list": (SET + "quotas = '[1]' WHERE name = 'top'", "cohort_quotas"),
    "a limit without a parent": (SET + _quotas(nominal=1, borrowing_limit=1) + "'top'", "cohort_limits_need_parent"),
    "a limit that loses its parent": (SET + "parent_id = NULL WHERE name = 'left'", "cohort_limits_need_parent"),
    "a negative weight": (SET + "weight = -1 WHERE name = 'top'", "cohort_weight"),
    "a named cohort with a quota": (SET + _quotas(nominal=1) + "'named'", "cohort_named_is_bare"),
    "a cohort below itself": (SET + "parent_id = id WHERE name = 'top'", "cohort_no_circle"),
    "a cycle of three": (
        SET + "parent_id = (SELECT id FROM pools_cohort WHERE name = 'leaf') WHERE name = 'top'",
        "cohort_no_circle",
    ),
    "a cohort with a pool is removed": ("DELETE FROM pools_cohort WHERE name = 'leaf'", "foreign key"),
    "truncate": ("TRUNCATE pools_cohort CASCADE", "no_truncate"),
    "a pool's limit without a cohort": (
        "UPDATE pools_pool SET borrowing_limit = 1 WHERE name = 'alone'",
        "pool_limits_need_cohort",
    ),
    "a pool's negative limit": ("UPDATE pools_pool SET lending_limit = -1 WHERE name = 'p'", "pool_no_negative_limit"),
    "a pool lends more than it has": (
        "UPDATE pools_pool SET lending_limit = 11 WHERE name = 'p'",
        "pool_lends_what_it_has",
    ),
    "a subpool in a cohort": (
        "UPDATE pools_pool SET cohort_id = (SELECT cohort_id FROM pools_pool WHERE name = 'p') WHERE name = 'alone--a'",
        "pool_is_root_or_slice",
    ),
    "an archived pool in a cohort": (
        "UPDATE pools_pool SET archived = true WHERE name = 'p'",
        "pool_archived_has_no_cohort",
    ),
}


@pytest.fixture(scope="module")
def cohort_tree(module_data: world.ModuleData) -> None:
    """top > left > leaf, with pool `p` of 10 GPUs in `leaf`, `alone` with a subpool in none, and `named` only named."""
    with module_data():
        create_cohorts("top 4", "  left 2 borrow 3", "    leaf 0")
        create_member_pool("p", "leaf", 10)
        world.make_pool("alone", 10, a=5)
        world.apply_change(PutCohort(name="below", body={"parent": "named"}))
        world.check_deferred_constraints()


@pytest.mark.parametrize(("sql", "rule"), BROKEN.values(), ids=BROKEN)
def test_raw_sql_meets_the_rule(cohort_tree: None, sql: str, rule: str) -> None:
    with pytest.raises(IntegrityError) as refused:
        _at_commit(sql)
    cause = refused.value.__cause__
    assert isinstance(cause, pg.Error)
    assert rule in {"foreign key", cause.diag.constraint_name}
    assert cause.diag.message_primary


def _at_commit(sql: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def test_the_cycle_is_named_in_full(cohort_tree: None) -> None:
    with pytest.raises(IntegrityError, match="top → leaf → left → top"), transaction.atomic():
        Cohort.objects.filter(name="top").update(parent=Cohort.objects.get(name="leaf"))


def test_every_audit_entry_has_names() -> None:
    create_cohorts("org 4", "other 0")
    world.apply_change(PutCohort(name="team", body={"parent": "org"}), description="a new team")
    world.apply_change(PutCohort(name="team", body={"parent": "org", "quotas": [gpu_quota_row(2, 1)]}))
    world.apply_change(PutCohort(name="team", body={"parent": "other", "quotas": [gpu_quota_row(2, 1)]}))
    entries = list(AuditEntry.objects.filter(object="cohort/team").order_by("id"))
    assert [entry.action for entry in entries] == ["cohort.created", "cohort.updated", "cohort.moved"]
    assert [entry.after["parent"] for entry in entries] == ["org", "org", "other"]
    assert entries[2].before["parent"] == "org"
    assert entries[1].after["quotas"]["default/gpu"] == {"nominal": 2, "borrowing_limit": 1, "lending_limit": None}
    assert entries[0].description == "a new team"


def test_the_version_changes_with_the_configuration_only(cohort_tree: None) -> None:
    row = Cohort.objects.get(name="left")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE pools_cohort SET inactive_since = now() WHERE name = 'left'")
        cursor.execute("UPDATE pools_cohort SET quotas = quotas WHERE name = 'left'")
    assert Cohort.objects.get(name="left").version == row.version
    Cohort.objects.filter(name="left").update(weight=2)
    assert Cohort.objects.get(name="left").version == row.version + 1


def test_the_token_changes_with_every_part_of_a_cohort(cohort_tree: None) -> None:
    seen = {read_cohorts_token()}
    for sql in (
        "UPDATE pools_cohort SET weight = 3 WHERE name = 'top'",
        "UPDATE pools_pool SET guarantee = 9 WHERE name = 'p'",
        "UPDATE pools_pool SET lending_limit = 1 WHERE name = 'p'",
        "UPDATE pools_pool SET name = 'q' WHERE name = 'p'",
        "UPDATE pools_pool SET cohort_id = NULL, lending_limit = NULL WHERE name = 'q'",
    ):
        with connection.cursor() as cursor:
            cursor.execute(sql)
        assert read_cohorts_token() not in seen, sql
        seen.add(read_cohorts_token())
    world.apply_change(PatchPool(name="alone", patch={"resources": {"gpu": {"guarantee": 20}}}))
    assert read_cohorts_token() in seen, "a pool without a cohort moves nothing of theirs"


def test_an_archived_pool_leaves_its_cohort_and_verify_finds_nothing(cohort_tree: None) -> None:
    world.submit_workflow(world.admin_actor(), "p")
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM pools_reservation")
        cursor.execute("UPDATE scheduling_workflow SET status = 'COMPLETED'")
        cursor.execute("UPDATE scheduling_group SET status = 'COMPLETED'")
        cursor.execute("UPDATE scheduling_task SET status = 'COMPLETED'")
    left = world.apply_change(DeletePool(name="p"))
    assert left is not None
    assert (left.archived, left.cohort_id) == (True, None)
    assert [each for each in verify() if each.code == "audit"] == []
