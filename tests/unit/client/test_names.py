"""A name that is not known: the client says which one was meant, of those that the person may see. Messages that name
many things name three of them."""

from __future__ import annotations

import json

import pytest

from osmo_admin.cli.client import OTHER_WORDS
from tests.unit.client.stub_server import StubReply

POOLS = {"pools": {name: {"name": name, "parent_pool": parent} for name, parent in (
    ("vision", None), ("vision--pose", "vision"), ("language", None),
)}}  # fmt: skip
UNKNOWN = StubReply({"message": "It does not exist, or you have no role on it."}, status=404)
WORKFLOW = "workflow: {name: a, tasks: [{name: t, image: x, command: [x]}]}"


@pytest.fixture
def pools(stub):
    stub.on("GET", "/api/pool", POOLS)
    return stub


@pytest.mark.parametrize("word", ["nodes", *OTHER_WORDS])
def test_a_word_of_other_schedulers(osmo, stub, word):
    refused = osmo(word, "list")
    assert refused.exit_code == 2
    ours = OTHER_WORDS[word.removesuffix("s") if word == "nodes" else word]
    assert refused.stderr.splitlines()[-1] == f"Error: No such command '{word}'. Did you mean '{ours}'?"
    assert osmo(*ours.split(), "--help").exit_code == 0


def test_a_pool_that_was_meant(osmo, pools):
    pools.on("GET", "/api/pool_quota", {"node_sets": []})
    assert osmo("pool", "show", "visoin").stderr.splitlines()[-1] == "Did you mean vision?"
    assert osmo("pool", "list", "-p", "visoin").stderr == "Did you mean vision?\n"


def test_a_pool_of_a_submission_and_of_a_list(osmo, pools, tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text(WORKFLOW)
    pools.on("POST", "/api/pool/vison--pose/workflow", UNKNOWN)
    refused = osmo("workflow", "submit", str(file), "--pool", "vison--pose")
    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (2, "Did you mean vision--pose?")
    pools.on("GET", "/api/workflow", {"workflows": []})
    assert osmo("workflow", "list", "-p", "visoin").stderr == "Did you mean vision?\n"


def test_a_subpool_is_one_of_its_pool(osmo, pools):
    pools.on("GET", "/api/configs/pool/vision/subpool/psoe", UNKNOWN)
    assert osmo("pool", "subpool", "show", "vision", "psoe").stderr.splitlines()[-1] == "Did you mean pose?"


def test_a_workflow_that_was_meant(osmo, stub):
    stub.on("GET", "/api/workflow/trian-12", UNKNOWN)
    stub.on("GET", "/api/workflow", {"workflows": [{"name": "train-12"}, {"name": "eval-3"}]})
    assert osmo("workflow", "query", "trian-12").stderr.splitlines()[-1] == "Did you mean train-12?"
    stub.on("POST", "/api/workflow/trian-12/cancel", UNKNOWN)
    cancelled = osmo("workflow", "cancel", "trian-12", "--yes")
    assert (cancelled.exit_code, cancelled.stderr.splitlines()[-1]) == (2, "Did you mean train-12?")


def test_only_a_name_that_the_person_sees_is_suggested(osmo, pools):
    """The names are those of the completion: the server's list for this person. A pool that is not in it is not named,
    and neither is one that is not alike."""
    pools.on("GET", "/api/configs/pool/secret-lbas/subpool", UNKNOWN)
    refused = osmo("pool", "subpool", "list", "secret-lbas")
    assert "Did you mean" not in refused.stderr
    assert pools.last_of("/api/pool").query == {"all_pools": ["True"]}


def test_a_known_name_and_a_failed_look_up_get_no_suggestion(osmo, pools):
    pools.on("GET", "/api/configs/pool/vision/subpool", UNKNOWN)
    assert "Did you mean" not in osmo("pool", "subpool", "list", "vision").stderr
    pools.on("GET", "/api/pool", StubReply({"message": "down"}, status=500))
    pools.on("GET", "/api/configs/pool/visoin/subpool", UNKNOWN)
    refused = osmo("pool", "subpool", "list", "visoin")
    assert (refused.exit_code, "Did you mean" in refused.stderr) == (2, False)


def test_programs_get_the_error_without_a_remark(osmo, pools):
    pools.on("GET", "/api/configs/pool/visoin/subpool", UNKNOWN)
    refused = osmo("pool", "subpool", "list", "visoin", "-o", "json")
    assert json.loads(refused.stdout) == {"message": UNKNOWN.body["message"], "code": 404}


def test_a_file_of_a_thousand_pools_is_counted(osmo, stub, tmp_path):
    file = tmp_path / "pools.json"
    file.write_text(json.dumps({"pools": {f"pool-{number}": {} for number in range(1000)}}))
    stub.on("PUT", "/api/configs/pool", None)
    ran = osmo("config", "update", "POOL", "-f", str(file))
    count = "1,000 pools (pool-0, pool-1, pool-2 and 997 more)"
    assert ran.stdout == f"Successfully updated POOL config of {count}.\n"
    assert f"the whole configuration of {count}:" in ran.stderr
    assert len(ran.output) < 400


def test_a_node_of_a_thousand_pools_has_a_short_cell(osmo, stub):
    names = [f"pool-{number}/default" for number in range(1000)]
    node = {"hostname": "n1", "exposed_fields": {"node": "n1", "pool/platform": names}, "resource_type": "SHARED"}
    stub.on("GET", "/api/resources", {"resources": [node]})
    assert "pool-0/default, pool-1/default, pool-2/default and 997 more" in osmo.ok("resource", "list")
    assert "pool-999/default" in osmo.ok("resource", "list", "-o", "csv")


def test_submit_prints_one_address_once(osmo, stub, tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text(WORKFLOW)
    answer = {"name": "a-1", "overview": "http://o/a-1", "dashboard_url": "http://o/a-1"}
    stub.on("POST", "/api/pool/vision/workflow", answer)
    assert osmo.ok("workflow", "submit", str(file), "--pool", "vision").count("http://o/a-1") == 1


def test_events_and_the_audit_log_are_tables_in_a_file(osmo, stub):
    line = "2026-11-27 18:55:32 [main] waits for 8 GPUs, [quota]"
    stub.on("GET", "/api/workflow/w-1/events", StubReply(text=f"{line}\n"))
    assert osmo.ok("workflow", "events", "w-1") == f"{line}\n"
    assert osmo.ok("workflow", "events", "w-1", "-o", "csv").splitlines() == [
        "time,task,event",
        '2026-11-27T18:55:32+00:00,main,"waits for 8 GPUs, [quota]"',
    ]
    entry = {"id": 7, "time": "2026-11-27T18:55:32.25", "actor": "ann", "action": "subpool.updated"}
    entry |= {
        "object": "pool/vision--pose",
        "sentence": "ann resized vision--pose",
        "description": "",
        "request_id": "r",
    }
    stub.on("GET", "/api/audit", {"entries": [entry]})
    assert osmo.ok("audit", "-o", "csv").splitlines() == [
        "id,time,actor,action,object,sentence,description,request_id",
        "7,2026-11-27T18:55:32+00:00,ann,subpool.updated,pool/vision--pose,ann resized vision--pose,,r",
    ]
