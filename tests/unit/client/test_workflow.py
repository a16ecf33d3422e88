"""`osmo workflow`: submit, show, cancel and end workflows."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import time_machine
import yaml

from osmo_admin.cli.commands.work.workflow import NO_OWN_WORK, _past_wait_facts
from tests.unit.client.stub_server import StubReply

SUBMIT = "/api/pool/team/workflow"
SPEC = "# my work\nworkflow:\n  name: hello\n  tasks:\n  - {name: t, image: ubuntu, command: [sh]}\n"
SUBMITTED = {
    "name": "hello-1",
    "overview": "http://s/w/hello-1",
    "logs": None,
    "spec": None,
    "dashboard_url": None,
    "warnings": [],
}


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(SPEC)
    return str(path)


def workflow_detail(**more: Any) -> dict[str, Any]:
    task = {"name": "t", "status": "RUNNING", "start_time": "2026-11-20T10:00:00", "retry_id": 0, "node_name": "n1"}
    body = {"name": "hello-1", "status": "RUNNING", "submitted_by": "alice", "pool": "team", "priority": "NORMAL"}
    body |= {"submit_time": "2026-11-20T09:59:58.5", "overview": "http://s/w/hello-1", "labels": {"b": "2", "a": "1"}}
    return body | {"groups": [{"name": "t-group", "tasks": [task]}]} | more


def test_submit_sends_the_unchanged_file(osmo, stub, spec):
    stub.on("POST", SUBMIT, SUBMITTED)
    words = ("--priority", "high", "--set", "lr=1", "n=2", "--set-string", "id=007", "--label", "a=1", "--label", "b=2")
    text = osmo.ok("workflow", "submit", "--pool", "team", *words, "--set-env", "X=1", spec)
    assert text == (
        "Workflow submit successful.\nWorkflow ID        - hello-1\nWorkflow Overview  - http://s/w/hello-1\n"
    )
    assert stub.last.query == {"priority": ["HIGH"], "label": ["a=1", "b=2"], "env_vars": ["X=1"]}
    assert stub.last.body == {
        "file": SPEC,
        "set_variables": ["lr=1", "n=2"],
        "set_string_variables": ["id=007"],
        "uploaded_templated_spec": None,
    }
    assert stub.last.headers["idempotency-key"]


def test_each_submission_has_a_key_of_its_own(osmo, stub, spec):
    stub.on("POST", SUBMIT, SUBMITTED)
    for _ in range(2):
        osmo.ok("workflow", "submit", "-p", "team", spec)
    assert len({request.headers["idempotency-key"] for request in stub.requests}) == 2


def test_a_template_is_left_to_the_server(osmo, stub, tmp_path):
    text = "workflow:\n  name: {{ name }}\ndefault-values:\n  name: x  # a comment\n"
    path = tmp_path / "t.yaml"
    path.write_text(text)
    stub.on("POST", SUBMIT, SUBMITTED)
    osmo.ok("workflow", "submit", str(path), "-p", "team", "--set", "name=y")
    assert [request.body["file"] for request in stub.requests] == [text]


def test_standard_input_and_the_pool_of_the_environment(osmo, stub):
    stub.on("POST", SUBMIT, SUBMITTED)
    osmo.ok("workflow", "submit", "-", input=SPEC, env={"OSMO_POOL": "team"})
    assert stub.last.body["file"] == SPEC


@pytest.mark.parametrize(
    "settings", [{"profile": {"pool": "team"}, "pools": ["team", "x"]}, {"profile": {"pool": None}, "pools": ["team"]}]
)
def test_the_default_pool_is_the_profiles_or_the_only_one(osmo, stub, spec, settings):
    stub.on("GET", "/api/profile/settings", settings)
    stub.on("POST", SUBMIT, SUBMITTED)
    osmo.ok("workflow", "submit", spec)
    assert stub.last.path == SUBMIT


@pytest.mark.parametrize(("pools", "message"), [(["a", "b"], "You may use: a, b."), ([], "You have no pool")])
def test_no_default_pool(osmo, stub, spec, pools, message):
    stub.on("GET", "/api/profile/settings", {"profile": {"pool": None}, "pools": pools})
    result = osmo("workflow", "submit", spec)
    assert result.exit_code == 2
    assert message in result.stderr


def test_warnings_are_printed_with_the_answer(osmo, stub, spec):
    stub.on("POST", SUBMIT, SUBMITTED | {"warnings": ["credential c cannot be checked"], "dashboard_url": "http://d"})
    result = osmo("workflow", "submit", spec, "-p", "team", "--priority", "LOW")
    assert result.stdout.splitlines()[-1] == "Workflow Dashboard - http://d"
    assert "WARNING: credential c cannot be checked" in result.stderr
    assert "LOW priority can be preempted" in result.stderr


def test_dry_run_prints_the_rendered_file(osmo, stub, spec):
    stub.on("POST", SUBMIT, SUBMITTED | {"spec": "workflow:\n  name: hello\n"})
    assert osmo.ok("workflow", "submit", spec, "-p", "team", "--dry-run") == "workflow:\n  name: hello\n"
    assert stub.last.query == {"dry_run": ["True"], "start": ["True"]}


def start_of(p50: str | None, p90: str | None, never: str | None = None) -> dict[str, Any]:
    return {"p10": p50, "p50": p50, "p90": p90, "samples": 6, "made_at": "2026-11-20T10:00:00", "never": never}


@time_machine.travel(datetime(2026, 11, 20, 10, 1, tzinfo=UTC), tick=False)
def test_a_dry_run_says_on_standard_error_when_it_would_start(osmo, stub, spec):
    start = start_of("2026-11-20T15:40:00", "2026-11-20T18:10:00")
    stub.on("POST", SUBMIT, SUBMITTED | {"spec": "workflow: {}\n", "start": start})
    result = osmo("workflow", "submit", spec, "-p", "team", "--dry-run")
    assert result.stdout == "workflow: {}\n"
    assert "It probably starts about 15:30." in result.stderr


@time_machine.travel(datetime(2026, 11, 20, 10, 1, tzinfo=UTC), tick=False)
def test_the_ways_in_are_a_table(osmo, stub, spec):
    waits, never = (
        start_of("2026-11-20T15:40:00", "2026-11-20T15:50:00"),
        start_of(None, None, "It starts in none of 6 sampled futures."),
    )
    common = {"priority": "NORMAL", "gpus": 8}
    ways = [
        {
            "code": "pool",
            "text": "on b",
            "pool": "b",
            "starts_now": True,
            "start": start_of(*["2026-11-20T10:00:00"] * 2),
        },
        {"code": "as_asked", "text": "as asked", "pool": "a", "starts_now": False, "start": waits},
        {"code": "gpus", "text": "with 4 GPUs instead of 8", "pool": "a", "starts_now": False, "start": never},
        {"code": "pool", "text": "on c", "pool": "c", "starts_now": False, "start": None},
    ]
    stub.on("POST", SUBMIT, SUBMITTED | {"start": waits, "ways": [common | way for way in ways]})
    lines = osmo.ok("workflow", "forecast", spec, "-p", "team").splitlines()
    assert stub.last.query == {"dry_run": ["True"], "ways": ["True"]}
    assert lines[0] == "It probably starts about 15:40."
    assert [line.split("  ")[0] for line in lines[4:8]] == ["now", "15:40", "-", "-"]


@pytest.mark.parametrize("code", ["USAGE", "RESOURCE", "CREDENTIAL"])
def test_a_refused_submission_names_every_fault_with_its_line(osmo, stub, spec, code):
    faults = [
        {"path": "workflow.tasks[0].image", "code": "required", "message": "image is required", "line": 5},
        {"path": "workflow.name", "code": "name", "message": "a name begins with a letter", "line": 3},
    ]
    body = {"message": "image is required a name begins with a letter", "error_code": code, "workflow_id": "hello-2"}
    stub.on("POST", SUBMIT, StubReply(body | {"details": faults}, status=400))
    result = osmo("workflow", "submit", spec, "-p", "team")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "Workflow hello-2 submit failed:\n2 faults:\n"
        "  - line 5, workflow.tasks[0].image: image is required\n"
        "  - line 3, workflow.name: a name begins with a letter\n"
    )
    answer = json.loads(osmo("workflow", "submit", spec, "-p", "team", "-t", "json").stdout)
    assert (answer["message"], answer["code"], answer["details"]) == (body["message"], 400, faults)


def test_submit_again_by_id(osmo, stub):
    stub.on("POST", SUBMIT, SUBMITTED)
    osmo.ok("workflow", "submit", "hello-1", "-p", "team")
    assert (stub.last.query, stub.last.body) == ({"workflow_id": ["hello-1"]}, None)
    assert osmo("workflow", "submit", "hello-1", "-p", "team", "--dry-run").exit_code == 2


@pytest.mark.parametrize("words", [("--set", "x"), ("--label", "=1"), ("--set-string", "y"), ("--set-env", "z")])
def test_pairs_are_checked_before_anything_is_sent(osmo, stub, spec, words):
    result = osmo("workflow", "submit", spec, "-p", "team", *words)
    assert result.exit_code == 2
    assert f"{words[0]} takes KEY=VALUE." in result.stderr
    assert stub.requests == []


def test_a_missing_file_and_a_binary_file(osmo, stub, tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, said in (("no.yaml", "No such file"), ("binary", "not text in UTF-8"), (".", "Is a directory")):
        result = osmo("workflow", "submit", str(tmp_path / name), "-p", "team")
        assert result.exit_code == 2
        assert said in result.stderr
    assert stub.requests == []


def test_wait_until_it_ended(osmo, stub, spec, no_waiting):
    stub.on("POST", SUBMIT, SUBMITTED)
    stub.on(
        "GET",
        "/api/workflow/hello-1",
        workflow_detail(status="PENDING"),
        workflow_detail(),
        workflow_detail(status="COMPLETED"),
    )
    text = osmo.ok("workflow", "submit", spec, "-p", "team", "--wait")
    assert text.splitlines()[-1] == "Workflow hello-1 is COMPLETED."
    assert len(no_waiting) == 2


def test_wait_for_a_failure_as_json(osmo, stub, spec, no_waiting):
    stub.on("POST", SUBMIT, SUBMITTED)
    stub.on("GET", "/api/workflow/hello-1", workflow_detail(status="FAILED_PREEMPTED"))
    result = osmo("workflow", "submit", spec, "-p", "team", "--wait", "-o", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["status"] == "FAILED_PREEMPTED"


def test_validate(osmo, stub, spec):
    stub.on("POST", SUBMIT, SUBMITTED | {"logs": "Workflow validation succeeded."})
    text = osmo.ok("workflow", "validate", spec, "-p", "team", "--set", "a=1")
    assert text == "Workflow validation succeeded.\n"
    assert stub.last.query == {"validation_only": ["True"]}
    assert stub.last.body["set_variables"] == ["a=1"]


def test_local_files_are_inlined(osmo, stub, tmp_path):
    (tmp_path / "run.sh").write_text("echo {{output}}\n")
    document = {"workflow": {"name": "x", "tasks": [{"name": "t", "files": [{"path": "/r", "localpath": "run.sh"}]}]}}
    path = tmp_path / "local.yaml"
    path.write_text(yaml.safe_dump(document))
    stub.on("POST", SUBMIT, SUBMITTED)
    osmo.ok("workflow", "submit", str(path), "-p", "team")
    sent = yaml.safe_load(stub.last.body["file"])
    assert sent["workflow"]["tasks"][0]["files"] == [{"path": "/r", "contents": "echo {{output}}\n"}]
    assert stub.last.body["uploaded_templated_spec"] is None


def test_a_local_file_changes_nothing_else(osmo, stub, tmp_path):
    """The server reads the text of the user: with its comments, line numbers, and numbers that it refuses."""
    contents = 'echo "hé😀"\n\tx\u2028y\x85\x7f\n'
    (tmp_path / "a.sh").write_text(contents, encoding="utf-8")
    text = """# team
