"""Putting, changing, moving and deleting cohorts through their services."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.changes.cohorts import CreateCohort, DeleteCohort, PatchCohort, PutCohort
from pools.domain.changes.command import ChangeCommand
from pools.domain.changes.pools import CreatePool, DeletePool, PatchPool
from pools.domain.changes.revisions import RollBack
from pools.domain.errors import BadInput, Conflict, DomainError, Forbidden, NotFound, Stale
from pools.models import Cohort, ConfigRevision, Pool
from tests.integration.cohorts.conftest import create_cohorts, create_member_pool, gpu_quota_row
from tests.support import world

pytestmark = pytest.mark.django_db


def put(name: str, **body: Any) -> Cohort:
    return world.apply_change(PutCohort(name=name, body=body)).row


def refused_codes(command: ChangeCommand) -> set[tuple[str, str]]:
    """(path, code) of every fault."""
    with pytest.raises(DomainError) as error:
        world.apply_change(command)
    return {(fault.path, fault.code) for fault in error.value.details}


def test_an_implicit_cohort_exists_as_long_as_it_is_named() -> None:
    put("team", parent="org")
    named = Cohort.objects.get(name="org")
    assert (named.explicit, named.quotas, named.parent) == (False, {}, None)
    put("org", quotas=[gpu_quota_row(4)], weight=0.5)
    assert Cohort.objects.get(name="org").explicit
    put("team", parent="elsewhere")
    assert set(Cohort.objects.values_list("name", flat=True)) == {"team", "org", "elsewhere"}
    put("team", parent=None)
    assert set(Cohort.objects.values_list("name", flat=True)) == {"team", "org"}


def test_a_pool_names_a_cohort_too() -> None:
    create_member_pool("p", "org", 4)
    assert not Cohort.objects.get(name="org").explicit
    world.apply_change(PatchPool(name="p", patch={"cohort": None}))
    assert not Cohort.objects.exists()
    create_member_pool("q", "org", 4)
    world.apply_change(DeletePool(name="q"))
    assert not Cohort.objects.exists()


def test_all_faults_at_once() -> None:
    body = {
        "parent": "Bad--Name",
        "quotas": [
            {"flavor": "default", "resource": "gpu", "nominal": -1, "borrowing_limit": -2},
            {"flavor": "default", "resource": "gpu", "nominal": 1},
            {"flavor": "a/b", "resource": "x", "nominal": 1.5},
            {"nominal": 1, "speed": 2},
        ],
        "weight": -1,
        "colour": "red",
    }
    assert refused_codes(PutCohort(name="-x", body=body)) == {
        ("name", "bad_name"),
        ("parent", "separator_in_name"),
        ("quotas[0].nominal", "negative"),
        ("quotas[0].borrowing_limit", "negative"),
        ("quotas[1]", "duplicate"),
        ("quotas[2].flavor", "bad_name"),
        ("quotas[2].nominal", "bad_value"),
        ("quotas[3].resource", "missing"),
        ("quotas[3].speed", "unknown_key"),
        ("weight", "bad_weight"),
        ("colour", "unknown_key"),
    }
    assert not Cohort.objects.exists()


def test_an_invalid_weight() -> None:
    for weight, code in (
        ("1", "bad_value"), (True, "bad_value"), (float("inf"), "bad_value"), (10**10, "too_large"),
        (1e-10, "bad_weight"),
    ):  # fmt: skip
        assert refused_codes(PutCohort(name="org", body={"weight": weight})) == {("weight", code)}


def test_limits_need_a_parent() -> None:
    assert refused_codes(PutCohort(name="org", body={"quotas": [gpu_quota_row(4, 1, 2)]})) == {
        ("quotas[0].borrowing_limit", "limit_without_parent"),
        ("quotas[0].lending_limit", "limit_without_parent"),
    }
    world.make_pool("p", 10)
    patch = {"borrowing_limit": 1, "lending_limit": 12}
    assert refused_codes(PatchPool(name="p", patch=patch)) == {
        ("borrowing_limit", "limit_without_parent"),
        ("lending_limit", "limit_without_parent"),
        ("lending_limit", "lending_above_nominal"),
    }
    assert refused_codes(PatchPool(name="p", patch={"cohort": "Org", "borrowing_limit": -1})) == {
        ("cohort", "bad_name"),
        ("borrowing_limit", "negative"),
    }


def test_a_cohort_lends_of_its_whole_subtree_so_its_limit_may_be_above_its_own_quota() -> None:
    create_cohorts("corp 0", "  research 0 lend 5")
    assert Cohort.objects.get(name="research").quotas["default/gpu"]["lending_limit"] == 5


def test_a_cycle_is_refused_and_named_whole() -> None:
    create_cohorts("a 0", "  b 0", "    c 0")
    with pytest.raises(BadInput, match="a → c → b → a") as error:
        put("a", parent="c")
    assert dict(error.value.details[0].numbers) == {"cycle": ["a", "c", "b"]}
    assert refused_codes(PutCohort(name="a", body={"parent": "a"})) == {("parent", "cycle")}
    assert refused_codes(PutCohort(name="new", body={"parent": "new"})) == {("parent", "cycle")}


def test_moving_moves_the_whole_subtree() -> None:
    create_cohorts("a 0", "  b 3 borrow 1", "    c 2", "z 0")
    result = world.apply_change(PatchCohort(name="b", patch={"parent": "z"}))
    assert result.row.parent is not None
    assert (result.row.parent.name, result.row.quotas["default/gpu"]["borrowing_limit"]) == ("z", 1)
    assert Cohort.objects.get(name="c").parent_id == result.row.pk
    alone = world.apply_change(PatchCohort(name="b", patch={"parent": None})).row
    assert (alone.parent, alone.quotas["default/gpu"]["borrowing_limit"]) == (None, None)
    with pytest.raises(NotFound):
        world.apply_change(PatchCohort(name="nobody", patch={"parent": None}))


def test_a_patch_replaces_what_it_names() -> None:
    create_cohorts("a 0", "  b 3 borrow 1")
    row = world.apply_change(PatchCohort(name="b", patch={"quotas": [gpu_quota_row(5)]})).row
    assert row.parent is not None
    assert (row.parent.name, row.quotas["default/gpu"]["nominal"]) == ("a", 5)
    assert row.quotas["default/gpu"]["borrowing_limit"] is None


def test_deleting_a_cohort_with_children_needs_orphan() -> None:
    create_cohorts("top 0", "  org 3", "    below 2 borrow 1 lend 1", "    other 0")
    create_member_pool("p", "org", 8, borrow=2, lend=3)
    with pytest.raises(Conflict) as error:
        world.apply_change(DeleteCohort(name="org"))
    assert [(each.path, dict(each.numbers)) for each in error.value.details] == [
        ("cohorts", {"cohorts": 2}),
        ("pools", {"pools": 1}),
    ]
    revisions = ConfigRevision.objects.count()
    world.apply_change(DeleteCohort(name="org", orphan=True))
    below, pool = Cohort.objects.get(name="below"), Pool.objects.get(name="p")
    assert (below.parent, below.quotas["default/gpu"]) == (
        None,
        {"nominal": 2, "borrowing_limit": None, "lending_limit": None},
    )
    assert (pool.cohort, pool.borrowing_limit, pool.lending_limit) == (None, None, None)
    assert ConfigRevision.objects.count() == revisions + 1
    world.apply_change(DeleteCohort(name="below"))
    with pytest.raises(NotFound):
        world.apply_change(DeleteCohort(name="below"))


def test_a_refusal_names_the_first_ten_below_it() -> None:
    create_cohorts("top 0", "  org 0", *(f"    c{number:02} 0" for number in range(12)))
    with pytest.raises(Conflict) as error:
        world.apply_change(DeleteCohort(name="org"))
    assert "c00, c01, c02, c03, c04, c05, c06, c07, c08, c09 and 2 more)" in error.value.message


def test_the_role_and_the_version_are_checked() -> None:
    create_cohorts("org 4")
    world.make_pool("p", 1)
    chief = world.make_user("chief", "osmo-p-admin", "osmo-viewer")
    for call in (
        lambda: world.apply_change(PutCohort(name="org", body={}), actor=chief),
        lambda: world.apply_change(DeleteCohort(name="org"), actor=chief),
    ):
        with pytest.raises(Forbidden):
            call()
    with pytest.raises(Stale):
        world.apply_change(PutCohort(name="org", body={}), expected_version=7)
    with pytest.raises(Stale):
        world.apply_change(PutCohort(name="new", body={}), expected_version=1)
    assert world.apply_change(PutCohort(name="org", body={"weight": 2}), expected_version=1).row.version == 2


def test_a_change_names_new_debts_and_stops_nothing() -> None:
    create_cohorts("corp 4", "  prod 0")
    create_member_pool("p", "prod", 6)
    world.make_reservation("p", 9)
    result = world.apply_change(PutCohort(name="corp", body={"quotas": [gpu_quota_row(1)]}))
    assert result.warnings == ("corp uses 2 GPUs beyond its limits: nothing is stopped, work that ends pays it back.",)
    again = world.apply_change(PutCohort(name="corp", body={"quotas": [gpu_quota_row(2)]}))
    assert again.warnings == ()
    moved = world.apply_change(PatchPool(name="p", patch={"borrowing_limit": 1}))
    assert moved.warnings == ("p uses 2 GPUs beyond its limits: nothing is stopped, work that ends pays it back.",)


def test_an_old_configuration_of_a_pool_brings_its_cohort_back() -> None:
    create_member_pool("p", "org", 8, lend=3)
    then = ConfigRevision.objects.order_by("-revision")[0].revision
    world.apply_change(PatchPool(name="p", patch={"cohort": None, "lending_limit": None}))
    world.apply_change(RollBack(revision=then))
    pool = Pool.objects.select_related("cohort").get(name="p")
    assert pool.cohort is not None
    assert (pool.cohort.name, pool.cohort.explicit, pool.lending_limit) == ("org", False, 3)


def test_a_quota_without_effect_is_a_warning() -> None:
    rows = [
        gpu_quota_row(2),
        gpu_quota_row(4000, resource="cpu"),
        gpu_quota_row(3, resource="gpu") | {"flavor": "h100"},
    ]
    (warning,) = world.apply_change(PutCohort(name="org", body={"quotas": rows})).warnings
    assert warning.startswith("default/cpu: shown in the tree, but admission does not check it")
    assert world.apply_change(PutCohort(name="org", body={"quotas": rows[:1]})).warnings == ()


def test_a_quota_above_the_nodes_is_a_warning() -> None:
    world.make_backend("sim", nodes=2, gpus=8)
    create_cohorts("corp 0", "  prod 0")
    create_member_pool("p", "prod", 10)
    grown = PutCohort(name="corp", body={"quotas": [gpu_quota_row(7)]})
    (warning,) = world.apply_change(grown).warnings
    assert warning.startswith(
        "Cohort corp has 7 GPUs of its own, and the pools on sim have 10 together; the nodes there "
    )
    assert world.apply_change(grown).warnings == (), "it has not grown"
    assert world.apply_change(PutCohort(name="corp", body={"quotas": [gpu_quota_row(6)]})).warnings == ()
    (alone,) = world.apply_change(PutCohort(name="other", body={"quotas": [gpu_quota_row(100)]})).warnings
    assert "the nodes there have 16" in alone


def test_create_makes_an_implicit_cohort_explicit_and_never_replaces_an_explicit_one() -> None:
    put("team", parent="org")
    world.apply_change(CreateCohort(name="org", body={"quotas": [gpu_quota_row(4)]}))
    assert refused_codes(CreateCohort(name="org", body={})) == {("name", "name_taken")}
    assert Cohort.objects.get(name="org").quotas["default/gpu"]["nominal"] == 4


def test_create_never_replaces_a_pool() -> None:
    world.make_pool("p", 10)
    body = {"backend": "sim", "resources": {"gpu": {"guarantee": 3}}}
    assert refused_codes(CreatePool(name="p", body=body)) == {("name", "name_taken")}
    assert world.apply_change(CreatePool(name="q", body=body)).row.guarantee == 3
