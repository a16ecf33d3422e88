"""The quotas of many subpools in one change: all of them or none, checked as they will be together."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from pools.domain.changes.pools import PatchPool
from pools.domain.changes.subpools import ResizeSubpool, ResizeSubpools
from pools.domain.errors import BadInput, Conflict, Forbidden, NotFound, Stale
from pools.models import AuditEntry, Pool
from pools.services.changes.seen_state import confirming_seen
from pools.services.configuration import subpool_quotas
from tests.integration.pools.conftest import pool_config
from tests.support import world
from tests.support.api_client import ApiClient, Callers

ADDRESS = "/api/configs/subpool_quotas"


@pytest.fixture
def pools(db: None) -> None:
    world.make_pool("team", 50, a=30, b=20)
    world.make_pool("other", 10, c=4)


def _quotas() -> dict[str, int | None]:
    return dict(Pool.objects.filter(parent__isnull=False).order_by("name").values_list("name", "last_quota"))


def test_gpus_move_between_full_subpools_in_one_step(pools: None) -> None:
    """One after the other this would be refused: the pool has no free GPUs."""
    before = AuditEntry.objects.count()
    result = world.apply_change(
        ResizeSubpools(quotas={"team--b": 35, "team--a": "30%", "other--c": 10}), description="swap"
    )
    assert _quotas() == {"other--c": 10, "team--a": 15, "team--b": 35}
    assert [each.row.name for each in result.changed] == ["other--c", "team--a", "team--b"]
    entries = AuditEntry.objects.order_by("-id")[: AuditEntry.objects.count() - before]
    assert {(entry.object, entry.description) for entry in entries} == {
        (f"pool/{name}", "swap") for name in ("other--c", "team--a", "team--b")
    }


def test_a_warning_names_its_subpool(pools: None) -> None:
    result = world.apply_change(ResizeSubpools(quotas={"team--a": "12.9", "team--b": 5}))
    (warning,) = result.warnings
    assert warning.startswith("team--a: 12.9 is not whole")


def test_a_quota_that_is_there_already_is_left_alone(pools: None) -> None:
    world.apply_change(PatchPool(name="team", patch={"resources": {"gpu": {"guarantee": 60}}}))
    world.apply_change(
        ResizeSubpool(parent="team", subpool_name="a", quota=40, until=timezone.now() + timedelta(days=1))
    )
    version = Pool.objects.get(name="team--a").version
    result = world.apply_change(ResizeSubpools(quotas={"team--a": 40, "team--b": 5}))
    assert [each.row.name for each in result.changed] == ["team--b"]
    row = Pool.objects.get(name="team--a")
    assert (row.version, row.quota_after) == (version, 30)
    world.apply_change(ResizeSubpools(quotas={"team--a": 41}))
    row = Pool.objects.get(name="team--a")
    assert (row.last_quota, row.quota_until, row.quota_after) == (41, None, None)


def test_every_fault_is_named_and_nothing_is_written(pools: None) -> None:
    with pytest.raises(BadInput) as refusal:
        world.apply_change(ResizeSubpools(quotas={"team--a": "lots", "team--zz": 1, "other--c": 1}))
    assert [(each.path, each.code) for each in refusal.value.details] == [
        ("quotas.team--a", "bad_quota"),
        ("quotas.team--zz", "unknown_subpool"),
    ]
    with pytest.raises(BadInput, match="would hold 51 GPUs; pool team guarantees 50"):
        world.apply_change(ResizeSubpools(quotas={"team--a": 31, "other--c": 1}))
    with pytest.raises(BadInput, match="is the name of a subpool"):
        world.apply_change(ResizeSubpools(quotas={"team": 1}))
    assert _quotas() == {"other--c": 4, "team--a": 30, "team--b": 20}


@pytest.mark.parametrize("quotas", [{}, {f"team--s{number}": 1 for number in range(subpool_quotas.MAX_QUOTAS + 1)}])
def test_the_number_of_quotas_is_bounded(db: None, quotas: dict[str, int]) -> None:
    with pytest.raises(BadInput, match=f"give 1 to {subpool_quotas.MAX_QUOTAS:,}"):
        world.apply_change(ResizeSubpools(quotas=quotas))


def test_what_somebody_saw_counts(pools: None) -> None:
    with confirming_seen("before", lambda: "after"), pytest.raises(Stale):
        world.apply_change(ResizeSubpools(quotas={"team--a": 1}))
    assert _quotas()["team--a"] == 30
    with confirming_seen("same", lambda: "same"):
        world.apply_change(ResizeSubpools(quotas={"team--a": 1}))
    assert _quotas()["team--a"] == 1


def test_a_second_person_approves_large_changes_one_by_one(pools: None) -> None:
    world.apply_change(PatchPool(name="team", patch={"approval_above": 5}))
    with pytest.raises(Conflict, match="one subpool at a time") as refusal:
        world.apply_change(ResizeSubpools(quotas={"team--a": 20, "team--b": 18}))
    assert [each.code for each in refusal.value.details] == ["approval_needed"]
    world.apply_change(ResizeSubpools(quotas={"team--a": 26, "team--b": 18}))
    assert _quotas()["team--a"] == 26


def test_each_pool_needs_its_role(pools: None, caller: Callers) -> None:
    lead = caller("lena", "osmo-team-admin", "osmo-other-user").actor
    world.apply_change(ResizeSubpools(quotas={"team--a": 29}), actor=lead)
    with pytest.raises(Forbidden, match="osmo-other-admin"):
        world.apply_change(ResizeSubpools(quotas={"team--a": 28, "other--c": 1}), actor=lead)
    with pytest.raises(NotFound):
        world.apply_change(ResizeSubpools(quotas={"team--a": 28}), actor=caller("nils").actor)
    assert _quotas() == {"other--c": 4, "team--a": 29, "team--b": 20}


def test_the_api_lists_previews_and_changes(empty_team: None, admin: ApiClient, nobody: ApiClient) -> None:
    assert admin("PUT", "/api/configs/pool/other", {"configs": pool_config(10)}).status == 200
    for pool, name, quota in (("team", "a", 30), ("team", "b", 70), ("other", "c", 4)):
        body = {"subpool_name": name, "quota": quota}
        assert admin("POST", f"/api/configs/pool/{pool}/subpool", body).status == 200
    assert admin("GET", ADDRESS).body == {"quotas": {"other--c": 4, "team--a": 30, "team--b": 70}}
    assert admin("GET", ADDRESS, query={"pool": "other"}).body == {"quotas": {"other--c": 4}}
    assert nobody("GET", ADDRESS).body == {"quotas": {}}
    wanted = {"quotas": {"team--a": 70, "team--b": 30}}
    effect = admin("PATCH", ADDRESS, wanted, query={"dry_run": "true"})
    assert effect.status == 200
    after = {part["subpool_name"]: part["quota"] for part in effect.body["after"]["team"]["subpools"]}
    assert after == {"a": 70, "b": 30}
    assert _quotas()["team--a"] == 30
    answer = admin("PATCH", ADDRESS, wanted | {"description": "swap"})
    assert [each["name"] for each in answer.body["subpools"]] == ["team--a", "team--b"]
    assert _quotas()["team--a"] == 70
    refused = admin("PATCH", ADDRESS, {"quotas": {"team--a": 71}}, query={"dry_run": "true"})
    assert [each["code"] for each in refused.body["violations"]] == ["quota_exceeds_parent"]
    assert admin("PATCH", ADDRESS, {"quotas": [1]}).codes == {("quotas", "bad_value")}
    assert nobody("PATCH", ADDRESS, wanted).status == 404
