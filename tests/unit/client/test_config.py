"""`osmo config`: showing, changing, deleting, history."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from osmo_admin.cli.text.effect_text import effect_text

POOLS = "/api/configs/pool"
CURRENT: dict[str, Any] = {
    "pools": {"team": {"name": "team", "backend": "simulated", "resources": {"gpu": {"guarantee": 100, "weight": 1}}}}
}
EFFECT = {"dry_run": True, "before": {"a": 1}, "after": {"a": 2}, "violations": []}


def test_show_the_whole_or_a_part(osmo, stub):
    stub.on("GET", POOLS, CURRENT)
    assert json.loads(osmo.ok("config", "show", "POOL")) == CURRENT
    assert stub.last.query == {}
    assert json.loads(osmo.ok("config", "show", "pool", "team", "resources", "gpu", "guarantee", "-v")) == 100
    assert stub.last.query == {"verbose": ["True"]}
    assert yaml.safe_load(osmo.ok("config", "show", "POOL", "team", "-o", "yaml")) == CURRENT["pools"]["team"]
    assert osmo.ok("config", "show", "POOL", "team", "backend", "-o", "yaml") == "simulated\n"
    result = osmo("config", "show", "POOL", "nope")
    assert (result.exit_code, result.stderr) == (2, "Error: There is nothing of this name here. There are: team.\n")


def test_show_lists_of_named_objects(osmo, stub):
    stub.on("GET", "/api/configs/role", [{"name": "osmo-admin", "policies": [{"effect": "Allow"}]}])
    assert osmo.ok("config", "show", "ROLE", "osmo-admin", "policies", "0", "effect") == '"Allow"\n'
    assert osmo("config", "show", "ROLE", "osmo-admin", "policies", "1").exit_code == 2


def test_show_a_revision(osmo, stub):
    stub.on("GET", "/api/configs/history", {"configs": [{"data": CURRENT}]}, {"configs": []})
    assert json.loads(osmo.ok("config", "show", "POOL:3", "team"))["name"] == "team"
    assert stub.last.query == {"config_types": ["POOL"], "omit_data": ["False"], "revision": ["3"]}
    assert "There is no revision 4 of POOL" in osmo("config", "show", "POOL:4").stderr
    for revision in ("x", "²"):
        assert "A revision is a number" in osmo("config", "show", f"POOL:{revision}").stderr


@pytest.mark.parametrize("form", [json.dumps, yaml.safe_dump])
def test_update_sends_the_differences_like_the_stock_client(osmo, stub, tmp_path, form):
    path = tmp_path / "pool"
    path.write_text(form({"backend": "simulated", "resources": {"gpu": {"guarantee": 80}}}))
    stub.on("GET", POOLS, CURRENT)
    stub.on("PATCH", f"{POOLS}/team", CURRENT["pools"]["team"])
    text = osmo.ok("config", "update", "POOL", "team", "-f", str(path), "-d", "fewer", "-t", "q4", "-t", "cut")
    assert text == "Successfully updated POOL config team.\n"
    assert stub.last.body == {
        "configs_dict": {"resources": {"gpu": {"guarantee": 80}}},
        "description": "fewer",
        "tags": ["q4", "cut"],
    }


def test_update_without_a_difference_sends_nothing(osmo, stub):
    stub.on("GET", POOLS, CURRENT)
    text = osmo.ok("config", "update", "POOL", "team", input='{"backend": "simulated"}')
    assert text == "No changes were made to the config.\n"
    assert [request.method for request in stub.requests] == ["GET"]


def test_update_of_a_pool_that_is_not_there(osmo, stub):
    stub.on("GET", POOLS, CURRENT)
    result = osmo("config", "update", "POOL", "new", input="{}")
    assert result.exit_code == 2
    assert "There is nothing of this name here." in result.stderr


def test_update_of_all_pools_is_one_put(osmo, stub):
    stub.on("PUT", POOLS, None)
    pools = {"new": {"backend": "simulated"}}
    result = osmo("config", "update", "POOL", "-f", "-", input=json.dumps({"pools": pools}))
    assert stub.last.body == {"configs": pools}
    assert "The file is the whole configuration of new: values that it leaves out have their defaults." in result.stderr
    assert osmo("config", "update", "POOL", input="{}").exit_code == 2


def test_update_of_the_workflow_config_and_of_a_backend(osmo, stub):
    stub.on("GET", "/api/configs/workflow", {"subpool_drain_interval_minutes": 15})
    stub.on("PATCH", "/api/configs/workflow", {})
    osmo.ok("config", "update", "WORKFLOW", input="subpool_drain_interval_minutes: 5")
    assert stub.last.body == {"configs_dict": {"subpool_drain_interval_minutes": 5}}
    stub.on("PUT", "/api/configs/backend/sim", {})
    osmo.ok(
        "config", "update", "BACKEND", "sim", "-d", "why", input="{type: simulated}"
    )  # YAML, although it begins like JSON
    assert stub.last.body == {"type": "simulated", "description": "why"}
    assert osmo("config", "update", "BACKEND", input="{}").exit_code == 2


def test_a_cluster_is_changed_where_people_look_for_it(osmo, stub, tmp_path):
    stub.on("PUT", "/api/configs/backend/prod", {"name": "prod"})
    file = tmp_path / "keys.yaml"
    file.write_bytes("queue_pools: {größe: a}\r\n".encode("utf-16"))
    text = osmo.ok("backend", "update", "prod", "--mode", "observe", "-f", str(file), "-d", "why")
    assert stub.last.body == {"mode": "observe", "queue_pools": {"größe": "a"}, "description": "why"}
    assert "Cluster prod has the new configuration." in text
    osmo.ok("backend", "update", "prod", "--mode", "manage")
    assert stub.last.body == {"mode": "manage"}
    assert osmo("backend", "update", "prod").exit_code == 2
    assert osmo("backend", "update", "prod", "--mode", "look").exit_code == 2


def test_the_effect_on_a_cluster_names_its_nodes(osmo, stub):
    nodes = [{"name": f"n{number}", "gpus": 8} for number in range(1, 8)]
    before = {"name": "sim", "type": "simulated", "nodes": nodes}
    after = before | {"nodes": [nodes[0] | {"gpus": 4}, nodes[1], {"name": "m1", "gpus": 8}]}
    stub.on("PUT", "/api/configs/backend/sim", {"dry_run": True, "before": before, "after": after})
    text = osmo.ok("config", "update", "BACKEND", "sim", "--dry-run", input=json.dumps(after))
    assert "nodes.n1.gpus: 8 → 4\n" in text
    assert "nodes: n3, n4, n5 and 2 more removed\nnodes: m1 added\n" in text


@pytest.mark.parametrize("text", ["[1]", "{", "a: [", "", "5"])
def test_a_file_that_is_not_a_configuration(osmo, stub, text):
    assert osmo("config", "update", "POOL", "team", input=text).exit_code == 2
    assert osmo("config", "update", "POOL", "team", "-f", "/does/not/exist").exit_code == 2
    assert stub.requests == []


def test_delete(osmo, stub):
    stub.on("DELETE", f"{POOLS}/team", None)
    assert osmo.ok("config", "delete", "POOL", "team") == 'Successfully deleted POOL config "team".\n'
    assert stub.last.body is None
    osmo.ok("config", "delete", "POOL", "team", "-d", "moved", "-t", "x")
    assert stub.last.body == {"description": "moved", "tags": ["x"]}


@pytest.mark.parametrize(
    ("words", "method"), [(("update", "POOL", "team", "-f", "-"), "PATCH"), (("delete", "POOL", "team"), "DELETE")]
)
def test_dry_run(osmo, stub, words, method):
    stub.on("GET", POOLS, CURRENT)
    stub.on(method, f"{POOLS}/team", EFFECT)
    assert "a: 1 → 2" in osmo.ok("config", *words, "--dry-run", input='{"x": 1}')
    assert stub.last.query == {"dry_run": ["True"]}


def test_history(osmo, stub):
    change = {
        "config_type": "POOL",
        "name": "",
        "revision": 3,
        "username": "alice",
        "created_at": "2026-11-20T10:00:00",
    }
    stub.on(
        "GET", "/api/configs/history", {"configs": [change | {"description": "why", "tags": None}]}, {"configs": []}
    )
    words = "history pool -n team -r 3 --limit 5 --offset 1 --order desc --tags a --created-after 2026-11-01"
    text = osmo.ok("config", *words.split())
    assert text.splitlines()[-1].split() == ["POOL", "-", "3", "alice", "2026-11-20", "10:00:00", "UTC", "why", "-"]
    assert stub.last.query == {
        "omit_data": ["True"],
        "offset": ["1"],
        "limit": ["5"],
        "order": ["DESC"],
        "config_types": ["POOL"],
        "name": ["team"],
        "revision": ["3"],
        "tags": ["a"],
        "created_after": ["2026-11-01T00:00:00"],
    }
    assert osmo.ok("config", "history", "--at-timestamp", "2026-11-01") == "There are no changes to view.\n"
    assert stub.last.query["at_timestamp"] == ["2026-11-01T00:00:00"]
    assert osmo("config", "history", "--at-timestamp", "1d", "--created-after", "2d").exit_code == 2


def test_the_dry_run_of_a_pool_names_fields_neighbours_and_warnings() -> None:
    tree = {"pool": "speech", "quota": 10, "unallocated": 10, "subpools": []}
    number = {"before": 18, "after": 10}
    neighbour = {
        "name": "vision",
        "kind": "pool",
        "flavor": "default",
        "resource": "gpu",
        "numbers": {"available": number},
    }
    answer = {
        "dry_run": True,
        "before": tree,
        "after": tree,
        "violations": [],
        "warnings": ["Backend sim has 8 GPUs."],
        "changes": [{"path": "lending_limit", "before": 8, "after": 0}],
        "neighbours": [neighbour],
    }
    assert effect_text(answer).splitlines()[-3:] == [
        "lending_limit: 8 → 0",
        "pool vision (default/gpu): available to the node 18 → 10",
        "WARNING: Backend sim has 8 GPUs.",
    ]
