"""Simulated backends over HTTP."""

from __future__ import annotations

import pytest

from pools.models import AuditEntry, Backend, Node
from scheduling.services.seed import seed_defaults
from tests.integration.pools.conftest import make_sim
from tests.support import world
from tests.support.api_client import ApiClient

BACKEND = "/api/configs/backend"
NODE = {"name": "n1", "gpus": 8, "cpu": 128, "memory": "1Ti", "storage": "4Ti", "platform": "default"}


@pytest.fixture
def sim(db: None) -> str:
    """Made anew for each test, since others begin without a backend."""
    return make_sim()


def test_put_creates_a_backend_and_returns_it(admin: ApiClient) -> None:
    body = {"type": "simulated", "namespace": "ns", "nodes": [NODE], "auto_end": False, "offline": False}
    answer = admin("PUT", f"{BACKEND}/sim", body)
    assert answer.status == 200
    assert answer.body == {
        **body, "name": "sim", "description": "", "pools": [], "version": 1, "warnings": [], "reserve_after": 3600,
        "ageing": 14400, "victims": "youngest", "degraded": "proportional",
    }  # fmt: skip
    assert answer.headers["ETag"] == '"1"'
    assert admin("PUT", f"{BACKEND}/sim", answer.body).headers["ETag"] == '"1"', "put back, nothing changes"
    assert admin("GET", BACKEND).body == {"backends": [answer.body]}
    assert admin("GET", f"{BACKEND}/none").status == 404
    kept = admin("PUT", f"{BACKEND}/sim", {"offline": True})
    assert (kept.body["offline"], kept.body["namespace"], kept.body["nodes"]) == (True, "ns", [NODE]), "keys left out"
    short = admin("PUT", f"{BACKEND}/sim", {"nodes": [{"name": "n1", "gpus": 8}]})
    assert short.body["nodes"] == [NODE], "nodes need a name and GPUs only"


def test_the_policy_against_endless_waiting_is_a_setting(sim: str, admin: ApiClient) -> None:
    answer = admin("PUT", f"{BACKEND}/sim", {"reserve_after": 60, "ageing": None, "description": "large work first"})
    assert (answer.body["reserve_after"], answer.body["ageing"]) == (60, None)
    assert admin("PUT", f"{BACKEND}/sim", {"offline": True}).body["ageing"] is None
    entry = AuditEntry.objects.get(object="backend/sim", description="large work first")
    assert (entry.before["reserve_after"], entry.after["reserve_after"]) == (3600, 60)
    refused = admin("PUT", f"{BACKEND}/sim", {"reserve_after": -1, "ageing": "soon"})
    assert {each["path"] for each in refused.body["details"]} == {"reserve_after", "ageing"}


def test_which_work_is_preempted_first_is_a_setting(sim: str, admin: ApiClient) -> None:
    answer = admin("PUT", f"{BACKEND}/sim", {"victims": "least_lost"})
    assert (answer.body["victims"], answer.body["warnings"], answer.headers["ETag"]) == ("least_lost", [], '"2"')
    assert admin("PUT", f"{BACKEND}/sim", {"offline": True}).body["victims"] == "least_lost"
    for wrong in ("oldest", 3, None, ["youngest"]):
        refused = admin("PUT", f"{BACKEND}/sim", {"victims": wrong})
        assert (refused.status, [each["path"] for each in refused.body["details"]]) == (400, ["victims"]), wrong
    assert "youngest, least_lost" in admin("PUT", f"{BACKEND}/sim", {"victims": "oldest"}).body["details"][0]["message"]
    assert Backend.objects.get(name="sim").victims == "least_lost"


def test_nodes_are_replaced_as_a_whole_and_audited(sim: str, admin: ApiClient) -> None:
    kept = Node.objects.get(name="n1").pk
    nodes = [{"name": "n1", "gpus": 32}, {"name": "n2", "gpus": 16}, {"name": "n9", "gpus": 4}]
    answer = admin("PUT", f"{BACKEND}/sim", {"nodes": nodes}, query={"dry_run": True})
    assert (len(answer.body["before"]["nodes"]), len(answer.body["after"]["nodes"])) == (4, 3)
    assert Node.objects.count() == 4
    assert admin("PUT", f"{BACKEND}/sim", {"nodes": nodes, "description": "moved"}).status == 200
    assert dict(Node.objects.values_list("name", "gpus")) == {"n1": 32, "n2": 16, "n9": 4}
    assert Node.objects.get(name="n1").pk == kept
    moved = AuditEntry.objects.filter(object__startswith="node/", description="moved").values_list("object", "action")
    assert set(moved) == {
        ("node/n2", "node.updated"),
        ("node/n3", "node.deleted"),
        ("node/n4", "node.deleted"),
        ("node/n9", "node.created"),
    }


