"""`osmo task`, `resource`, `audit` and `backend settle`."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

from pools.domain.numbers import USAGE_NUMBERS

TASK = {"user": "alice", "workflow_id": "w-1", "task_name": "t", "status": "RUNNING", "pool": "team", "priority": "LOW"}
TASK |= {"node": "n1", "start_time": None, "storage": 1, "cpu": 2, "memory": 4, "gpu": 8}
NODE = {
    "hostname": "n1",
    "exposed_fields": {"node": "n1", "pool/platform": ["team/default", "team--a/default"]},
    "usage_fields": {"gpu": "3", "cpu": "10", "memory": "1Gi", "storage": "0"},
    "allocatable_fields": {"gpu": "8", "cpu": "128", "memory": "1Ti", "storage": "4Ti"},
    "resource_type": "SHARED",
    "backend": "simulated",
    "taints": [],
    "conditions": None,
}


def test_task_list_requests_active_tasks(osmo, stub):
    stub.on("GET", "/api/task", {"tasks": []})
    assert osmo.ok("task", "list") == "There are no tasks to view.\n"
    assert stub.last_of("/api/task").query == {
        "limit": ["20"],
        "offset": ["0"],
        "order": ["ASC"],
        "all_users": ["False"],
        "all_pools": ["True"],
        "statuses": ["PROCESSING", "SCHEDULING", "INITIALIZING", "RUNNING"],
    }
    words = "-s completed -w w-1 -u bob -p team -n n1 n2 --priority low --started-after 2026-11-01"
    osmo.ok("task", "list", *words.split(), "--started-before", "2026-11-02")
    asked = stub.last_of("/api/task").query
    filters = {key: asked[key] for key in ("statuses", "workflow_id", "users", "pools", "nodes", "priority")}
    assert filters == {
        "statuses": ["COMPLETED"],
        "workflow_id": ["w-1"],
        "users": ["bob"],
        "pools": ["team"],
        "nodes": ["n1", "n2"],
        "priority": ["LOW"],
    }
    assert stub.last_of("/api/task").query["started_before"] == ["2026-11-02T00:00:00"]
    assert "all_pools" not in stub.last_of("/api/task").query
    assert osmo("task", "list", "-u", "bob", "-a").exit_code == 2


def test_task_list_with_amounts(osmo, stub):
    stub.on("GET", "/api/task", {"tasks": [TASK, TASK | {"gpu": None}]})
    lines = osmo.ok("task", "list", "-v").splitlines()
    assert lines[2].split() == ["alice", "w-1", "t", "RUNNING", "team", "LOW", "n1", "-", "1", "2", "4", "8"]
    assert lines[-1].split() == ["2", "4", "8", "8"]
    assert "GPU" not in osmo.ok("task", "list")


def test_task_sums(osmo, stub):
    stub.on("GET", "/api/task", {"summaries": [TASK, TASK]}, {"summaries": [TASK]}, {"summaries": []})
    assert osmo.ok("task", "list", "-S").splitlines()[-1].split() == ["2", "4", "8", "16"]
    assert stub.last.query["summary"] == ["True"]
    assert "w-1" in osmo.ok("task", "list", "-S", "-W")
    assert stub.last.query["aggregate_by_workflow"] == ["True"]
    assert osmo.ok("task", "list", "-S") == "There are no tasks to sum up.\n"


def test_resource_list(osmo, stub):
    stub.on("GET", "/api/resources", {"resources": [NODE]}, {"resources": []})
    lines = osmo.ok("resource", "list").splitlines()
    assert stub.last_of("/api/resources").query == {"all_pools": ["True"]}
    assert lines[-1].split() == [
        "n1",
        "team/default,",
        "team--a/default",
        "SHARED",
        "3/8",
        "10/128",
        "1Gi/1Ti",
        "0/4Ti",
    ]
    assert osmo.ok("resource", "list", "-p", "team", "--platform", "x") == "There are no available resources.\n"
    assert stub.last_of("/api/resources").query == {"pools": ["team"], "all_pools": ["False"], "platforms": ["x"]}


def test_resource_info(osmo, stub):
    stub.on("GET", "/api/resources/n1", {"resources": [NODE]})
    assert "GPUs       : 3 used of 8" in osmo.ok("resource", "info", "n1")
    stub.on("GET", "/api/resources/n2", {"resources": []})
    assert osmo("resource", "info", "n2").exit_code == 2


def test_audit_prints_one_message_for_each_change(osmo, stub):
    cut = {
        "id": 2,
        "time": "2026-11-20T10:00:00",
        "actor": "alice",
        "action": "subpool.updated",
        "object": "pool/team--b",
    }
    cut |= {"before": {"quota": 50}, "after": {"quota": 20}, "description": "", "request_id": "r"}
    cut |= {"sentence": "alice cut team--b from 50 to 20"}
    stub.on("GET", "/api/audit", {"entries": [cut], "more_entries": True}, {"entries": [], "more_entries": False})
    lines = osmo.ok("audit").splitlines()
    assert stub.last.query == {"limit": ["50"], "offset": ["0"]}
    assert lines[0] == "2026-11-20 10:00:00 UTC  alice cut team--b from 50 to 20"
    assert lines[-1] == "More entries: use --offset or --limit."
    words = "--object pool/team--b --actor alice --action subpool.updated --since 2026-11-01 --until 2026-12-01"
    words += " --kind POOL --pool team"
    assert osmo.ok("audit", *words.split(), "--limit", "5", "--offset", "2") == "No changes found.\n"
    assert stub.last_of("/api/audit").query == {
        "object": ["pool/team--b"],
        "actor": ["alice"],
        "action": ["subpool.updated"],
        "kind": ["pool"],
        "pool": ["team"],
        "since": ["2026-11-01T00:00:00"],
        "until": ["2026-12-01T00:00:00"],
        "limit": ["5"],
        "offset": ["2"],
    }


def test_a_description_cannot_forge_an_audit_entry(osmo, stub):
    entry = {"time": "2026-11-20T10:00:00", "actor": "eve", "action": "pool.updated", "object": "pool/x"}
    entry |= {"before": None, "after": None, "sentence": "eve did\n2026-11-20 bob deleted everything\x1b[2K"}
    stub.on("GET", "/api/audit", {"entries": [entry]})
    assert len(osmo.ok("audit").splitlines()) == 1


def test_backend_runs_a_cycle(osmo, stub):
    step = {"pass": 1, "action": "start", "workload": "w-1", "tasks": ["t"], "for": None, "message": "it fits"}
    stub.on("POST", "/api/backend/sim/settle", {"steps": [step], "settled": True}, {"steps": [], "settled": False})
    lines = osmo.ok("backend", "settle", "sim").splitlines()
    assert lines[2].split() == ["1", "start", "w-1", "t", "-", "it", "fits"]
    assert lines[-1] == "Finished."
    assert osmo.ok("backend", "settle", "sim").startswith("Nothing to schedule. Not finished:")
    assert stub.last.body is None


def test_a_cycle_has_no_dry_run_and_does_not_run_for_one(osmo, stub):
    answer = osmo("backend", "settle", "sim", "--dry-run")
    assert answer.exit_code != 0
    assert "has no dry run" in answer.output
    assert stub.requests == []


def test_an_answer_in_json_is_unchanged(osmo, stub):
    body = {"entries": [{"description": "ä\u2028\x1b", "x": 1.0}], "more_entries": False, "extra": None}
    stub.on("GET", "/api/audit", body)
    assert json.loads(osmo.ok("audit", "-o", "json")) == body


def test_usage_of_a_month(osmo, stub):
    zero = dict.fromkeys(USAGE_NUMBERS, 0)
    stub.on("GET", "/api/usage", {"rows": [], "totals": zero, "more_entries": False})
    osmo.ok("usage", "--month", "2025-12", "--by", "user")
    asked = stub.last_of("/api/usage").query
    assert (asked["since"], asked["until"]) == (["2025-12-01T00:00:00"], ["2026-01-01T00:00:00"])
    osmo.ok("usage", "--month", datetime.now(UTC).strftime("%Y-%m"))
    assert "until" not in stub.last_of("/api/usage").query, "the month goes on"
    osmo.ok("usage")
    assert "since" not in stub.last_of("/api/usage").query, "the server has the usual time"
    for words in (["--month", "2026-13"], ["--month", "2099-01"], ["--month", "2025-12", "--since", "7d"]):
        assert osmo("usage", *words).exit_code == 2


def test_usage_names_what_was_lost_and_its_file_has_the_rows(osmo, stub):
    zero = dict.fromkeys(USAGE_NUMBERS, 0)
    lost = {"pool": "vision", "cause": "reclaim", "rule": "Reclaim of quota", "taker": "speech", "attempts": 3}
    row = {"start": "2026-11-01T00:00:00", "pool": "vision", **zero, "used_gpu_s": 452_520, "wait_p50_s": 3660}
    answer = {"rows": [row], "totals": zero, "more_entries": False, "lost": [lost | {"lost_gpu_s": 5400.0}]}
    stub.on("GET", "/api/usage", answer)
    assert re.split(r" {2,}", osmo.ok("usage").splitlines()[-1]) == [
        "vision",
        "Reclaim of quota",
        "speech",
        "3",
        "1.5",
    ]
    heads, cells = (re.split(r" {2,}", osmo.ok("usage").splitlines()[at].strip()) for at in (2, 4))
    shown = dict(zip(heads, cells, strict=True))
    assert (shown["Used"], shown["Waiting"], shown["Median wait"]) == ("126", "0", "1 h 1 min"), "as on the page"
    names, values = (line.split(",") for line in osmo.ok("usage", "-o", "csv").splitlines())
    assert (values[0], values[1]) == ("2026-11-01T00:00:00+00:00", "vision")
    assert dict(zip(names, values, strict=True))["used_gpu_hours"] == "125.7"


def test_backend_says_what_is_promised_lost_and_suspect(osmo, stub):
    promise = {"pool": "vision", "quota": 16, "held": 12, "missing": 4}
    stub.on("GET", "/api/backend/sim/promises", {"pools": [promise]})
    assert osmo.ok("backend", "promises", "sim").split()[-4:] == ["vision", "16", "12", "4"]
    loss = {
        "nodes": ["n1", "n2"], "gpus": 8, "workflows": 3, "lost_gpus": 7, "guaranteed_gpus": 5, "ended": 1,
        "missing": 4, "pools": [promise], "outcome": None,
    }  # fmt: skip
    outcome = {"again": 1, "waiting": 2, "displaced": 6}
    stub.on("GET", "/api/backend/sim/losses", {"losses": [{**loss, "outcome": outcome}, loss]})
    worst, other = osmo.ok("backend", "losses", "sim", "-o", "csv").splitlines()[1:]
    assert worst == "n1,1,8,4,3,7,5,1,1,2,6"
    assert other == "n1,1,8,4,3,7,5,1,,,"
    node = {
        "name": "n1", "platform": "default", "gpus": 7, "used": 8, "free": 0, "suspect_since": None,
        "notes": ["running work holds more than the node has: 8 of 7 GPUs"],
    }  # fmt: skip
    stub.on("GET", "/api/backend/sim/nodes", {"nodes": [node]})
    assert "8 of 7 GPUs" in osmo.ok("backend", "nodes", "sim")


def test_backend_list_adds_no_parts_to_gpus(osmo, stub):
    """Nodes of a flavor of shared GPUs count parts."""
    nodes = [{"gpus": 8, "flavor": "h100"}, {"gpus": 32, "flavor": "t4"}]
    labels = {"h100": {"gpu": "h100"}, "t4": {"nvidia.com/gpu.replicas": "8"}}
    flavors = [{"name": name, "node_labels": each} for name, each in labels.items()]
    stub.on("GET", "/api/configs/backend", {"backends": [{"name": "sim", "nodes": nodes, "flavors": flavors}]})
    assert "8 and 32 parts" in osmo.ok("backend", "list")


def test_backend_cares_for_a_node(osmo, stub):
    care = {"backend": "sim", "node": "n1", "drained": True, "suspect": False}
    for action, words in (("drain", "drained"), ("restore", "takes work again"), ("clear", "not suspect any more")):
        stub.on("POST", f"/api/backend/sim/nodes/n1/{action}", care)
        assert words in osmo.ok("backend", action, "sim", "n1")
