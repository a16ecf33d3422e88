"""The database keeps `shared + Σ ACTIVE = pool` for each flavor for every way to write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.subpools import ResizeSubpool
from pools.models import Backend, Pool
from pools.selectors.quotas.pool_balance import read_balance
from tests.support.world import ModuleData, apply_change, check_deferred_constraints, make_pool, triggers_off

pytestmark = pytest.mark.django_db

FLAVORS = [{"name": name, "node_labels": {"gpu": name}} for name in ("h100", "a100", "l40")]


def rows(**gpus: Any) -> str:
    """The rows as a row keeps them, as SQL."""
    return "'" + json.dumps([{"flavor": flavor, "quota": quota} for flavor, quota in gpus.items()]) + "'"


def write(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)
    check_deferred_constraints()


@pytest.fixture(scope="module")
def team(module_data: ModuleData) -> Pool:
    """A pool of 12 GPUs: 8 of h100, 4 of a100; its subpool a has 4 and 2 of them, b 2 and 0."""
    with module_data():
        pool = make_pool("team", 12, a=6, b=2)
        apply_change(PutBackend(name="sim", body={"flavors": FLAVORS}))
        write(
            f"""UPDATE pools_pool SET flavors = {rows(h100=8, a100=4)} WHERE name = 'team';
            UPDATE pools_pool SET flavors = {rows(h100=4, a100=2)} WHERE name = 'team--a';
            UPDATE pools_pool SET flavors = {rows(h100=2)} WHERE name = 'team--b'"""
        )
        return pool


def test_the_balance_has_each_flavor(team: Pool) -> None:
    balance = read_balance(Pool.objects.get(pk=team.pk))
    assert {name: (kind.guarantee, kind.allocated, kind.unallocated) for name, kind in balance.kinds.items()} == {
        "h100": (8, 6, 2),
        "a100": (4, 2, 2),
    }


RAISE_A = "UPDATE pools_pool SET last_quota = 8, quota_after = 6, quota_until = now() + interval '1 day',"
REFUSED = {
    "no list": ("UPDATE pools_pool SET flavors = '{}' WHERE name = 'team'", "pool_flavors"),
    "a name twice": (
        f"UPDATE pools_pool SET flavors = {rows(a100=12)}::jsonb || {rows(a100=0)}::jsonb WHERE name = 'team'",
        "",
    ),
    "a negative quota": (f"UPDATE pools_pool SET flavors = {rows(h100=13, a100=-1)} WHERE name = 'team'", ""),
    "half a GPU": (f"UPDATE pools_pool SET flavors = {rows(h100=11.5, a100=0.5)} WHERE name = 'team'", ""),
    "a text": (f"UPDATE pools_pool SET flavors = {rows(h100='12')} WHERE name = 'team'", ""),
    "null": (f"UPDATE pools_pool SET flavors = {rows(h100=None)} WHERE name = 'team'", ""),
    "an unknown key": (
        """UPDATE pools_pool SET flavors = '[{"flavor": "h100", "quota": 12, "weight": 1}]' WHERE name = 'team'""",
        "",
    ),
    "limits of a subpool": (
        """UPDATE pools_pool SET flavors = '[{"flavor": "h100", "quota": 6, "maximum": 7}]' WHERE name = 'team--a'""",
        "",
    ),
    "a maximum below the quota": (
        """UPDATE pools_pool SET flavors = '[{"flavor": "h100", "quota": 12, "maximum": 7}]' WHERE name = 'team'""",
        "",
    ),
    "a limit without a cohort": (
        """UPDATE pools_pool SET flavors = '[{"flavor": "h100", "quota": 12, "lending_limit": 7}]'
        WHERE name = 'team'""",
        "",
    ),
    "a pool without its sum": (
        f"UPDATE pools_pool SET flavors = {rows(h100=9, a100=4)} WHERE name = 'team'",
        "flavors_sum_to_quota",
    ),
    "a guarantee without its parts": (
        "UPDATE pools_pool SET guarantee = 13 WHERE name = 'team'",
        "flavors_sum_to_quota",
    ),
    "an unlimited guarantee": ("UPDATE pools_pool SET guarantee = NULL WHERE name = 'team'", "*"),
    "a subpool without its sum": (
        "UPDATE pools_pool SET last_quota = 5 WHERE name = 'team--a'",
        "flavors_sum_to_quota",
    ),
    "more of a flavor than the pool has": (
        f"UPDATE pools_pool SET flavors = {rows(h100=7, a100=0)}, last_quota = 7 WHERE name = 'team--a'",
        "flavors_within_quota",
    ),
    "a flavor that the pool has not": (
        f"UPDATE pools_pool SET flavors = {rows(l40=6)} WHERE name = 'team--a'",
        "flavors_within_quota",
    ),
    "a subpool without flavors": (
        "UPDATE pools_pool SET flavors = '[]' WHERE name = 'team--b'",
        "flavors_sum_to_quota",
    ),
    "a pool without flavors": ("UPDATE pools_pool SET flavors = '[]' WHERE name = 'team'", "flavors_within_quota"),
    "a flavor that the backend does not name": (
        f"UPDATE pools_pool SET flavors = {rows(h100=8, a100=3, b200=1)} WHERE name = 'team'",
        "pool_flavor_known",
    ),
    "a backend that forgets a flavor": ("UPDATE pools_backend SET flavors = flavors - 0", "flavor_in_use"),
    "a temporary quota without its parts": (
        f"{RAISE_A} flavors = {rows(h100=6, a100=2)} WHERE name = 'team--a'",
        "flavors_sum_to_quota",
    ),
    "a flavor that rises when the others fall": (
        f"{RAISE_A} flavors = {rows(h100=6, a100=2)}, flavors_after = {rows(h100=3, a100=3)} WHERE name = 'team--a'",
        "flavors_within_quota",
    ),
    "parts of a temporary quota that is none": (
        f"UPDATE pools_pool SET flavors_after = {rows(h100=4, a100=2)} WHERE name = 'team--a'",
        "flavors_sum_to_quota",
    ),
}


@pytest.mark.parametrize(("sql", "rule"), REFUSED.values(), ids=REFUSED)
def test_raw_sql_is_refused(team: Pool, sql: str, rule: str) -> None:
    with pytest.raises(DatabaseError) as refusal, transaction.atomic():
        write(sql)
    found = refusal.value.__cause__.diag  # type: ignore[union-attr]
    assert rule == "*" or found.constraint_name == (rule or "pool_flavors")
    assert "%" not in str(found.message_primary)


def test_the_sentence_names_the_flavor_and_the_numbers(team: Pool) -> None:
    with pytest.raises(
        DatabaseError, match="The subpools of team have 9 h100 GPUs together, the quota of the pool is 8"
    ):
        write(f"UPDATE pools_pool SET flavors = {rows(h100=7, a100=0)}, last_quota = 7 WHERE name = 'team--a'")


def test_what_keeps_the_sums_passes_in_any_order(team: Pool) -> None:
    write(
        f"""UPDATE pools_pool SET flavors = {rows(h100=6, a100=2)}, last_quota = 8 WHERE name = 'team--b';
        UPDATE pools_pool SET flavors = {rows(h100=2, a100=2)}, last_quota = 4 WHERE name = 'team--a'"""
    )
    write(f"UPDATE pools_pool SET flavors = {rows(a100=4, h100=10)}, guarantee = 14 WHERE name = 'team'")
    write(
        f"""UPDATE pools_pool SET flavors = {rows(h100=4, a100=2)}, last_quota = 6, quota_after = 4,
        flavors_after = {rows(a100=2, h100=2)}, quota_until = now() + interval '1 day' WHERE name = 'team--a'"""
    )
    assert list(read_balance(Pool.objects.get(pk=team.pk)).kinds) == ["a100", "h100"]
    write("UPDATE pools_backend SET flavors = flavors - 2")
    assert len(Backend.objects.get(name="sim").flavors) == 2


def test_what_has_ended_keeps_its_flavors(team: Pool) -> None:
    write("UPDATE pools_pool SET subpool_state = 'ARCHIVED' WHERE name = 'team--a'")
    write(f"UPDATE pools_pool SET flavors = {rows(h100=12)} WHERE name = 'team'")
    with pytest.raises(DatabaseError, match="cannot change"), transaction.atomic():
        write(f"UPDATE pools_pool SET flavors = {rows(h100=6)} WHERE name = 'team--a'")


def test_a_subpool_names_its_flavors_also_where_its_pool_has_the_default_one(team: Pool) -> None:
    """Without names its quota would be in no flavor, and the flavors would not be its pool's sum."""
    write(f"UPDATE pools_pool SET flavors = {rows(h100=8, a100=4, default=6)}, guarantee = 18 WHERE name = 'team'")
    write(f"UPDATE pools_pool SET flavors = {rows(default=6)} WHERE name = 'team--a'")
    with pytest.raises(DatabaseError) as refusal, transaction.atomic():
        write("UPDATE pools_pool SET flavors = '[]' WHERE name = 'team--a'")
    assert "The flavors of team--a have 0 GPUs together, its quota is 6." in str(refusal.value)
    write("UPDATE pools_pool SET flavors = '[]', last_quota = 0 WHERE name = 'team--a'")


def test_a_subpool_that_lost_its_flavors_says_what_to_do(team: Pool) -> None:
    """An earlier version allowed it to raw SQL. Each later write of the tree names it, until its flavors are set."""
    with triggers_off():
        write("UPDATE pools_pool SET flavors = '[]' WHERE name = 'team--a'")
    with pytest.raises(DatabaseError) as refusal, transaction.atomic():
        write(f"UPDATE pools_pool SET flavors = {rows(h100=1)}, last_quota = 1 WHERE name = 'team--b'")
    said = "The flavors of team--a have 0 GPUs together, its quota is 6. Set its quotas by flavor first, each of them."
    assert said in str(refusal.value)
    apply_change(ResizeSubpool(parent="team", subpool_name="a", quotas={"h100": 4, "a100": 2}))
    check_deferred_constraints()
    assert Pool.objects.get(name="team--a").last_quota == 6