workflow:
  name: x
  timeout: 010
  tasks:
  - name: t
    files:
    - {path: /a, localpath: a.sh}   # one
    - localpath: >-
        a.sh
      path: /b
"""
    path = tmp_path / "local.yaml"
    path.write_text(text)
    stub.on("POST", SUBMIT, SUBMITTED)
    osmo.ok("workflow", "submit", str(path), "-p", "team")
    sent = stub.last.body["file"]
    files = yaml.safe_load(sent)["workflow"]["tasks"][0]["files"]
    assert files == [{"path": "/a", "contents": contents}, {"path": "/b", "contents": contents}]
    assert sent.splitlines()[:7] == text.splitlines()[:7]
    assert sent.splitlines()[7].endswith("# one")


def test_local_files_of_a_template_are_read_after_rendering(osmo, stub, tmp_path):
    (tmp_path / "b.sh").write_text("true\n")
    text = "workflow:\n  name: x\n  groups:\n  - tasks:\n    - files:\n      - localpath: {{ which }}.sh\n"
    path = tmp_path / "local.yaml"
    path.write_text(text)
    stub.on("POST", SUBMIT, SUBMITTED | {"spec": text.replace("{{ which }}", "b")}, SUBMITTED)
    osmo.ok("workflow", "submit", str(path), "-p", "team", "--set", "which=b")
    first, second = stub.requests
    assert (first.query, first.body["file"]) == ({"dry_run": ["True"], "start": ["False"]}, text)
    assert second.query == {}
    assert second.body["uploaded_templated_spec"] == text
    assert yaml.safe_load(second.body["file"])["workflow"]["groups"][0]["tasks"][0]["files"] == [{"contents": "true\n"}]


def test_every_missing_local_file_is_named(osmo, stub, tmp_path):
    files = [{"localpath": "no1"}, {"localpath": "no2"}, {"localpath": "x", "contents": "y"}]
    path = tmp_path / "local.yaml"
    path.write_text(yaml.safe_dump({"workflow": {"tasks": [{"files": files}]}}))
    result = osmo("workflow", "submit", str(path), "-p", "team")
    assert result.exit_code == 2
    assert "workflow.tasks[0].files[0].localpath" in result.stderr
    assert "workflow.tasks[0].files[1].localpath" in result.stderr
    assert "not both" in result.stderr
    assert stub.requests == []


@pytest.mark.parametrize(
    "text", ["localpath: [", "- localpath", "workflow: {tasks: {localpath: x}}", "localpath: \x07"]
)
def test_an_invalid_file_is_sent_unchanged(osmo, stub, tmp_path, text):
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    stub.on("POST", SUBMIT, SUBMITTED)
    osmo.ok("workflow", "submit", str(path), "-p", "team")
    assert stub.last.body["file"] == text


def test_restart_in_its_own_pool(osmo, stub):
    stub.on("GET", "/api/workflow/hello-1", workflow_detail(status="FAILED"))
    stub.on("POST", "/api/pool/team/workflow/hello-1/restart", SUBMITTED | {"name": "hello-2"})
    text = osmo.ok("workflow", "restart", "hello-1")
    assert text.splitlines()[:2] == ["Workflow hello-1 restarted.", "Workflow ID        - hello-2"]
    assert stub.last.body is None
    osmo.ok("workflow", "restart", "hello-1", "-p", "team", "--dry-run")
    assert stub.last.query == {"dry_run": ["True"]}
    assert [request.method for request in stub.requests] == ["GET", "POST", "POST"]


ENTRY = {"user": "alice", "name": "hello-1", "submit_time": "2026-11-20T10:00:00", "status": "RUNNING", "pool": "team"}
ENTRY |= {"priority": "HIGH", "labels": {}, "queued_time": 75, "duration": 3725.4}


def test_list_sends_the_query_of_the_stock_client_with_details(osmo, stub):
    stub.on("GET", "/api/workflow", {"workflows": [], "more_entries": False})
    assert osmo.ok("workflow", "list") == f"{NO_OWN_WORK}\n"
    assert stub.last_of("/api/workflow").query == {
        "limit": ["20"], "offset": ["0"], "order": ["DESC"], "all_pools": ["True"], "details": ["True"],
    }  # fmt: skip
    words = "-s running pending -p team other --name hel --priority high low --limit 5 --offset 10 --label a=b c=d"
    osmo.ok("workflow", "list", "--all-users", *words.split(), "--no-label", "x", "--tags", "t1", "t2")
    assert stub.last_of("/api/workflow").query == {
        "limit": ["5"],
        "offset": ["10"],
        "order": ["DESC"],
        "all_users": ["True"],
        "statuses": ["RUNNING", "PENDING"],
        "name": ["hel"],
        "pools": ["team", "other"],
        "priority": ["HIGH", "LOW"],
        "label": ["a=b", "c=d"],
        "no_label": ["x"],
        "tags": ["t1", "t2"],
        "details": ["True"],
    }
    osmo.ok(
        "workflow", "list", "-u", "bob", "eve", "--submitted-after", "2026-11-01", "--submitted-before", "2026-11-02"
    )
    assert stub.last_of("/api/workflow").query["users"] == ["bob", "eve"]
    assert stub.last_of("/api/workflow").query["submitted_after"] == ["2026-11-01T00:00:00"]
    assert stub.last_of("/api/workflow").query["submitted_before"] == ["2026-11-02T00:00:00"]
    osmo.ok("workflow", "list", "-s", "running", "of a later server")
    assert stub.last_of("/api/workflow").query["statuses"] == ["RUNNING", "of a later server"]


def test_query_says_who_preempted_it_and_what_it_preempted(osmo, stub):
    lost = {
        "time": "2026-11-20T12:37:00",
        "message": "by urgent-1 (pat): lab--a took back 8 GPUs that lab--b had borrowed",
    }
    taken = [{"workflow": "night-1", "user": "rae"}, {"workflow": "night-1", "user": "rae"}]
    stub.on("GET", "/api/workflow/hello-1", workflow_detail(preemptions=[lost], preempted=taken))
    lines = osmo.ok("workflow", "query", "hello-1").splitlines()
    assert f"Preempted    : 2026-11-20 12:37:00 UTC {lost['message']}" in lines
    assert "It Preempted : night-1 (rae)" in lines
    stub.on("GET", "/api/workflow/hello-1", workflow_detail(preemptions=[lost | {"lost_gpu_s": 28_800.0}]))
    lines = osmo.ok("workflow", "query", "hello-1").splitlines()
    assert "Lost         : 8.0 GPU-hours; osmo workflow receipt hello-1 says why" in lines


RECEIPT = {
    "id": 7, "time": "2026-11-20T12:37:00", "workflow": "night-1", "group": "g", "user": "rae", "pool": "lab--b",
    "cause": "reclaim", "rule": "Reclaim of quota", "by_workflow": None, "by_user": None, "by_pool": None, "gpus": 8,
    "message": "by other work: another pool took back 8 GPUs that lab--b had borrowed", "lost_gpu_s": 5760.0,
    "attempts": [{
        "task": "t", "retry_id": 0, "node": "n1", "gpus": 8, "start_time": "2026-11-20T11:00:00",
        "lost_since": "2026-11-20T12:25:00", "lost_gpu_s": 5760.0,
    }],
    "loser": {"pool": "lab--b", "quota": 8, "used": 16, "share": 8},
    "taker": {"pool": "another pool", "quota": 8, "used": 0, "share": None},
    "quota_at_start": None, "note": None, "more_spared": True,
    "spared": [{"gang": "night-0", "gpus": 8, "by": "age", "reason": "it was submitted earlier"}],
    "next": {"status": "waits", "start_time": None, "position_in_queue": 3, "start": None},
}  # fmt: skip


def test_a_receipt_has_the_rule_the_numbers_the_loss_and_what_came_next(osmo, stub):
    body = {"receipts": [RECEIPT], "taken": [], "has_hidden": False, "more_entries": False, "lost_gpu_s": 5760.0}
    stub.on("GET", "/api/workflow/night-1/receipts", body)
    text = osmo.ok("workflow", "receipt", "night-1")
    for line in (
        f"Ended                : 2026-11-20 12:37:00 UTC {RECEIPT['message']}",
        "Rule                 : Reclaim of quota",
        "Lost                 : 1.6 GPU-hours since the last checkpoint 2026-11-20 12:25:00 UTC",
        "Its Queue            : lab--b: 16 used, quota 8, share 8",
        "The Other Queue      : another pool: 0 used, quota 8",
        "Could Also Have Gone : night-0 (8 GPUs): it was submitted earlier; and more",
        "Next                 : it waits at place 3 of its queue",
    ):
        assert line in text.splitlines(), text
    held = {"message": "", "is_certain": True, "latest_start": "2026-11-20T14:00:00"}
    with time_machine.travel(datetime(2026, 11, 20, 13, 0, tzinfo=UTC), tick=False):
        later = RECEIPT | {"next": RECEIPT["next"] | {"reservation": held}}
        stub.on("GET", "/api/workflow/night-1/receipts", body | {"receipts": [later]})
        text = osmo.ok("workflow", "receipt", "night-1")
    assert (
        "Next                 : it waits at place 3 of its queue. It starts by 14:00 at the latest."
        in text.splitlines()
    )
    stub.on("GET", "/api/workflow/night-1/receipts", body)
    assert ",1.6,by other work: " in osmo.ok("workflow", "receipt", "night-1", "-o", "csv"), "a number in the file"
    started = RECEIPT["next"] | {"status": "started", "start_time": "2026-11-20T13:00:00"}
    stub.on("GET", "/api/workflow/night-1/receipts", body | {"receipts": [RECEIPT | {"next": started}]})
    assert "started again 2026-11-20 13:00:00 UTC" in osmo.ok("workflow", "receipt", "night-1")
    stub.on("GET", "/api/workflow/night-1/receipts", body | {"receipts": [RECEIPT] * 2, "lost_gpu_s": 11520.0})
    assert "Lost In All          : 3.2 GPU-hours" in osmo.ok("workflow", "receipt", "night-1")
    stub.on("GET", "/api/workflow/night-1/receipts", body | {"receipts": [], "has_hidden": True})
    text = osmo.ok("workflow", "receipt", "night-1")
    assert "Nothing else ended an attempt of this workflow." in text
    assert "Also Preempted : work of pools that you may not see" in text


@time_machine.travel(datetime(2026, 11, 20, 10, 1, tzinfo=UTC), tick=False)
def test_list_has_a_column_of_starts_where_work_waits(osmo, stub):
    waits = ENTRY | {"name": "hello-2", "start": start_of("2026-11-20T15:40:00", "2026-11-20T15:50:00")}
    stub.on("GET", "/api/workflow", {"workflows": [ENTRY, waits], "more_entries": False})
    lines = osmo.ok("workflow", "list").splitlines()
    assert "  Starts about" in lines[0]
    assert "  15:40  " in lines[2]
    assert "15:40" not in lines[3]


def test_list_has_the_newest_at_the_bottom(osmo, stub):
    body = {"workflows": [ENTRY | {"name": "hello-2"}, ENTRY], "more_entries": True}
    stub.on("GET", "/api/workflow", body)
    lines = osmo.ok("workflow", "list").splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["hello-1", "hello-2"]
    assert re.split(r" {2,}", lines[2])[1:] == [
        "alice",
        "team",
        "HIGH",
        "RUNNING",
        "2026-11-20 10:00:00 UTC",
        "1 min 15 s",
        "1 h 2 min",
        "-",
    ]
    assert lines[-1].startswith("More entries")
    assert osmo.ok("workflow", "list", "--order", "desc").splitlines()[2].startswith("hello-2")
    assert json.loads(osmo.ok("workflow", "list", "--json")) == body


def test_list_of_some_or_all_users(osmo, stub):
    assert osmo("workflow", "list", "-a", "-u", "bob").exit_code == 2
    assert stub.requests == []


def test_query(osmo, stub):
    stub.on("GET", "/api/workflow/hello-1", workflow_detail())
    text = osmo.ok("workflow", "query", "hello-1", "-v")
    assert stub.last.query == {"verbose": ["True"]}
    assert "Submit Time  : 2026-11-20 09:59:58 UTC" in text
    assert "Labels       : a=1, b=2" in text
    assert re.split(r" {2,}", text.splitlines()[-1])[:5] == ["t-group", "t", "0", "RUNNING", "n1"]


def test_query_prints_the_tree_of_a_gang(osmo, stub):
    def row(threshold, count, size, **more):
        return {"threshold": threshold, "count": count, "size": size, "satisfied": count >= threshold, **more}

    gang = row(1, 1, 2) | {
        "sub_groups": [
            row(2, 1, 2, name="decode", parent=None, optional=True),
            row(1, 1, 1, name="leaders", parent="decode", optional=False),
            row(4, 0, 6, name="workers", parent="decode", optional=False),
            row(8, 9, 9, name="prefill", parent=None, optional=False),
        ]
    }
    body = workflow_detail()
    body["groups"].append({"name": "serve", "gang": gang, "tasks": []})
    stub.on("GET", "/api/workflow/hello-1", body)
    lines = osmo.ok("workflow", "query", "hello-1").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("SubGroup"))
    assert [re.split(r" {2,}", line) for line in lines[start + 2 : start + 7]] == [
        ["serve", "1 SubGroup", "1", "1 SubGroup", "has its minimum"],
        ["└─ decode (optional)", "2 SubGroups", "1", "-", "can be missing"],
        ["└─── leaders", "1 pod", "1", "-", "has its minimum"],
        ["└─── workers", "4 pods", "0", "2 pods", "below its minimum"],
        ["└─ prefill", "8 pods", "9", "1 pod", "has its minimum"],
    ]


def test_cancel_of_several_continues_after_a_failure(osmo, stub):
    stub.on(
        "POST", "/api/workflow/a-1/cancel", StubReply({"message": "a-1 has ended.", "error_code": "USER"}, status=400)
    )
    stub.on("POST", "/api/workflow/b-1/cancel", {"name": "b-1"})
    result = osmo("workflow", "cancel", "a-1", "b-1", "--message", "enough", "--force")
    assert (result.exit_code, result.stdout, result.stderr) == (
        2,
        "Workflow b-1 is cancelled.\n",
        "Error: a-1 has ended.\n",
    )
    assert stub.last.query == {"force": ["True"], "message": ["enough"]}


def test_spec_is_printed_unchanged(osmo, stub):
    stub.on("GET", "/api/workflow/hello-1/spec", StubReply(text=SPEC))
    assert osmo.ok("workflow", "spec", "hello-1") == SPEC
    assert stub.last.query == {"use_template": ["False"]}
    osmo.ok("workflow", "spec", "hello-1", "--template")
    assert stub.last.query == {"use_template": ["True"]}
    assert json.loads(osmo.ok("workflow", "spec", "hello-1", "-o", "json")) == {"spec": SPEC}


def test_end(osmo, stub):
    stub.on("POST", "/api/workflow/hello-1/end", workflow_detail(status="FAILED"))
    assert (
        osmo.ok("workflow", "end", "hello-1", "--status", "failed", "-g", "t-group") == "Workflow hello-1 is FAILED.\n"
    )
    assert stub.last.body == {"status": "FAILED", "group": "t-group"}
    osmo.ok("workflow", "end", "hello-1")
    assert stub.last.body == {"status": "COMPLETED"}


WAITING = {
    "position": 2,
    "reason": {"message": "Pool team has 2 of 4 GPUs free.", "code": "over_quota"},
    "unblock": ["w-1 ends.", "The quota grows by 2 GPUs."],
}


def test_query_of_a_waiting_workflow_says_why_and_what_would_unblock_it(osmo, stub):
    groups = [{"name": "t-group", "tasks": [], "waiting": WAITING}]
    stub.on("GET", "/api/workflow/hello-1", workflow_detail(status="PENDING", groups=groups))
    text = osmo.ok("workflow", "query", "hello-1")
    assert "Reason        : Pool team has 2 of 4 GPUs free.\n" in text
    assert "Would Unblock : w-1 ends.\nWould Unblock : The quota grows by 2 GPUs.\n" in text


def test_query_as_csv_has_the_tasks(osmo, stub):
    stub.on("GET", "/api/workflow/hello-1", workflow_detail())
    assert osmo.ok("workflow", "query", "hello-1", "-o", "csv").splitlines() == [
        "group,task,retry,status,node,started,exit_code,message",
        "t-group,t,0,RUNNING,n1,2026-11-20T10:00:00+00:00,,",
    ]


def test_an_empty_list_as_csv_is_the_row_of_names(osmo, stub):
    stub.on("GET", "/api/workflow", {"workflows": [], "more_entries": False})
    result = osmo("workflow", "list", "-o", "csv")
    names = "workflow,user,pool,priority,status,submitted,waited_seconds,run_seconds,labels\n"
    assert (result.exit_code, result.stdout) == (0, names)
    assert result.stderr == f"{NO_OWN_WORK}\n"


@pytest.mark.parametrize(
    ("words", "kind", "query"),
    [
        (("logs", "w-1"), "logs", {}),
        (("logs", "w-1", "--error", "-n", "5"), "error_logs", {"last_n_lines": ["5"]}),
        (("events", "w-1", "-t", "a", "-r", "2"), "events", {"task_name": ["a"], "retry_id": ["2"]}),
    ],
)
def test_logs_and_events_are_printed_as_they_are(osmo, stub, words, kind, query):
    stub.on("GET", f"/api/workflow/w-1/{kind}", StubReply(text="first ä\n\x1b[31msecond\n"))
    assert osmo.ok("workflow", *words) == "first ä\n�[31msecond\n"
    assert stub.last.query == query
    assert json.loads(osmo.ok("workflow", *words, "-o", "json")) == {kind: "first ä\n\x1b[31msecond\n"}


def test_a_file_that_is_not_valid_is_not_called_a_submission(osmo, stub, spec):
    stub.on("POST", SUBMIT, StubReply({"message": "image is required", "error_code": "USAGE"}, status=400))
    result = osmo("workflow", "validate", spec, "-p", "team")
    assert (result.exit_code, result.stderr) == (1, "Workflow is not valid:\nimage is required\n")


def test_a_watch_in_a_pipe_prints_each_change_and_ends_with_the_workflow(osmo, stub, monkeypatch):
    pauses = []
    monkeypatch.setattr("osmo_admin.cli.base.watch.pause", pauses.append)
    running, ended = workflow_detail(), workflow_detail(status="COMPLETED")
    stub.on("GET", "/api/workflow/hello-1", running, running, ended)
    text = osmo.ok("workflow", "query", "hello-1", "--watch")
    assert [line.split()[-1] for line in text.splitlines() if line.startswith("Status ")] == ["RUNNING", "COMPLETED"]
    assert len(pauses) == 2


def test_the_first_of_several_faults_is_printed_once(osmo, stub, spec):
    """The message of the server repeats it, for clients that show no details."""
    faults = [
        {"path": "workflow.tasks[0].image", "code": "missing", "message": "Add the image.", "line": 5},
        {"path": "workflow.name", "code": "name", "message": "Begin with a letter.", "line": 3},
    ]
    message = "The workflow file is not valid: line 5, workflow.tasks[0].image: Add the image. (1 more in details)"
    stub.on("POST", SUBMIT, StubReply({"message": message, "error_code": "USAGE", "details": faults}, status=400))
    text = osmo("workflow", "submit", spec, "-p", "team").stderr
    assert text.count("Add the image.") == 1
    assert "2 faults:" in text


def test_the_place_of_a_fault_is_printed_once(osmo, stub, spec):
    """The message of the server names it, for clients that show no details."""
    fault = {"path": "file", "code": "yaml_syntax", "message": "This is not valid YAML.", "line": 2}
    message = "The workflow file is not valid: line 2, file: This is not valid YAML."
    stub.on("POST", SUBMIT, StubReply({"message": message, "error_code": "USAGE", "details": [fault]}, status=400))
    text = osmo("workflow", "submit", spec, "-p", "team").stderr
    assert text == f"Workflow submit failed:\n{message}\n"


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "0 s"), (90, "1 min 30 s: own quota 1 min 30 s")])
def test_a_wait_of_no_time_has_no_cause(seconds, text):
    waits = [{"until": "2026-11-29T04:50:29Z", "parts": [{"title": "own quota", "seconds": seconds}]}]
    assert _past_wait_facts({"groups": [{"name": "main", "waits": waits}]}) == [("Waited", text)]


def test_compare_shows_what_differs(osmo, stub):
    facts = [
        {
            "key": "status",
            "title": "Status",
            "unit": "text",
            "first": "RUNNING",
            "second": "PENDING",
            "different": True,
        },
        {"key": "user", "title": "Submitted by", "unit": "text", "first": "bob", "second": "bob", "different": False},
        {"key": "run_seconds", "title": "Ran", "unit": "seconds", "first": 62, "second": None, "different": True},
        {"key": "gpu_seconds", "title": "Used", "unit": "gpu_seconds", "first": 7200, "second": 0, "different": True},
        {"key": "waited", "title": "Waited", "unit": "seconds", "first": 0.2, "second": 0.4, "different": True},
    ]
    gang = {
        "name": "main",
        "in_first": True,
        "in_second": True,
        "facts": [facts[0] | {"unit": "bytes", "first": 2**30}],
    }
    gang["facts"][0]["second"] = 2**31
    answer = {"first": "a-1", "second": "b-1", "facts": facts, "gangs": [gang], "file_changes": []}
    stub.on("GET", "/api/workflow/a-1/compare/b-1", answer)
    text = osmo.ok("workflow", "compare", "a-1", "b-1")
    for part in ("a-1", "b-1", "RUNNING", "1 min 2 s", "2.00 GPU-hours", "1.0 GiB", "2.0 GiB", "main"):
        assert part in text
    assert "bob" not in text
    assert "Waited" not in text, "both are 0 s"
    assert "bob" in osmo.ok("workflow", "compare", "a-1", "b-1", "--all")
    stub.on("GET", "/api/workflow/a-1/compare/a-1", answer | {"facts": [facts[1]], "gangs": []})
    assert "No fact differs." in osmo.ok("workflow", "compare", "a-1", "a-1")


@time_machine.travel(datetime(2026, 11, 20, 10, 1, tzinfo=UTC), tick=False)
@pytest.mark.parametrize(
    "start", [None, {"p10": None, "p50": None, "p90": None, "samples": 3, "never": "It never will."}]
)
def test_the_list_has_the_certain_start_that_the_queue_has(osmo, stub, start):
    held = {"message": "", "is_certain": True, "latest_start": "2026-11-20T12:00:00"}
    entry = ENTRY | {"start": start, "reservation": held}
    stub.on("GET", "/api/workflow", {"workflows": [entry], "more_entries": False})
    assert "  by 12:00  " in osmo.ok("workflow", "list").splitlines()[2]
