"""`osmo pool list` and `osmo pool show`."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from osmo_admin.cli.text.pool_table import order_as_tree, pool_table

SEED_EXAMPLE = """\
Pool            Status         Subpool State  GPU Quota        Used  Available
--------------  -------------  -------------  ---------------  ----  ---------
team            ONLINE         -              10 (Total: 100)  50    -40
├─ team--a      ONLINE         ACTIVE         30               5     25
├─ team--b      ONLINE         ACTIVE         40               10    30
└─ team--c      ONLINE         ACTIVE         20               0     20
"""


def usage_body(**numbers: int) -> dict[str, str]:
    keys = ("quota_used", "quota_free", "quota_limit", "total_usage", "total_capacity", "total_free")
    return {key: str(numbers.get(key, 0)) for key in keys}


def pool_row(name: str, gpu_quota: str, used: int, available: int, **more: Any) -> dict[str, Any]:
    row = {"name": name, "status": "ONLINE", "description": "", "parent_pool": None, "subpool_name": None}
    row |= {"subpool_state": None, "gpu_quota": gpu_quota, "used": used, "available": available}
    return row | {"resource_usage": usage_body()} | more


def subpool_row(
    name: str, gpu_quota: str, used: int, available: int, state: str = "ACTIVE", **more: Any
) -> dict[str, Any]:
    parent, _, short = name.partition("--")
    return pool_row(
        name, gpu_quota, used, available, parent_pool=parent, subpool_name=short, subpool_state=state, **more
    )


def quota_answer(*node_sets: list[dict[str, Any]], **sums: int) -> dict[str, Any]:
    return {"node_sets": [{"pools": rows} for rows in node_sets], "resource_sum": usage_body(**sums)}


TEAM = [
    pool_row("team", "10 (Total: 100)", 50, -40),
    subpool_row("team--a", "30", 5, 25),
    subpool_row("team--b", "40", 10, 30),
    subpool_row("team--c", "20", 0, 20),
]


def test_the_published_example_to_the_character(osmo, stub):
    stub.on("GET", "/api/pool_quota", quota_answer(TEAM))
    assert osmo.ok("pool", "list") == SEED_EXAMPLE
    assert stub.last.query == {"all_pools": ["True"]}


@pytest.mark.parametrize("words", [("-p", "team", "other"), ("-p", "team", "--pool", "other")])
def test_named_pools_are_requested_by_name(osmo, stub, words):
    stub.on("GET", "/api/pool_quota", quota_answer(TEAM))
    osmo.ok("pool", "list", *words)
    assert stub.last.query == {"pools": ["team", "other"], "all_pools": ["False"], "with_subpools": ["True"]}


def test_unknown_pools_are_not_found(osmo, stub):
    stub.on("GET", "/api/pool_quota", quota_answer())
    assert osmo.ok("pool", "list", "-p", "nope") == "Pools nope not found\n"
    assert osmo.ok("pool", "list") == "No pools available\n"


def test_several_pools_make_one_table_in_any_order_of_subpools(osmo, stub):
    stub.on("GET", "/api/pool_quota", quota_answer([TEAM[3], TEAM[0], TEAM[1]], [pool_row("vision", "100", 50, 50)]))
    lines = osmo.ok("pool", "list").splitlines()
    assert [line.split("  ")[0] for line in lines[2:]] == ["team", "├─ team--a", "└─ team--c", "vision"]
    assert lines[-1] == "vision          ONLINE         -              100              50    50"


def test_archived_subpools_are_hidden_by_default(osmo, stub):
    archived = subpool_row("team--old", "0", 0, 0, "ARCHIVED")
    stub.on("GET", "/api/pool_quota", quota_answer([*TEAM, archived]))
    assert osmo.ok("pool", "list") == SEED_EXAMPLE
    text = osmo.ok("pool", "list", "--include-archived")
    assert "└─ team--old" in text
    assert stub.last.query == {"all_pools": ["True"], "include_archived": ["True"]}


def test_a_draining_subpool_shows_quota_zero_and_a_negative_number():
    rows = [pool_row("team", "70 (Total: 100)", 0, 70), subpool_row("team--a", "0", 5, -5, "DELETING")]
    assert str(pool_table(quota_answer(rows))).splitlines()[-1].split() == [
        "└─",
        "team--a",
        "ONLINE",
        "DELETING",
        "0",
        "5",
        "-5",
    ]


def test_a_subpool_without_its_parent_has_no_prefix():
    assert order_as_tree([TEAM[1]]) == [("", TEAM[1])]


def test_mode_adds_the_nodes_and_sums(osmo, stub):
    rows = [
        pool_row(
            "team",
            "10 (Total: 100)",
            50,
            -40,
            resource_usage=usage_body(total_usage=60, total_capacity=128, total_free=68),
        ),
        subpool_row(
            "team--a", "30", 5, 25, resource_usage=usage_body(total_usage=7, total_capacity=128, total_free=68)
        ),
    ]
    sums = {"quota_limit": 40, "quota_used": 55, "quota_free": -15, "total_usage": 67}
    stub.on("GET", "/api/pool_quota", quota_answer(rows, total_capacity=128, total_free=68, **sums))
    used = osmo.ok("pool", "list", "-m", "used").splitlines()
    assert used[0].split("  ")[-1] == "Total Capacity"
    assert used[2].split() == [*["team", "ONLINE", "-", "10"], "(Total:", "100)", "50", "-40", "60", "128"]
    assert used[3].split()[-3:] == ["7", "128", "(shared)"]
    assert used[-1].split() == ["40", "55", "-15", "67", "128"]
    free = osmo.ok("pool", "list", "--mode", "free").splitlines()
    assert free[0].split("  ")[-1] == "Total Free"
    assert free[-1].split() == ["40", "55", "-15", "68"]


def test_a_server_without_subpools_is_shown_too():
    plain = {"name": "p", "description": "", "status": "ONLINE"}
    row = plain | {"resource_usage": usage_body(quota_limit=8, quota_used=3, quota_free=5)}
    assert str(pool_table(quota_answer([row]))).splitlines()[-1].split() == ["p", "ONLINE", "-", "8", "3", "5"]


def test_without_quota_only_names(osmo, stub):
    stub.on("GET", "/api/pool", {"pools": {"team": {"name": "team", "status": "ONLINE", "description": "Robots"}}})
    assert osmo.ok("pool", "list", "--no-quota").splitlines()[-1].split() == ["team", "ONLINE", "Robots"]


@pytest.mark.parametrize("words", [("-o", "json"), ("-t", "json"), ("--output", "JSON"), ("--format-type", "json")])
def test_json_is_the_servers_answer(osmo, stub, words):
    stub.on("GET", "/api/pool_quota", quota_answer(TEAM))
    assert json.loads(osmo.ok("pool", "list", *words)) == quota_answer(TEAM)


def test_yaml_is_the_servers_answer_in_its_order(osmo, stub):
    stub.on("GET", "/api/pool_quota", quota_answer(TEAM))
    text = osmo.ok("pool", "list", env={"OSMO_OUTPUT": "yaml"})
    assert yaml.safe_load(text) == quota_answer(TEAM)
    assert text.startswith("node_sets:")


def test_show_a_pool_with_its_subpools(osmo, stub):
    gpu = {"gpu": {"guarantee": 100, "maximum": -1, "weight": 1}}
    row = TEAM[0] | {"resources": gpu, "platforms": {"default": {}}, "backend": "simulated"}
    shared = {"queue": "q", "used": 50, "total_usage": 52, "available": -40, "quota": 10}
    sub = {"name": "team--a", "subpool_state": "ACTIVE", "quota": 30, "used": 5, "available": 25}
    sub |= {"total_usage": 7, "live_workflows": 2}
    stub.on("GET", "/api/pool_quota", quota_answer([row]))
    stub.on(
        "GET",
        "/api/configs/pool/team/subpool",
        {"pool": "team", "quota": 100, "unallocated": 10, "shared": shared, "subpools": [sub]},
    )
    text = osmo.ok("pool", "show", "team")
    assert len(stub.requests) == 2, "the subpools tell that the pool has no flavors"
    assert stub.requests[0].query == {"pools": ["team"], "all_pools": ["False"]}
    assert "Quota             : 100\nGuaranteed in use : 55\nGuaranteed free   : 45\nTotal in use      : 59\n" in text
    assert "Maximum           : unlimited" in text
    assert text.splitlines()[-1].split()[:7] == ["└─", "team--a", "ACTIVE", "30", "5", "25", "7"]


def test_show_a_pool_with_gpu_flavors(osmo, stub):
    gpu = {"gpu": {"guarantee": 48, "maximum": -1, "weight": 1}}
    stub.on("GET", "/api/pool_quota", quota_answer([pool_row("team", "48", 8, 40, resources=gpu)]))
    numbers = {"total_usage": 8, "can_start_now": 0, "low_can_start_now": 4, "pending": 2, "lending_limit": None}
    rows = [
        {"resource": "gpu", "flavor": flavor, "quota": quota, "borrowing_limit": limit, **numbers}
        for flavor, quota, limit in (("default", 48, None), ("h100", 16, 8), ("a100", 32, None))
    ]
    nodes = [{"name": "team", "kind": "cohort", "quotas": []}, {"name": "team", "kind": "pool", "quotas": rows}]
    stub.on("GET", "/api/quota_tree", {"nodes": nodes})
    text = osmo.ok("pool", "show", "team")
    assert "Maximum           : of each flavor, below" in text
    assert [line.split() for line in text.splitlines()[-2:]] == [
        ["h100", "16", "8", "0", "4", "2", "8", "-"], ["a100", "32", "8", "0", "4", "2", "-", "-"]
    ]  # fmt: skip


def test_show_as_json_is_one_request(osmo, stub):
    stub.on("GET", "/api/pool_quota", quota_answer([TEAM[0]]))
    assert json.loads(osmo.ok("pool", "show", "team", "-o", "json")) == quota_answer([TEAM[0]])
    assert len(stub.requests) == 1


def test_show_of_an_unknown_pool(osmo, stub):
    stub.on("GET", "/api/pool_quota", quota_answer())
    result = osmo("pool", "show", "nope")
    assert result.exit_code == 2
    assert result.stderr == "Error: There is no pool of this name that you may see. See the names: osmo pool list.\n"
