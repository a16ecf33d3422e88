"""`/api/pool` and `/api/pool_quota`: the numbers add up, for any number of pools with the same queries."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.subpools import DeleteSubpool
from pools.models import Pool
from scheduling.domain.priorities import Priority
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.integration.pools.conftest import pool_config
from tests.support import world
from tests.support.api_client import ApiClient

CONFIG = "/api/configs/pool"


def put_pool(admin: ApiClient, name: str, body: dict[str, Any], **subpools: int) -> None:
    assert admin("PUT", f"{CONFIG}/{name}", {"configs": body}).status == 200
    for short, quota in subpools.items():
        world.make_subpool(name, short, quota)


def run_workflow(
    admin: ApiClient, leaf: str, gpus: int, *, count: int = 1, priority: Priority = Priority.NORMAL
) -> None:
    for _ in range(count):
        world.submit_workflow(admin.actor, leaf, gpus, priority=priority)
    reconcile_backend(Pool.objects.get(name=leaf).root.backend_id)


def rows(answer: Any) -> list[dict[str, Any]]:
    return [row for nodes in answer.body["node_sets"] for row in nodes["pools"]]


def row_texts(row: dict[str, Any]) -> tuple[Any, ...]:
    """The columns of the published table."""
    return (row["name"], row["status"], row["subpool_state"], row["gpu_quota"], row["used"], row["available"])


@pytest.fixture
def example(sim: str, admin: ApiClient) -> None:
    """The published example of `pool list`: 50 GPUs ran on the parent before it was divided."""
    put_pool(admin, "team", pool_config(100))
    run_workflow(admin, "team", 10, count=5)
    for short, quota in (("a", 30), ("b", 40), ("c", 20)):
        world.make_subpool("team", short, quota)
    run_workflow(admin, "team--a", 5)
    run_workflow(admin, "team--b", 5, count=2)


def test_the_published_example(example: None, admin: ApiClient) -> None:
    answer = admin("GET", "/api/pool_quota", query={"all_pools": True})
    assert [row_texts(row) for row in rows(answer)] == [
        ("team", "ONLINE", None, "10 (Total: 100)", 50, -40),
        ("team--a", "ONLINE", "ACTIVE", "30", 5, 25),
        ("team--b", "ONLINE", "ACTIVE", "40", 10, 30),
        ("team--c", "ONLINE", "ACTIVE", "20", 0, 20),
    ]
    nodes = {"total_capacity": "128", "total_free": "63"}
    assert rows(answer)[0]["resource_usage"] == nodes | {
        "quota_used": "50", "quota_free": "-40", "quota_limit": "10", "total_usage": "50",
    }  # fmt: skip
    assert answer.body["resource_sum"] == nodes | {
        "quota_used": "65", "quota_free": "35", "quota_limit": "100", "total_usage": "65",
    }  # fmt: skip


def test_low_work_counts_as_usage_and_not_against_the_quota(sim: str, admin: ApiClient) -> None:
    put_pool(admin, "team", pool_config(10))
    run_workflow(admin, "team", 20, priority=Priority.LOW)
    (row,) = rows(admin("GET", "/api/pool_quota"))
    assert (row["used"], row["available"], row["resource_usage"]["total_usage"]) == (0, 10, "20")
    assert row["resource_usage"]["total_free"] == "108"


def test_draining_and_archived_subpools(example: None, admin: ApiClient) -> None:
    world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    world.apply_change(DeleteSubpool(parent="team", subpool_name="c"))
    assert [row_texts(row)[0::2] for row in rows(admin("GET", "/api/pool_quota"))] == [
        ("team", None, 50),
        ("team--a", "DELETING", 5),
        ("team--b", "ACTIVE", 10),
    ]
    draining = rows(admin("GET", "/api/pool_quota", query={"pools": "team--a"}))
    assert [row_texts(row) for row in draining] == [("team--a", "ONLINE", "DELETING", "0", 5, -5)]
    hidden = {"pools": ["team", "team--c"]}
    assert [row["name"] for row in rows(admin("GET", "/api/pool_quota", query=hidden))] == ["team"]
    all_rows = rows(admin("GET", "/api/pool_quota", query={**hidden, "include_archived": True}))
    assert [row_texts(row)[:4] for row in all_rows] == [
        ("team", "ONLINE", None, "60 (Total: 100)"),
        ("team--c", "ONLINE", "ARCHIVED", "0"),
    ]
    assert set(admin("GET", "/api/pool").body["pools"]) == {"team", "team--a", "team--b"}


def test_an_archived_pool_has_no_quota(sim: str, admin: ApiClient) -> None:
    put_pool(admin, "team", pool_config(100), a=30)
    put_pool(admin, "other", pool_config(7))
    world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    assert [row["gpu_quota"] for row in rows(admin("GET", "/api/pool_quota"))] == ["7", "100"], "one number again"
    assert admin("DELETE", f"{CONFIG}/team").status == 200
    assert [row["name"] for row in rows(admin("GET", "/api/pool_quota"))] == ["other"]
    answer = admin("GET", "/api/pool_quota", query={"include_archived": "true"})
    assert [(row["name"], row["archived"], row["gpu_quota"]) for row in rows(answer)] == [
        ("other", False, "7"),
        ("team", True, "0"),
        ("team--a", True, "0"),
    ]
    assert answer.body["resource_sum"]["quota_limit"] == "7"


def test_without_a_guarantee_the_limit_is_the_capacity_of_the_nodes(sim: str, admin: ApiClient) -> None:
    put_pool(admin, "team", {"backend": "sim"})
    (row,) = rows(admin("GET", "/api/pool_quota"))
    assert (row["gpu_quota"], row["available"], row["resources"]) == ("128", 128, {"gpu": None})


def test_node_sets_and_sums_that_count_nodes_once(sim: str, admin: ApiClient) -> None:
    nodes = [{"name": f"{kind}{number}", "gpus": 8, "platform": kind} for kind in "abc" for number in (1, 2)]
    world.apply_change(PutBackend(name="mixed", body={"namespace": "m", "nodes": nodes, "auto_end": False}))
    world.apply_change(PutBackend(name="other", body={"namespace": "t", "nodes": nodes, "auto_end": False}))

    def pool_on_backend(backend: str, *platforms: str) -> dict[str, Any]:
        return pool_config(10) | {"backend": backend, "platforms": {name: {} for name in platforms}}

    put_pool(admin, "one", pool_on_backend("mixed", "a"), x=2)
    put_pool(admin, "two", pool_on_backend("mixed", "a", "b"))
    put_pool(admin, "three", pool_on_backend("mixed", "c"))
    put_pool(admin, "four", pool_on_backend("mixed", "none"))
    put_pool(admin, "five", pool_on_backend("mixed", "nowhere"))
    put_pool(admin, "six", pool_on_backend("other", "a"))
    run_workflow(admin, "six", 4)
    answer = admin("GET", "/api/pool_quota")
    assert [[row["name"] for row in nodes["pools"]] for nodes in answer.body["node_sets"]] == [
        ["five", "four"],
        ["one", "one--x", "two"],
        ["six"],
        ["three"],
    ]
    capacity = {row["name"]: row["resource_usage"]["total_capacity"] for row in rows(answer)}
    assert capacity == {"five": "0", "four": "0", "one": "32", "one--x": "32", "two": "32", "six": "16", "three": "16"}
    free = {row["name"]: row["resource_usage"]["total_free"] for row in rows(answer)}
    assert (free["six"], free["one"]) == ("12", "32"), "a node of the same name elsewhere is another node"
    assert answer.body["resource_sum"]["total_capacity"] == "64"
    assert answer.body["resource_sum"]["total_free"] == "60"
    assert answer.body["resource_sum"]["quota_limit"] == "60"
    alone = admin("GET", "/api/pool_quota", query={"pools": ["one"]})
    assert alone.body["resource_sum"]["total_capacity"] == "16", "with a filter, nodes are those of the named pools"


def test_status(sim: str, admin: ApiClient) -> None:
    put_pool(admin, "team", pool_config(10), a=1)
    for maintenance, offline, status in (
        (False, False, "ONLINE"), (False, True, "OFFLINE"), (True, False, "MAINTENANCE"), (True, True, "MAINTENANCE"),
    ):  # fmt: skip
        put_pool(admin, "team", pool_config(10, enable_maintenance=maintenance))
        assert admin("PUT", "/api/configs/backend/sim", {"offline": offline}).status == 200
        assert {row["status"] for row in rows(admin("GET", "/api/pool_quota"))} == {status}
        assert {body["status"] for body in admin("GET", "/api/pool").body["pools"].values()} == {status}
        assert admin("GET", f"{CONFIG}/team").body["status"] == status


def test_a_subpool_shows_the_configuration_of_its_parent(sim: str, admin: ApiClient) -> None:
    config = pool_config(
        100,
        maximum=120,
        weight=3,
        description='Zoë\'s "pool" \\ 100 %',
        platforms={"a": {"privileged_allowed": True, "allowed_mounts": ["/x"]}},
        default_platform="a",
        default_exec_timeout="2h",
        topology_keys=[{"key": "rack", "label": "x/rack"}],
        default_exit_actions={"FAIL": "1"},
    )
    put_pool(admin, "team", config, a=30)
    default = [{"pools": [{"name": "team"}]}]
    assert admin("GET", "/api/pool").body["node_sets"] == default, "the stock client's, even when it is divided"
    own = {"name", "resources", "parent_pool", "subpool_name", "subpool_state"}
    pools = admin("GET", "/api/pool").body["pools"]
    parent, part = pools["team"], pools["team--a"]
    assert {key: value for key, value in parent.items() if key not in own} == {
        key: value for key, value in part.items() if key not in own
    }
    assert part["resources"] == {"gpu": {"guarantee": 30, "maximum": 120, "weight": 3}}
    assert (part["parent_pool"], part["subpool_name"], part["subpool_state"]) == ("team", "a", "ACTIVE")
    assert parent["platforms"]["a"] == {
        "description": "",
        "host_network_allowed": False,
        "privileged_allowed": True,
        "allowed_mounts": ["/x"],
        "default_mounts": [],
    }
    added = {"resource_usage", "gpu_quota", "used", "available"}
    for row in rows(admin("GET", "/api/pool_quota")):
        assert {key: value for key, value in row.items() if key not in added} == pools[row["name"]]
        assert set(row) - set(pools[row["name"]]) == added


def test_names_are_sorted_as_text_with_subpools_under_their_pool(sim: str, admin: ApiClient) -> None:
    for name in ("team", "team2", "team-x", "a9", "a10"):
        put_pool(admin, name, pool_config(10), b=1, a=1)
    expected = [f"{name}{part}" for name in ("a10", "a9", "team", "team-x", "team2") for part in ("", "--a", "--b")]
    assert [row["name"] for row in rows(admin("GET", "/api/pool_quota"))] == expected
    assert list(admin("GET", "/api/pool").body["pools"]) == expected
