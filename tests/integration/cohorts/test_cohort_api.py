"""Cohorts and the tree of quotas over HTTP, with their keys (design, A4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pools.models import Cohort
from tests.integration.cohorts.conftest import (
    create_cohorts,
    create_member_pool,
    gpu_quota_row,
)
from tests.support import world
from tests.support.api_client import ApiClient, Callers

pytestmark = pytest.mark.django_db
ORG = "/api/configs/cohort/org"


def read_tree(call: ApiClient, root: str | None = None) -> dict[str, dict[str, Any]]:
    """Nodes by name; of a cohort and a pool that share one, the pool."""
    answer = call("GET", "/api/quota_tree", query={"root": root} if root else {})
    assert answer.status == 200, answer.body
    return {node["name"]: node for node in answer.body["nodes"]}


def node_numbers(nodes: dict[str, dict[str, Any]], name: str, *keys: str) -> list[Any]:
    """Some numbers of a node's GPUs."""
    (row,) = [row for row in nodes[name]["quotas"] if row["resource"] == "gpu"]
    return [row[number] for number in keys]


def test_put_get_list_delete(admin: ApiClient, viewer: ApiClient, nobody: ApiClient) -> None:
    body = {"parent": "corp", "quotas": [gpu_quota_row(4, None, 2)], "weight": 0.5}
    made = admin("PUT", ORG, body)
    assert made.status == 200
    assert made.headers["ETag"] == '"1"'
    shown = body | {
        "name": "org", "explicit": True, "active": True, "condition": None, "inactive_since": None, "cohorts": [],
        "pools": [], "version": 1, "warnings": [],
    }  # fmt: skip
    assert made.body == admin("GET", ORG).body == shown
    assert [who("GET", path).status for path in (ORG, "/api/configs/cohort") for who in (viewer, nobody)] == [
        200, 403, 200, 403,
    ]  # fmt: skip
    assert nobody("GET", "/api/quota_tree").body == {"nodes": []}
    assert admin("PUT", ORG, made.body | {"weight": 1}).body["version"] == 2
    listed = admin("GET", "/api/configs/cohort").body["cohorts"]
    assert [(each["name"], each["explicit"], each["cohorts"]) for each in listed] == [
        ("corp", False, ["org"]),
        ("org", True, []),
    ]
    assert admin("DELETE", "/api/configs/cohort/corp").status == 409
    assert admin("DELETE", ORG, if_match='"1"').status == 412
    assert admin("DELETE", ORG).body is None
    assert admin("GET", ORG).status == 404
    assert admin("GET", "/api/configs/cohort").body == {"cohorts": []}


def test_a_patch_moves_and_orphans_need_a_parameter(admin: ApiClient) -> None:
    create_cohorts("a 0", "  b 1", "z 0")
    assert admin("PATCH", "/api/configs/cohort/b", {"parent": "z", "description": "moved"}).body["parent"] == "z"
    assert admin("PATCH", "/api/configs/cohort/nope", {"parent": "z"}).status == 404
    in_body = admin("DELETE", "/api/configs/cohort/z", {"orphan": True})
    assert (in_body.status, in_body.body["details"][0]["code"]) == (400, "unknown_key")
    assert admin("DELETE", "/api/configs/cohort/z", query={"orphan": "True"}).status == 200
    assert admin("GET", "/api/configs/cohort/b").body["parent"] is None
    trail = admin("GET", "/api/audit", query={"object": "cohort/b"}).body["entries"]
    assert [entry["sentence"] for entry in trail] == [
        "root made cohort b the top of its own tree",
        "root moved cohort b below z: moved",
        "system configured cohort b below a with 1 GPU",
    ]


def test_bad_bodies_are_400_with_paths(admin: ApiClient) -> None:
    assert admin("PUT", ORG, {"quotas": "4"}).codes == {("quotas", "bad_value")}
    assert admin("PUT", ORG, {"quotas": [gpu_quota_row(2**60)]}).codes == {("quotas[0].nominal", "too_large")}
    assert admin("PUT", "/api/configs/cohort/UPPER", {}).codes == {("name", "bad_name")}
    assert admin("PUT", ORG, {"parent": "org"}).body["details"][0]["cycle"] == ["org"]
    assert admin("DELETE", ORG, {"force": True}).codes == {("force", "unknown_key")}


def test_the_tree_shows_the_worked_example(admin: ApiClient, create_corp_example: Callable[[], None]) -> None:
    create_corp_example()
    world.make_reservation("serve", 18)
    world.make_reservation("train", 9)
    nodes = read_tree(admin)
    assert [(node["name"], node["kind"], node["parent"]) for node in nodes.values()] == [
        ("corp", "cohort", None),
        ("prod", "cohort", "corp"),
        ("batch", "pool", "prod"),
        ("batch--_shared", "shared", "batch"),
        ("serve", "pool", "prod"),
        ("serve--_shared", "shared", "serve"),
        ("research", "cohort", "corp"),
        ("labs", "pool", "research"),
        ("labs--_shared", "shared", "labs"),
        ("train", "pool", "research"),
        ("train--_shared", "shared", "train"),
    ]
    names = ("corp", "prod", "research", "train", "labs")
    assert [node_numbers(nodes, name, "subtree_quota")[0] for name in names] == [29, 20, 12, 16, 0]
    assert [node_numbers(nodes, name, "t")[0] for name in ("corp", "prod", "research")] == [11, 2, 7]
    leaves = ("serve--_shared", "batch--_shared", "train--_shared", "labs--_shared")
    assert [node_numbers(nodes, name, "available")[0] for name in leaves] == [10, 7, 13, 2]
    assert [node_numbers(nodes, name, "potential_available")[0] for name in leaves] == [28, 7, 40, 2]
    assert node_numbers(nodes, "serve", "nominal", "borrowed", "borrowing_limit") == [0, 8, None]
    assert node_numbers(nodes, "prod", "nominal", "borrowing_limit", "lending_limit") == [6, 8, None]
    assert node_numbers(nodes, "batch", "lent", "lendable") == [2, 2]
    assert nodes["serve"]["weighted_share"] == 286  # 8 borrowed of the 28 that prod could give, in thousandths
    part = read_tree(admin, "prod")
    assert list(part) == ["prod", "batch", "batch--_shared", "serve", "serve--_shared"]
    assert part["serve"] == nodes["serve"]
    assert list(read_tree(admin, "serve")) == ["serve", "serve--_shared"]
    assert admin("GET", "/api/quota_tree", query={"root": "nowhere"}).status == 404


