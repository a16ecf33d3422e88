"""Permissions to read and write pools: each test has a user with the permission, a user without, and similar names."""

from __future__ import annotations

import pytest

from tests.integration.pools.conftest import pool_config
from tests.support.api_client import ApiClient, Callers

CONFIG = "/api/configs/pool"


@pytest.fixture
def similar_pool_names(empty_team: None, admin: ApiClient) -> None:
    """Pools whose names begin or end as `team`'s roles do."""
    for name in ("team2", "team-x", "a", "a-admin", "team-user"):
        assert admin("PUT", f"{CONFIG}/{name}", {"configs": pool_config(10)}).status == 200


def test_a_role_of_a_similar_name_changes_nothing(similar_pool_names: None, caller: Callers) -> None:
    """That only osmo-admins configure pools: tests/integration/identity/test_authorisation.py."""
    for role in ("osmo-team2-admin", "osmo-team-x-admin", "osmo-team-user-admin", "osmo-a-admin-admin"):
        who = caller(f"h-{role}", role)
        for method, path, body in (
            ("PATCH", f"{CONFIG}/team", {"configs_dict": {"description": "x"}}),
            ("POST", f"{CONFIG}/team/subpool", {"subpool_name": "b", "quota": 1}),
            ("PATCH", f"{CONFIG}/team/subpool/a", {"quota": 1}),
        ):
            assert who(method, path, body).status == 404, (role, path)


def test_platform_objects_are_read_by_readers_of_the_platform(
    empty_team: None, admin: ApiClient, viewer: ApiClient, nobody: ApiClient, caller: Callers
) -> None:
    tess = caller("tess", "osmo-team-admin")
    for path in ("backend", "backend/sim", "history", "diff?first_revision=1"):
        found = [who("GET", f"/api/configs/{path}").status for who in (admin, viewer, nobody, tess)]
        assert found == [200, 200, 403, 403], path


@pytest.mark.parametrize(
    ("roles", "seen"),
    [
        ([], set()),
        (["osmo-team-user"], {"team"}),
        (["osmo-team-admin"], {"team"}),
        (["osmo-team2-user"], {"team2"}),
        (["osmo-team-x-user"], {"team-x"}),
        (["osmo-team-user-user"], {"team-user"}),
        (["osmo-a-admin"], {"a"}),
        (["osmo-a-admin-user"], {"a-admin"}),
        (["osmo-a-admin-admin", "osmo-team-user"], {"a-admin", "team"}),
        (["osmo-viewer"], {"team", "team2", "team-x", "a", "a-admin", "team-user"}),
        (["osmo-admin"], {"team", "team2", "team-x", "a", "a-admin", "team-user"}),
    ],
    ids=lambda value: " ".join(sorted(value)) or "none",
)
def test_every_list_shows_exactly_the_pools_of_the_role(
    similar_pool_names: None, admin: ApiClient, caller: Callers, roles: list[str], seen: set[str]
) -> None:
    assert admin("POST", f"{CONFIG}/team/subpool", {"subpool_name": "a", "quota": 3}).status == 200
    with_subpool = seen | ({"team--a"} if "team" in seen else set())
    who = caller("somebody", *roles)
    assert set(who("GET", "/api/pool").body["pools"]) == with_subpool
    quota = who("GET", "/api/pool_quota").body
    assert {row["name"] for nodes in quota["node_sets"] for row in nodes["pools"]} == with_subpool
    assert int(quota["resource_sum"]["quota_limit"]) == sum(100 if name == "team" else 10 for name in seen)
    assert set(who("GET", CONFIG).body["pools"]) == seen
    named = {pool for node in who("GET", "/api/resources").body["resources"] for pool in node["pool_platform_labels"]}
    assert named == seen
    for name in ("team", "team2", "team-x", "a", "a-admin", "team-user"):
        status = 200 if name in seen else 404
        assert who("GET", f"{CONFIG}/{name}").status == status
        assert who("GET", f"{CONFIG}/{name}/platform").status == status
        assert who("GET", f"{CONFIG}/{name}/subpool").status == status
    assert who("GET", f"{CONFIG}/team--a").status == (200 if "team" in seen else 404)
    body = who("GET", "/api/pool_quota", query={"pools": ["team", "team2", "team--a", "none"]}).body
    rows = {row["name"] for nodes in body["node_sets"] for row in nodes["pools"]}
    assert rows == with_subpool & {"team", "team2", "team--a"}


def test_an_unknown_address_below_a_known_one(nobody: ApiClient) -> None:
    for path in ("pool/a/b", "pool/a/subpool/b/c", "history/pool/revision/x", "workflow/x"):
        for method in ("GET", "DELETE"):
            answer = nobody(method, f"/api/configs/{path}")
            assert (answer.status, answer.body["error_code"]) == (404, "NOTFOUND")
            assert answer.body["message"] == "There is nothing at this address."


def test_unsupported_configuration(nobody: ApiClient) -> None:
    for kind in ("role", "service", "dataset/x", "pod_template"):
        for method in ("GET", "PUT", "DELETE"):
            answer = nobody(method, f"/api/configs/{kind}")
            assert (answer.status, answer.body["error_code"]) == (400, "USER")
            assert "not offered here" in answer.body["message"]
