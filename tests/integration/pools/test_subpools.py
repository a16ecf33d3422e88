"""Subpools over HTTP: each verb in each state, versions, repeats, dry runs, permissions (design, A2, D7, D8,
D10)."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.changes.pools import PutPool
from pools.models import AuditEntry, Pool
from tests.integration.pools.conftest import pool_config
from tests.support import world
from tests.support.api_client import ApiClient
from tests.support.world import ModuleData

SUBPOOLS = "/api/configs/pool/team/subpool"
A = f"{SUBPOOLS}/a"


@pytest.fixture(scope="module")
def team_admin_once(sim_once: str, module_data: ModuleData) -> ApiClient:
    with module_data():
        world.apply_change(PutPool(name="team", body=pool_config(100)))
        world.make_user("lena", "osmo-team-admin")
        who = world.call_as("lena")
        assert who("POST", SUBPOOLS, {"subpool_name": "a", "quota": 30}).status == 200
    return who


@pytest.fixture
def team_admin(team_admin_once: ApiClient, db: None) -> ApiClient:
    """The admin of pool `team`, with subpool `a` of 30, made once for this module."""
    return ApiClient(team_admin_once.token)


def _live_on_a() -> None:
    world.submit_workflow(world.admin_actor(), "team--a", 4)


def test_a_subpool_is_created_deleted_and_restored(team_admin: ApiClient) -> None:
    _live_on_a()
    deleted = team_admin("DELETE", A)
    assert (deleted.status, deleted.body["subpool_state"], deleted.body["quota"]) == (200, "DELETING", 0)
    assert (deleted.body["last_quota"], deleted.body["scheduling_quota"]) == (30, 4)
    cancelled = team_admin("POST", "/api/workflow/job-1/cancel")
    assert cancelled.status == 200
    assert team_admin("GET", A).body["subpool_state"] == "ARCHIVED"
    back = team_admin("POST", SUBPOOLS, {"subpool_name": "a", "quota": 10})
    assert (back.status, back.body["reactivated"], back.body["quota"]) == (200, True, 10)


@pytest.mark.parametrize(("method", "body"), [("PATCH", {"quota": 5}), ("DELETE", None)])
@pytest.mark.parametrize("state", ["DELETING", "ARCHIVED"])
def test_only_an_active_subpool_changes(team_admin: ApiClient, state: str, method: str, body: Any) -> None:
    if state == "DELETING":
        _live_on_a()
    assert team_admin("DELETE", A).body["subpool_state"] == state
    refused = team_admin(method, A, body)
    assert (refused.status, refused.codes) == (409, {("subpool_state", "wrong_state")})
    assert Pool.objects.get(name="team--a").last_quota == 30


def test_a_name_in_use_is_taken_also_during_its_drain(team_admin: ApiClient) -> None:
    _live_on_a()
    for _ in range(2):
        refused = team_admin("POST", SUBPOOLS, {"subpool_name": "a", "quota": 1})
        assert (refused.status, refused.codes) == (409, {("subpool_name", "name_taken")})
        team_admin("DELETE", A)


def test_if_match(team_admin: ApiClient) -> None:
    assert team_admin("GET", A).headers["ETag"] == '"1"'
    for version in ('"2"', "1", '"x"'):
        assert team_admin("PATCH", A, {"quota": 5}, if_match=version).status == 412, version
    assert team_admin("PATCH", A, {"quota": 5}, if_match='"1"').headers["ETag"] == '"2"'
    assert team_admin("DELETE", A, if_match="*").status == 200


def test_a_repeated_request_creates_one_subpool(team_admin: ApiClient) -> None:
    body = {"subpool_name": "b", "quota": 10}
    first = team_admin("POST", SUBPOOLS, body, idempotency_key="k")
    again = team_admin("POST", SUBPOOLS, body, idempotency_key="k")
    assert (first.status, again.status) == (200, 200)
    assert first.body == again.body
    assert first.headers["ETag"] == again.headers["ETag"] == '"1"', "what comes next needs it as If-Match"
    assert again.headers["Idempotent-Replayed"] == "true"
    assert AuditEntry.objects.filter(object="pool/team--b").count() == 1
    other = team_admin("POST", SUBPOOLS, {"subpool_name": "c", "quota": 10}, idempotency_key="k")
    assert (other.status, other.codes) == (409, {("Idempotency-Key", "key_reused")})
    assert not Pool.objects.filter(name="team--c").exists()


def test_a_refusal_leaves_its_key_free(team_admin: ApiClient) -> None:
    assert team_admin("POST", SUBPOOLS, {"subpool_name": "b", "quota": 71}, idempotency_key="k").status == 400
    assert team_admin("POST", SUBPOOLS, {"subpool_name": "b", "quota": 70}, idempotency_key="k").status == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", SUBPOOLS, {"subpool_name": "b", "quota": 70}),
        ("PATCH", A, {"quota": 100}),
        ("DELETE", A, {"cancel_pending": True}),
    ],
)
def test_a_dry_run_shows_the_effect_and_writes_nothing(
    team_admin: ApiClient, method: str, path: str, body: dict[str, Any]
) -> None:
    _live_on_a()
    before, trail = team_admin("GET", SUBPOOLS).body, AuditEntry.objects.count()
    tried = team_admin(method, path, body, query={"dry_run": "True"})
    assert (tried.status, tried.body["dry_run"], tried.body["violations"]) == (200, True, [])
    assert tried.body["before"] == before == team_admin("GET", SUBPOOLS).body
    assert AuditEntry.objects.count() == trail
    assert team_admin(method, path, body).status == 200
    assert team_admin("GET", SUBPOOLS).body == tried.body["after"]


def test_a_dry_run_names_the_work_that_would_drain(team_admin: ApiClient) -> None:
    _live_on_a()
    assert team_admin("DELETE", A, query={"dry_run": "True"}).body["draining"] == ["job-1"]
    team_admin("POST", SUBPOOLS, {"subpool_name": "b", "quota": 10})
    team_admin("DELETE", A)
    grown = team_admin("PATCH", f"{SUBPOOLS}/b", {"quota": 20}, query={"dry_run": "True"})
    assert (grown.status, grown.body["draining"]) == (200, []), "job-1 drains already, whatever happens to b"


FORBIDDEN = (
    ("POST", SUBPOOLS, {"subpool_name": "b", "quota": 71}, "quota_exceeds_parent"),
    ("POST", SUBPOOLS, {"subpool_name": "_b", "quota": 1}, "reserved_name"),
    ("POST", SUBPOOLS, {"subpool_name": "a", "quota": 1}, "name_taken"),
    ("PATCH", A, {"quota": 101}, "quota_exceeds_parent"),
)
UNREADABLE = (
    ("POST", SUBPOOLS, {"color": "red"}, {("color", "unknown_key"), ("subpool_name", "missing"), ("quota", "missing")}),
    ("POST", SUBPOOLS, {"subpool_name": 7, "quota": 1}, {("subpool_name", "bad_value")}),
    ("PATCH", A, {"quota": 1, "subpool_name": "z"}, {("subpool_name", "unknown_key")}),
    ("PATCH", A, {"quota": "much"}, {("quota", "bad_quota")}),
    ("PATCH", A, {"quota": -1}, {("quota", "negative_quota")}),
    ("DELETE", A, {"cancel_pending": "yes"}, {("cancel_pending", "bad_value")}),
)


def test_forbidden_changes_and_bad_input(team_admin: ApiClient) -> None:
    """A dry run of a forbidden change returns the violations."""
    for method, path, body, code in FORBIDDEN:
        tried = team_admin(method, path, body, query={"dry_run": "True"})
        assert (tried.status, tried.body["after"]) == (200, None)
        assert [violation["code"] for violation in tried.body["violations"]] == [code]
    for method, path, body, faults in UNREADABLE:
        refused = team_admin(method, path, body)
        assert (refused.status, refused.codes) == (400, faults)


def test_an_archived_subpool_is_read_by_name_and_hidden_from_lists(team_admin: ApiClient) -> None:
    team_admin("DELETE", A)
    assert team_admin("GET", A).status == 200
    assert team_admin("GET", SUBPOOLS).body["subpools"] == []
    shown = team_admin("GET", SUBPOOLS, query={"include_archived": "True"}).body["subpools"]
    assert [part["name"] for part in shown] == ["team--a"]
    assert team_admin("GET", f"{SUBPOOLS}/never").status == 404
