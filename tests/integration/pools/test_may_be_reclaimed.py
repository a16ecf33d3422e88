"""Dry runs name the LOW work that a change would reclaim (design, A2). That a dry run of any change names exactly what
is reclaimed later: tests/properties/test_previews.py."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.changes.subpools import ResizeSubpool
from pools.models import AuditEntry, Backend
from scheduling.domain.priorities import Priority
from tests.support import world
from tests.support.api_client import ApiClient, Callers
from tests.support.world import apply_change, reconcile, sign_in

TEAM = "/api/configs/pool/team"
B = f"{TEAM}/subpool/b"
TRY = {"dry_run": "True"}


def reclaimed_names(answer: Any) -> tuple[list[str], int]:
    assert answer.status == 200, answer.body
    return answer.body["may_be_reclaimed"], answer.body["may_be_reclaimed_elsewhere"]


def _submit_waiting_work_to_b() -> None:
    """Submit 2 GPUs of NORMAL work to subpool `b`, and set its quota to 0 before they start."""
    Backend.objects.update(offline=True)
    world.submit_workflow(world.admin_actor(), "team--b", 2, name="waits")
    apply_change(ResizeSubpool(parent="team", subpool_name="b", quota=0))
    Backend.objects.update(offline=False)
    reconcile()


@pytest.fixture
def team_admin(caller: Callers) -> ApiClient:
    """The admin of `team`: 8 GPUs on 8 GPUs of nodes, all held by LOW work of subpool `a` (quota 4); a NORMAL gang of 2
    waits on subpool `b`, whose quota was cut to 0."""
    world.make_pool("team", 8, on=world.make_backend(nodes=1, gpus=8), a=4, b=2)
    for name in ("old", "new"):
        world.submit_workflow(world.admin_actor(), "team--a", 4, name=name, priority=Priority.LOW)
        reconcile()
    _submit_waiting_work_to_b()
    return caller("lena", "osmo-team-admin")


def test_a_quota_that_starts_guaranteed_work_names_the_reclaimed_low_work(
    team_admin: ApiClient, admin: ApiClient
) -> None:
    before = AuditEntry.objects.count()
    assert reclaimed_names(team_admin("PATCH", B, {"quota": 2}, query=TRY)) == (["new-1"], 0)
    assert reclaimed_names(team_admin("PATCH", B, {"quota": 1}, query=TRY)) == ([], 0)
    assert reclaimed_names(team_admin("DELETE", B, query=TRY)) == ([], 0)
    refused = team_admin("PATCH", B, {"quota": 50}, query=TRY)
    assert (reclaimed_names(refused), bool(refused.body["violations"])) == (([], 0), True)
    assert AuditEntry.objects.count() == before


def test_a_cut_of_the_pool_itself(team_admin: ApiClient, admin: ApiClient) -> None:
    """The pool loses its guarantee, so guaranteed work of another pool on the same nodes reclaims its GPUs."""
    world.make_pool("other", 4)
    Backend.objects.update(offline=True)
    world.submit_workflow(world.admin_actor(), "other", 4, name="theirs")
    Backend.objects.update(offline=False)
    for guarantee, taken in ((8, []), (4, ["new-1"])):
        resources = {"resources": {"gpu": {"guarantee": guarantee, "maximum": -1, "weight": 1}}}
        assert reclaimed_names(admin("PATCH", TEAM, {"configs_dict": resources}, query=TRY)) == (taken, 0)


def test_invisible_work_is_counted(caller: Callers) -> None:
    """`other` has borrowed the nodes it shares; the admin of `team` sees only the number of reclaimed
    workflows."""
    world.make_pool("team", 4, on=world.make_backend(nodes=1, gpus=8), b=2)
    world.make_pool("other", 0)
    world.submit_workflow(world.admin_actor(), "other", 8, name="secret", priority=Priority.LOW)
    reconcile()
    _submit_waiting_work_to_b()
    seen = caller("lena", "osmo-team-admin")("PATCH", B, {"quota": 2}, query=TRY)
    assert reclaimed_names(seen) == ([], 1)
    assert "secret" not in str(seen.body)
    assert reclaimed_names(caller("root", "osmo-admin")("PATCH", B, {"quota": 2}, query=TRY)) == (["secret-1"], 0)


def test_the_pages_of_a_change_show_it(team_admin: ApiClient) -> None:
    client = sign_in("lena")
    typed = {"quota": "2", "description": "", "step": "preview"}
    text = client.post("/pools/team/subpools/b/resize", typed, follow=True).content.decode()
    assert "LOW work that will be reclaimed" in text
    assert "new-1" in text
    assert "nothing that runs is touched" not in text


def test_a_backend_that_goes_offline_and_online(admin: ApiClient) -> None:
    """The change of a backend itself: without it the work of the backend starts, with it none does."""
    world.make_pool("team", 8, on=world.make_backend(nodes=1, gpus=8))
    world.submit_workflow(world.admin_actor(), "team", 2, name="waits")
    address = "/api/configs/backend/sim"

    def names_of_effect(offline: bool) -> tuple[list[str], list[str]]:
        answer = admin("PUT", address, {"offline": offline}, query=TRY).body
        return answer["could_start"], answer["could_no_longer_start"]

    assert names_of_effect(offline=True) == ([], ["waits-1"])
    Backend.objects.update(offline=True)
    assert names_of_effect(offline=False) == (["waits-1"], [])