def test_draining_subpools_and_pending_work(admin: ApiClient) -> None:
    create_cohorts("org 0")
    world.make_pool("team", 100, a=30, b=20)
    admin("PATCH", "/api/configs/pool/team", {"cohort": "org", "lending_limit": 25})
    world.make_reservation("team--a", 12)
    world.make_reservation("team--b", 0, needs=7)
    nodes = read_tree(admin, "org")
    assert list(nodes) == ["org", "team", "team--_shared", "team--a", "team--b"]
    numbers = ("nominal", "subtree_quota", "usage", "pending", "lending_limit")
    assert node_numbers(nodes, "team", *numbers) == [0, 100, 12, 7, 25]
    assert node_numbers(nodes, "team--b", "nominal", "pending") == [20, 7]
    assert node_numbers(nodes, "org", "subtree_quota", "usage", "pending") == [25, 0, 7]


def test_users_see_their_pools_and_the_cohorts_above(
    admin: ApiClient, caller: Callers, create_corp_example: Callable[[], None]
) -> None:
    create_corp_example()
    world.make_pool("alone", 3)
    worker = caller("wanda", "osmo-serve-user")
    assert list(read_tree(worker)) == ["corp", "prod", "serve", "serve--_shared"]
    assert read_tree(worker)["serve"] == read_tree(admin)["serve"]
    assert list(read_tree(worker, "prod")) == ["prod", "serve", "serve--_shared"]
    for hidden in ("research", "batch", "alone"):
        assert worker("GET", "/api/quota_tree", query={"root": hidden}).status == 404


def test_a_pool_without_a_cohort_stands_alone_in_the_tree(admin: ApiClient) -> None:
    world.make_pool("alone", 10)
    admin("PATCH", "/api/configs/pool/alone", {"resources": {"gpu": {"maximum": 12}}})
    world.make_reservation("alone", 13)
    nodes = read_tree(admin)
    assert list(nodes) == ["alone", "alone--_shared"]
    assert node_numbers(nodes, "alone", "t", "debt", "borrowing_limit") == [-3, 1, 2]
    assert node_numbers(nodes, "alone--_shared", "debt") == [0]


def test_a_maximum_is_a_borrowing_limit(admin: ApiClient) -> None:
    create_cohorts("org 20")
    create_member_pool("p", "org", 10, borrow=7)
    admin("PATCH", "/api/configs/pool/p", {"resources": {"gpu": {"maximum": 14}}})
    assert node_numbers(read_tree(admin), "p", "borrowing_limit", "potential_available") == [4, 14]


def test_a_dry_run_shows_both_trees_and_every_debt(admin: ApiClient, create_corp_example: Callable[[], None]) -> None:
    create_corp_example()
    world.make_reservation("serve", 25)
    body = {"parent": "corp", "quotas": [gpu_quota_row(6, 3)]}
    answer = admin("PUT", "/api/configs/cohort/prod", body, query={"dry_run": "True"}).body
    assert answer["violations"] == []
    assert answer["before"]["quotas"][0]["borrowing_limit"] == 8
    assert answer["after"]["quotas"][0]["borrowing_limit"] == 3
    after = {node["name"]: node for node in answer["after"]["nodes"]}
    assert node_numbers(after, "prod", "t", "debt") == [-5, 2]
    assert answer["debts"] == [
        {"name": "prod", "kind": "cohort", "flavor": "default", "resource": "gpu", "before": 0, "after": 2}
    ]
    assert Cohort.objects.get(name="prod").version == 1
    cycle = admin("PUT", "/api/configs/cohort/corp", {"parent": "prod"}, query={"dry_run": "True"})
    assert (cycle.status, cycle.body["after"]) == (200, None)
    assert cycle.body["violations"][0]["code"] == "cycle"
    gone = admin("DELETE", "/api/configs/cohort/prod", query={"dry_run": "True"}).body
    assert {each["code"] for each in gone["violations"]} == {"has_children"}
    alone = {"parent": None, "quotas": [gpu_quota_row(6)]}
    moved = admin("PATCH", "/api/configs/cohort/prod", alone, query={"dry_run": "True"})
    assert [(each["name"], each["after"]) for each in moved.body["debts"]] == [("prod", 5)]
    assert admin("PUT", "/api/configs/cohort/prod", {"what": 1}, query={"dry_run": "True"}).status == 400
