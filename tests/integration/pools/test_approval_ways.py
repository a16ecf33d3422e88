"""No way of changing an amount by more than the limit of its pool does without a second person (docs/approvals.md).

`tests/unit/architecture/test_approved_changes.py` finds functions that write amounts without a check; here each service
and each address is asked for such a change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from pools.domain.approvals import ApprovalNeeded
from pools.domain.changes.backends import PutBackend
from pools.domain.changes.cohorts import DeleteCohort, PatchCohort, PutCohort
from pools.domain.changes.command import ChangeCommand
from pools.domain.changes.pools import DeletePool, PatchPool, PutPool, PutPools
from pools.domain.changes.revisions import RollBack
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool, ResizeSubpool, ResizeSubpools
from pools.domain.errors import Conflict
from pools.models import Cohort, ConfigRevision, Pool
from pools.services.changes.approval_check import approved
from pools.services.configuration.subpools import end_temporary_quotas
from tests.integration.pools.conftest import pool_config
from tests.support import world
from tests.support.api_client import ApiClient

LIMITED: Mapping[str, Any] = {"approval_above": 10, "cohort": "org", "borrowing_limit": 20, "lending_limit": 30}
IN_A_DAY = timezone.now() + timedelta(days=1)
POOL = "/api/configs/pool/team"


@pytest.fixture
def nested_team(nested_team_once: None, db: None) -> None:
    """The pool of `make_nested_team`, made once."""


@pytest.fixture(scope="module")
def nested_team_once(module_data: Callable[[], Any]) -> None:
    with module_data():
        make_nested_team()


def make_nested_team() -> None:
    """Pool `team` of 100 GPUs in cohort org, which is below lab. Its subpools: `a` has 40 GPUs, `t` has 30 of which 20
    are temporary, `z` is archived and had 40. Changes of more than 10 GPUs need an approval."""
    world.make_backend()
    world.apply_change(PutBackend(name="sim2", body={"namespace": "ns2", "nodes": [{"name": "n", "gpus": 8}]}))
    for name, body in (("lab", {}), ("org", {"parent": "lab"}), ("other", {})):
        world.apply_change(PutCohort(name=name, body=body))
    world.apply_change(PutPool(name="team", body=pool_config(80)))
    world.apply_change(PutPool(name="team", body=pool_config(100, **{**LIMITED, "approval_above": None})))
    for name, quota in (("a", 40), ("t", 10), ("z", 40)):
        world.make_subpool("team", name, quota)
    world.apply_change(DeleteSubpool(parent="team", subpool_name="z"))
    until = timezone.now() + timedelta(days=1)
    world.apply_change(ResizeSubpool(parent="team", subpool_name="t", quota=30, until=until))
    world.apply_change(PatchPool(name="team", patch={"approval_above": 10}))


def _amounts() -> list[Any]:
    columns = ("name", "guarantee", "maximum", "cohort__name", "borrowing_limit", "lending_limit", "backend__name")
    columns += ("last_quota", "quota_until", "quota_after", "subpool_state", "archived", "config")
    parents = Cohort.objects.order_by("name").values_list("name", "parent__name")
    return [*Pool.objects.order_by("name").values_list(*columns), *parents]


def _first_revision() -> int:
    found: int = ConfigRevision.objects.filter(name="team").earliest("revision").revision
    return found


LARGER = {"resources": {"gpu": {"guarantee": 111}}}

CHANGES: dict[str, ChangeCommand] = {
    "put a pool": PutPool(name="team", body=pool_config(111, **LIMITED)),
    "put several pools": PutPools(configs={"team": pool_config(111, **LIMITED)}),
    "patch a guarantee": PatchPool(name="team", patch=LARGER),
    "patch a maximum": PatchPool(name="team", patch={"resources": {"gpu": {"maximum": 500}}}),
    "patch what it borrows": PatchPool(name="team", patch={"borrowing_limit": 31}),
    "patch what it lends": PatchPool(name="team", patch={"lending_limit": 19}),
    "leave the cohort": PatchPool(name="team", patch={"cohort": None, "borrowing_limit": None, "lending_limit": None}),
    "move to another cohort": PatchPool(name="team", patch={"cohort": "other"}),
    "move to another cluster": PatchPool(name="team", patch={"backend": "sim2"}),
    "remove the limit": PatchPool(name="team", patch={"approval_above": None}),
    "raise the limit with a quiet change": PatchPool(name="team", patch={"approval_above": 99, "hold_after": 60}),
    "delete its cohort": DeleteCohort(name="org", orphan=True),
    "delete the cohort above its cohort": DeleteCohort(name="lab", orphan=True),
    "move its cohort": PatchCohort(name="org", patch={"parent": "other"}),
    "put its cohort elsewhere": PutCohort(name="org", body={"parent": "other"}),
    "take its cohort out": PatchCohort(name="org", patch={"parent": None}),
    "put the cohort above below another": PatchCohort(name="lab", patch={"parent": "other"}),
    "create a subpool": CreateSubpool(parent="team", subpool_name="b", quota=11),
    "create it by percent": CreateSubpool(parent="team", subpool_name="b", quota="11%"),
    "recreate an archived one": CreateSubpool(parent="team", subpool_name="z", quota=11),
    "resize": ResizeSubpool(parent="team", subpool_name="a", quota=29),
    "resize for some time": ResizeSubpool(parent="team", subpool_name="a", quota=51, until=IN_A_DAY),
    "make a temporary quota lasting": ResizeSubpool(parent="team", subpool_name="t", quota=30),
    "end a temporary quota early": ResizeSubpool(parent="team", subpool_name="t", quota=10),
    "resize several": ResizeSubpools(quotas={"team--a": 29}),
    "hide a large change among small ones": ResizeSubpools(quotas={"team--a": 51, "team--t": 9}),
    "delete a subpool": DeleteSubpool(parent="team", subpool_name="a"),
}


@pytest.mark.parametrize("change", [*CHANGES.values(), None], ids=[*CHANGES, "roll back"])
def test_no_service_makes_the_change_alone(nested_team: None, change: ChangeCommand | None) -> None:
    change = change or RollBack(revision=_first_revision())
    before = _amounts()
    with pytest.raises(Conflict) as refusal:
        world.apply_change(change)
    assert {fault.code for fault in refusal.value.violations} == {"approval_needed"}
    assert _amounts() == before
    with approved():
        world.apply_change(change)  # only the approval was missing
    assert _amounts() != before


REQUESTS: dict[str, tuple[str, str, Any]] = {
    "many quotas": ("PATCH", "/api/configs/subpool_quotas", {"quotas": {"team--a": 29}}),
    "many pools": ("PUT", "/api/configs/pool", {"configs": {"team": pool_config(111, **LIMITED)}}),
    "a pool": ("PUT", POOL, pool_config(111, **LIMITED)),
    "for some time": ("PATCH", f"{POOL}/subpool/a", {"quota": 51, "until": ""}),
    "recreated": ("POST", f"{POOL}/subpool", {"subpool_name": "z", "quota": 20}),
    "deleted": ("DELETE", f"{POOL}/subpool/a", None),
    "a cohort that moves": ("PATCH", "/api/configs/cohort/org", {"parent": "other"}),
    "a cohort that goes": ("DELETE", "/api/configs/cohort/lab?orphan=true", None),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS.keys())
def test_no_address_makes_the_change_alone(nested_team: None, admin: ApiClient, request_: tuple[str, str, Any]) -> None:
    method, path, body = request_
    if body and "until" in body:
        body = body | {"until": IN_A_DAY.strftime("%Y-%m-%dT%H:%M:%S")}
    before = _amounts()
    answer = admin(method, path, body)
    assert (answer.status, {code for _, code in answer.codes}) == (409, {"approval_needed"}), answer.body
    assert _amounts() == before


def test_a_cohort_moves_where_nothing_of_a_limited_pool_changes(nested_team: None) -> None:
    with approved():
        world.apply_change(PatchPool(name="team", patch={"borrowing_limit": 10, "lending_limit": 10}))
    world.apply_change(PatchCohort(name="org", patch={"parent": "other"}))
    assert Cohort.objects.get(name="org").parent.name == "other"  # type: ignore[union-attr]


def test_the_refusal_of_a_move_names_both_places_and_a_remedy(nested_team: None) -> None:
    with pytest.raises(Conflict) as refusal:
        world.apply_change(PatchCohort(name="org", patch={"parent": None}))
    assert "borrowing limit of team would change from 20 GPUs in cohort lab to" in refusal.value.message
    assert "20 GPUs in cohort org, which has no parent" in refusal.value.message
    assert "?request_approval=true with the new cohort" in refusal.value.message
    assert {fault.path for fault in refusal.value.violations} == {"pools.team"}


def test_a_cycle_that_raw_sql_made_is_measured_once(nested_team: None) -> None:
    with world.triggers_off():
        Cohort.objects.filter(name="lab").update(parent=Cohort.objects.get(name="org"))
    with pytest.raises(Conflict) as refusal:
        world.apply_change(PatchCohort(name="lab", patch={"parent": None}))
    assert [dict(fault.numbers)["amount"] for fault in refusal.value.violations] == ["borrowing limit", "lending limit"]


def test_the_end_of_a_temporary_quota_was_approved_with_it(nested_team: None) -> None:
    with world.triggers_off():
        Pool.objects.filter(name="team--t").update(quota_until=timezone.now() - timedelta(hours=1))
    assert end_temporary_quotas() == 1
    assert Pool.objects.get(name="team--t").last_quota == 10


def test_an_archived_pool_keeps_its_limit_when_it_comes_back(nested_team: None) -> None:
    with approved():
        for name in "at":
            world.apply_change(DeleteSubpool(parent="team", subpool_name=name))
        world.apply_change(DeletePool(name="team"))
    with pytest.raises(ApprovalNeeded):
        world.apply_change(PutPool(name="team", body=pool_config(100, **LIMITED)))
