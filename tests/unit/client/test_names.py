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
NO_SUCH_POOL = "Error: Pool visoin does not exist, or you have no role on it.\n"
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


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        ("backend show dgx", "list"),
        ("user show ann", "get"),
        ("token ls", "list"),
        ("pool subpool resize vision pose 4", "update"),
        ("workflow qeue", "queue"),
        ("notice remove 7", "delete"),
    ],
)
def test_a_command_of_a_group_that_was_meant(osmo, words, ours):
    refused = osmo(*words.split())
    assert refused.exit_code == 2
    assert refused.stderr.splitlines()[-1].endswith(f"Did you mean '{ours}'?")


CLUSTERS, LAPTOP = {"backends": [{"name": "dgx"}]}, [{"token_name": "laptop"}]
TRAIN = {"workflows": [{"name": "train-12"}, {"name": "eval-3"}]}


@pytest.mark.parametrize(
    ("words", "refused", "address", "names", "near"),
    [
        ("backend losses dgz", "GET /api/backend/dgz/losses", "/api/configs/backend", CLUSTERS, "dgx"),
        ("backend drain dgz n1", "POST /api/backend/dgz/nodes/n1/drain", "/api/configs/backend", CLUSTERS, "dgx"),
        ("user get vision-laed", "GET /api/auth/user/vision-laed", "/api/auth/user", {"users": [{"id": "vision-lead"}]},
         "vision-lead"),
        ("token roles latpop", "GET /api/auth/access_token/latpop/roles", "/api/auth/access_token", LAPTOP, "laptop"),
        ("token roles latpop -u ann", "GET /api/auth/user/ann/access_token/latpop/roles",
         "/api/auth/user/ann/access_token", LAPTOP, "laptop"),
        ("workflow queue trian-12", "GET /api/workflow/trian-12", "/api/workflow", TRAIN, "train-12"),
        ("workflow query trian-12", "GET /api/workflow/trian-12", "/api/workflow", TRAIN, "train-12"),
        ("workflow cancel trian-12 --yes", "POST /api/workflow/trian-12/cancel", "/api/workflow", TRAIN, "train-12"),
        ("quota rebuild temas", "POST /api/gpu_quota/rebuild", "/api/configs/gpu_quota",
         {"quotas": [{"namespace": "teams"}]}, "teams"),
        ("user update ann -a osmo-visoin-admin", "POST /api/auth/user/ann/roles", "/api/pool", POOLS,
         "osmo-vision-admin"),
        ("user list --roles osmo-visoin-admin", "GET /api/none", "/api/pool", POOLS, "osmo-vision-admin"),
        ("pool subpool show vision psoe", "GET /api/configs/pool/vision/subpool/psoe", "/api/pool", POOLS, "pose"),
        ("pool show visoin", "GET /api/none", "/api/pool", POOLS, "vision"),
    ],
)  # fmt: skip
def test_each_command_that_takes_a_name(osmo, stub, words, refused, address, names, near):
    stub.on(*refused.split(), UNKNOWN)
    stub.on("GET", "/api/queue", {"entries": []})
    stub.on("GET", "/api/auth/user", {"users": []})
    stub.on("GET", "/api/pool_quota", {"node_sets": []})
    stub.on("GET", address, names)
    assert osmo(*words.split()).stderr.splitlines()[-1] == f"Did you mean {near}?"


@pytest.mark.parametrize(
    ("words", "refused", "address", "names", "hint"),
    [
        ("resource info n99", "GET /api/resources/n99", "/api/resources", {"resources": [{"hostname": "dgx-1"}]},
         "osmo resource list"),
        ("cohort tree nope", "GET /api/quota_tree", "/api/configs/cohort", {"cohorts": [{"name": "company"}]},
         "osmo cohort tree"),
        ("quota show nope", "GET /api/configs/gpu_quota/nope", "/api/configs/gpu_quota",
         {"quotas": [{"namespace": "inference"}]}, "osmo quota list"),
        ("pool subpool show vision zz", "GET /api/configs/pool/vision/subpool/zz", "/api/pool", POOLS,
         "osmo pool list"),
    ],
)  # fmt: skip
def test_where_no_name_is_near_the_list_is_named(osmo, stub, words, refused, address, names, hint):
    stub.on("GET", "/api/pool", POOLS)
    stub.on("GET", address, names)
    stub.on(*refused.split(), UNKNOWN)
    assert osmo(*words.split()).stderr.splitlines()[-1] == f"See the names: {hint}."