def test_work_on_a_removed_node_stays_and_is_named(empty_team: None, admin: ApiClient) -> None:
    work = world.submit_workflow(admin.actor, "team", 20)
    world.reconcile()
    node = work.groups.get().tasks.get().node_name
    rest = [{"name": name, "gpus": 32} for name in ("n1", "n2", "n3", "n4") if name != node]
    answer = admin("PUT", f"{BACKEND}/sim", {"nodes": rest})
    assert answer.status == 200
    removed, promised = answer.body["warnings"]
    assert node in removed
    assert work.name in removed
    assert "has 96 GPUs, and the quotas of its pools are" in promised
    work.refresh_from_db()
    assert work.status == "RUNNING"
    usage = admin("GET", "/api/pool_quota").body["resource_sum"]
    assert (usage["total_capacity"], usage["total_free"], usage["quota_used"]) == ("96", "96", "20")


def test_a_platform_without_a_node_is_told(empty_team: None, admin: ApiClient) -> None:
    """Where pools use it and its last node goes, and where a pool begins to use it."""
    sentence = "No node of cluster sim has the platform default, which team uses: work for it waits for one."
    nodes = [{"name": "n1", "gpus": 32, "platform": "other"}]
    for query in ({"dry_run": True}, {}):
        assert sentence in admin("PUT", f"{BACKEND}/sim", {"nodes": nodes}, query=query).body["warnings"]
    assert sentence not in admin("PUT", f"{BACKEND}/sim", {"nodes": nodes}).body["warnings"]
    body = {"platforms": {"default": {}, "a100": {}}, "default_platform": "a100"}
    sentence = "No node of cluster sim has the platform a100: work for it waits for one."
    answer = admin("PATCH", "/api/configs/pool/team", {"configs": body})
    assert (answer.status, answer.body["warnings"]) == (200, [sentence])
    again = admin("PATCH", "/api/configs/pool/team", {"configs": {"description": "x"}})
    assert again.body["warnings"] == []


def test_the_namespace_stays_while_pools_use_it(empty_team: None, admin: ApiClient) -> None:
    answer = admin("PUT", f"{BACKEND}/sim", {"namespace": "other"})
    assert (answer.status, answer.codes) == (409, {("namespace", "in_use")})
    assert admin("PUT", f"{BACKEND}/sim", {"namespace": "ns"}).status == 200
    dry = admin("PUT", f"{BACKEND}/sim", {"namespace": "other"}, query={"dry_run": True})
    assert (dry.status, dry.body["after"]) == (200, None)
    assert admin("DELETE", "/api/configs/pool/team").status == 200
    assert admin("PUT", f"{BACKEND}/sim", {"namespace": "other"}).body["namespace"] == "other"


def test_delete_needs_a_backend_without_pools(empty_team: None, admin: ApiClient) -> None:
    answer = admin("DELETE", f"{BACKEND}/sim")
    assert (answer.status, answer.codes) == (409, {("pools", "in_use")})
    assert admin("DELETE", "/api/configs/pool/team").status == 200
    assert admin("DELETE", f"{BACKEND}/sim", query={"dry_run": True}).body["after"] is None
    gone = admin("DELETE", f"{BACKEND}/sim")
    assert (gone.status, gone.body) == (200, None)
    assert not Backend.objects.exists()
    assert admin("DELETE", f"{BACKEND}/sim").status == 404


def test_all_faults_at_once(admin: ApiClient) -> None:
    body = {
        "colour": 1,
        "nodes": [{"name": "n1"}, {"gpus": "8", "name": "B"}, {"name": "m", "gpus": 1, "memory": "1Xi"}],
    }
    for query in ({}, {"dry_run": True}):
        answer = admin("PUT", f"{BACKEND}/sim", body, query=query)
        assert (answer.status, answer.codes) == (400, {
            ("colour", "unknown_key"), ("nodes[0].gpus", "missing"), ("nodes[1].gpus", "bad_value"),
            ("nodes[1].name", "bad_name"), ("nodes[2].memory", "bad_value"),
        })  # fmt: skip
    assert not Backend.objects.exists()


def test_seeding_creates_a_backend_and_keeps_its_later_changes(admin: ApiClient) -> None:
    seed_defaults()
    seed_defaults()
    (row,) = admin("GET", BACKEND).body["backends"]
    assert (row["name"], row["namespace"]) == ("simulated", "default")
    assert {node["name"]: node["gpus"] for node in row["nodes"]} == {"n1": 8, "n2": 8, "n3": 8, "n4": 8}
    admin("PUT", f"{BACKEND}/simulated", {"nodes": []})
    seed_defaults()
    assert admin("GET", f"{BACKEND}/simulated").body["nodes"] == []
    admin("DELETE", f"{BACKEND}/simulated")
    seed_defaults()
    assert admin("GET", BACKEND).body == {"backends": []}


def test_if_match(sim: str, admin: ApiClient) -> None:
    assert admin("PUT", f"{BACKEND}/sim", {}, if_match='"9"').status == 412
    assert admin("PUT", f"{BACKEND}/new", {}, if_match='"1"').status == 412
    assert admin("DELETE", f"{BACKEND}/sim", if_match='"9"').status == 412
    assert admin("PUT", f"{BACKEND}/sim", {"offline": True}, if_match='"1"').status == 200