def test_a_mistyped_choice_is_corrected_once_the_server_refused_it(osmo, stub):
    detail = {"path": "statuses", "code": "bad_query", "message": "statuses: give one of PENDING, RUNNING."}
    stub.on("GET", "/api/workflow", StubReply({"message": detail["message"], "details": [detail]}, status=400))
    result = osmo("workflow", "list", "--status", "runing", "--status", "COMPLETED")
    assert result.stderr.splitlines()[-1] == "Did you mean RUNNING?"
    assert "Did you mean" not in osmo("workflow", "list", "--status", "nothing-like-it").stderr


def test_who_may_not_do_something_is_not_sent_to_look_for_a_name(osmo, stub):
    stub.on("GET", "/api/pool", POOLS)
    reply = StubReply({"message": "This needs the role osmo-vision-admin; rae does not have it."}, status=403)
    stub.on("POST", "/api/configs/pool/vision/subpool", reply)
    error = osmo("pool", "subpool", "create", "vision", "fresh", "--quota", "3").stderr
    assert error == "Error: This needs the role osmo-vision-admin; rae does not have it.\n"


def test_an_empty_audit_log_says_who_was_meant(osmo, stub):
    stub.on("GET", "/api/audit", {"entries": []})
    stub.on("GET", "/api/auth/user", {"users": [{"id": "vision-lead"}]})
    assert osmo("audit", "--actor", "vision-laed").stderr == "Did you mean vision-lead?\n"


def test_the_place_of_an_unknown_name_may_be_the_body(osmo, pools):
    detail = {"path": "pool", "code": "unknown_pool", "message": "Pool visoin not found."}
    pools.on("POST", "/api/profile/settings", StubReply({"message": "x", "details": [detail]}, status=400))
    assert osmo("profile", "set", "pool", "visoin").stderr.splitlines()[-1] == "Did you mean vision?"


def test_a_pool_that_was_meant(osmo, pools):
    pools.on("GET", "/api/pool_quota", {"node_sets": []})
    missing = osmo("pool", "list", "-p", "visoin")  # OSMO's sentence
    assert (missing.exit_code, missing.stdout) == (0, "Pools visoin not found\n")
    assert missing.stderr == "Did you mean vision?\n"


def test_the_list_of_pools_is_named_once(osmo, pools):
    pools.on("GET", "/api/pool_quota", {"node_sets": []})
    assert osmo("pool", "show", "qqqq").stderr.count("osmo pool list") == 1


def test_a_pool_of_a_submission_and_of_a_list(osmo, pools, tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text(WORKFLOW)
    pools.on("POST", "/api/pool/vison--pose/workflow", UNKNOWN)
    refused = osmo("workflow", "submit", str(file), "--pool", "vison--pose")
    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (2, "Did you mean vision--pose?")
    pools.on("GET", "/api/workflow", {"workflows": []})
    missing = osmo("workflow", "list", "-p", "visoin")
    assert (missing.exit_code, missing.stdout, missing.stderr) == (2, "", f"{NO_SUCH_POOL}Did you mean vision?\n")


@pytest.mark.parametrize(
    ("words", "address", "answer"),
    [
        ("workflow list", "/api/workflow", {"workflows": [], "more_entries": False}),
        ("task list", "/api/task", {"tasks": []}),
        ("resource list", "/api/resources", {"resources": []}),
        ("workflow queue", "/api/queue", {"entries": [], "more_entries": False}),
        ("audit", "/api/audit", {"entries": [], "more_entries": False}),
    ],
)
def test_an_empty_list_of_an_unknown_pool_is_a_fault(osmo, pools, words, address, answer):
    pools.on("GET", address, answer)
    for name, status in (("visoin", 2), ("vision", 0)):
        for output in ("table", "csv", "json"):
            found = osmo(*words.split(), "--pool", name, "-o", output)
            assert (found.exit_code, "does not exist" in found.stderr) == (status, status == 2)
    assert osmo(*words.split(), "--pool", "vision--_shared").exit_code == 0, "the remainder of a pool"
    assert osmo(*words.split()).exit_code == 0


def test_a_file_of_a_cluster_that_was_meant(osmo, stub):
    stub.on("GET", "/api/configs/backend", {"backends": [{"name": "dgx"}]})
    refused = osmo("config", "update", "BACKEND", "dgz", input="description: new")
    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (2, "Did you mean dgx?")
    stub.on("PUT", "/api/configs/backend/dgx", {})
    osmo.ok("config", "update", "BACKEND", "dgx", input="description: new")
    stub.on("PUT", "/api/configs/backend/lab", {})
    osmo.ok("config", "update", "BACKEND", "lab", input="type: simulated")


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
    [_, row] = osmo.ok("resource", "list", "-o", "csv").splitlines()
    assert row.split(",")[1].split(";") == names, "one row for the node, so that its GPUs are counted once"


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
