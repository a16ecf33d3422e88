"""`osmo workflow queue` and `osmo simulate --live`: pending workflows with reasons, and simulated changes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import time_machine
import yaml

from tests.unit.client.stub_server import StubReply

QUEUE = "osmo-pool-ns-team--a"


def queue_entry(**more: Any) -> dict[str, Any]:
    reason = {
        "code": "over_quota",
        "short": "Too little free quota",
        "message": f"It asks for 5 GPUs; the quota of {QUEUE} (30) leaves 2 GPUs: 3 GPUs missing.",
        "queue": QUEUE,
        "limit": "quota",
        "requested": 5,
        "free": 2,
        "missing": 3,
    }
    body = {"workflow": "w-1", "group": "train", "user": "alice", "backend": "sim", "pool": "team--a", "queue": QUEUE}
    body |= {"priority": "HIGH", "submit_time": "2026-11-20T10:00:00", "gpus": 5, "position": 4, "ahead": 3}
    body |= {"position_in_queue": 1, "reason": reason, "unblock": ["The quota grows by 3 GPUs.", "A \x1b[31mname."]}
    return body | more


def test_the_list_is_a_table(osmo, stub):
    stub.on(
        "GET",
        "/api/queue",
        {"entries": [queue_entry(), queue_entry(position=5, group="eval", gpus=1)], "more_entries": True},
    )
    text = osmo.ok("workflow", "queue", "-p", "team", "-p", "other", "--user", "alice", "--limit", "2", "--offset", "3")
    assert stub.last.query == {"pool": ["team", "other"], "user": ["alice"], "limit": ["2"], "offset": ["3"]}
    lines = text.splitlines()
    assert lines[0].split("  ")[0] == "Position"
    assert lines[2].split()[:8] == ["1", "w-1", "train", "alice", "team--a", "HIGH", "5", "3"]
    assert lines[2].endswith("Too little free quota")
    assert lines[3].split()[:3] == ["1", "w-1", "eval"]
    assert lines[-1] == "More entries: use --offset or --limit."


@time_machine.travel(datetime(2026, 11, 20, 11, 31, tzinfo=UTC), tick=False)
def test_the_file_has_the_time_waited_in_seconds(osmo, stub):
    stub.on("GET", "/api/queue", {"entries": [queue_entry()], "more_entries": False})
    assert "  1 h 31 min  " in osmo.ok("workflow", "queue").splitlines()[2]
    heads, row = (line.split(",") for line in osmo.ok("workflow", "queue", "-o", "csv").splitlines())
    assert dict(zip(heads, row, strict=True))["waits_seconds"] == "5460"
    since_it_was_preempted = queue_entry(waits_since="2026-11-20T11:29:00")
    stub.on("GET", "/api/queue", {"entries": [since_it_was_preempted], "more_entries": False})
    assert "  2 min  " in osmo.ok("workflow", "queue").splitlines()[2]


@time_machine.travel(datetime(2026, 11, 20, 10, 1, tzinfo=UTC), tick=False)
def test_a_start_is_reported_without_a_promise(osmo, stub):
    times = {"p10": "2026-11-20T15:10:00", "p50": "2026-11-20T15:40:00", "p90": "2026-11-20T16:00:00"}
    entry = queue_entry(start=times | {"samples": 6, "never": None, "made_at": "2026-11-20T10:00:00"})
    stub.on("GET", "/api/queue", {"entries": [entry], "more_entries": False})
    assert "  15:45  " in osmo.ok("workflow", "queue").splitlines()[2]
    assert "Start         : It probably starts about 15:45." in osmo.ok("workflow", "queue", "w-1").splitlines()


@time_machine.travel(datetime(2026, 11, 20, 10, 1, tzinfo=UTC), tick=False)
def test_a_certain_start_of_a_reservation_is_said_without_a_forecast(osmo, stub):
    held = {"message": "GPUs are kept for it on n1.", "is_certain": True, "latest_start": "2026-11-20T12:00:00"}
    stub.on("GET", "/api/queue", {"entries": [queue_entry(reservation=held)], "more_entries": False})
    assert "  by 12:00  " in osmo.ok("workflow", "queue").splitlines()[2]


START = {
    "p10": "2026-11-20T15:10:00", "p50": "2026-11-20T15:40:00", "p90": "2026-11-20T16:00:00", "samples": 7,
    "never": None, "made_at": "2026-11-20T10:00:00", "record": {"like": 40, "in_time": 31},
}  # fmt: skip
CERTAIN = {"message": "GPUs are kept for it on n1.", "is_certain": True, "latest_start": "2026-11-20T18:00:00"}


@time_machine.travel(datetime(2026, 11, 20, 10, 1, tzinfo=UTC), tick=False)
@pytest.mark.parametrize(
    ("more", "in_file"),
    [
        ({"start": START}, "2026-11-20T15:40:00+00:00"),
        ({"start": START, "reservation": CERTAIN}, "2026-11-20T18:00:00+00:00"),
        ({"start": START | {"p90": "2026-11-29T16:00:00"}}, ""),
    ],
)
def test_a_file_has_the_time_that_the_words_are_about(osmo, stub, more, in_file):
    """The certain one replaces the forecast, and a forecast that is too wide for words names none."""
    stub.on("GET", "/api/queue", {"entries": [queue_entry(**more)], "more_entries": False})
    heads, row = (line.split(",") for line in osmo.ok("workflow", "queue", "-o", "csv").splitlines())
    assert dict(zip(heads, row, strict=True))["starts_about"] == in_file


@time_machine.travel(datetime(2026, 11, 20, 10, 1, tzinfo=UTC), tick=False)
def test_a_start_comes_with_the_record_of_those_like_it(osmo, stub):
    stub.on("GET", "/api/queue", {"entries": [queue_entry(start=START)], "more_entries": False})
    assert "Of the last 40 like this one, 31 started in time." in osmo.ok("workflow", "queue", "w-1")


def test_positions_on_several_backends_name_the_backend(osmo, stub):
    stub.on("GET", "/api/queue", {"entries": [queue_entry(), queue_entry(backend="other")], "more_entries": False})
    lines = osmo.ok("workflow", "queue").splitlines()
    assert lines[0].split("  ")[0] == "Cluster"
    assert [line.split()[:3] for line in lines[2:4]] == [["sim", "1", "w-1"], ["other", "1", "w-1"]]


def test_nothing_is_pending(osmo, stub):
    stub.on("GET", "/api/queue", {"entries": [], "more_entries": False})
    assert osmo.ok("workflow", "queue") == "No workflow is pending.\n"


def test_one_workflow_is_shown_in_full(osmo, stub):
    never = queue_entry(
        group="eval", unblock=[], reason=queue_entry()["reason"] | {"limit": None, "missing": None, "free": None}
    )
    stub.on("GET", "/api/queue", {"entries": [queue_entry(), never], "more_entries": False})
    text = osmo.ok("workflow", "queue", "w-1")
    assert stub.last.query["workflow"] == ["w-1"]
    first, second = text.split("\n\n")
    assert first.splitlines() == [
        "Workflow ID   : w-1",
        "Group         : train",
        "User          : alice",
        "Backend       : sim",
        "Pool          : team--a",
        f"Queue         : {QUEUE}",
        "Priority      : HIGH",
        "Submit Time   : 2026-11-20 10:00:00 UTC",
        "Requested     : 5 GPUs",
        "Position      : 1 in team--a",
        "Before It     : 3 on the whole cluster",
        f"Reason        : {queue_entry()['reason']['message']} (over_quota)",
        f"Limited By    : quota of {QUEUE}",
        "Free          : 2 GPUs",
        "Missing       : 3 GPUs",
        "Would Unblock : The quota grows by 3 GPUs.",
        "Would Unblock : A �[31mname.",
        "Needed        : all of these together",
    ]
    assert "Missing" not in second
    assert "Unblock" not in second


def test_a_reservation_is_reported_and_whether_one_line_is_enough(osmo, stub):
    message = "3 later gangs have started before it. GPUs are kept for it on n1."
    entry = queue_entry(reservation={"message": message, "passed_by": 3}, unblock_needs_all=False)
    stub.on("GET", "/api/queue", {"entries": [entry], "more_entries": False})
    lines = osmo.ok("workflow", "queue", "w-1").splitlines()
    assert f"Reservation   : {message}" in lines
    assert lines[-1] == "Needed        : one of these"


def test_a_running_workflow_and_an_unknown_one(osmo, stub):
    stub.on("GET", "/api/queue", {"entries": [], "more_entries": False})
    stub.on("GET", "/api/workflow/big-1", {"status": "RUNNING"})
    assert osmo.ok("workflow", "queue", "big-1") == "Workflow big-1 is not pending; it is RUNNING.\n"
    stub.on("GET", "/api/workflow/gone-1", StubReply({"message": "Workflow gone-1 does not exist."}, status=404))
    refused = osmo("workflow", "queue", "gone-1")
    assert (refused.exit_code, "gone-1 does not exist" in refused.stderr) == (2, True)


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_get_the_unchanged_answer(osmo, stub, form, read):
    answer = {"entries": [queue_entry(unblock=[])], "more_entries": False}
    stub.on("GET", "/api/queue", answer)
    assert read(osmo.ok("workflow", "queue", "-o", form)) == answer
    assert read(osmo.ok("workflow", "queue", "w-1", "-o", form)) == answer


WORK = {"state": "running", "tasks": {"w-0": {"state": "running", "node": "n1"}}, "position": None, "reason": None}
WORK |= {"position_in_queue": None}
ANSWER = {
    "live": True, "backend": "sim", "queues": {}, "cohorts": {}, "workloads": {"w-1": WORK}, "steps": [],
    "settled": True, "violations": [],
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "changes:\n- {set: {name: team--a, quota: 1.5}}\n- {finish: [w-1]}\n",
        '[{"set": {"name": "team--a", "quota": 1.5}}, {"finish": ["w-1"]}]',
    ],
)
def test_live_sends_the_changes_and_shows_the_answer(osmo, stub, tmp_path: Path, text):
    stub.on("POST", "/api/simulate", ANSWER)
    file = tmp_path / "changes.yaml"
    file.write_text(text)
    message = osmo.ok("simulate", "--live", "--backend", "sim", str(file))
    assert stub.last.body == {
        "live": True,
        "backend": "sim",
        "changes": [{"set": {"name": "team--a", "quota": 1.5}}, {"finish": ["w-1"]}],
    }
    assert "idempotency-key" not in stub.last.headers
    assert "WORKLOADS" in message
    assert json.loads(osmo.ok("simulate", "--live", "-o", "json")) == ANSWER
    assert stub.last.body == {"live": True, "changes": []}
    assert yaml.safe_load(osmo.ok("simulate", "--live", "-o", "yaml", "-", input=text)) == ANSWER


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("changes: [", "This is not valid YAML"),
        ("changes: {set: 1}", "holds no changes"),
        ("queues: []\nchanges: []", "holds no changes"),
        ("[]\n---\n[]", "one FILE with one document"),
        ("- {set: {name: a, quota: .nan}}", "a value that cannot be read"),
    ],
)
def test_changes_that_cannot_be_read_are_not_sent(osmo, stub, tmp_path: Path, text, message):
    file = tmp_path / "changes.yaml"
    file.write_text(text)
    refused = osmo("simulate", "--live", str(file))
    assert (refused.exit_code, message in refused.stderr, stub.requests) == (2, True, [])


def test_a_refusal_of_the_server_has_its_path(osmo, stub, tmp_path: Path):
    details = [{"path": "changes[0].finish", "code": "unknown_name", "message": "There is no workload 'gone'."}]
    refusal = {"message": "The scenario cannot be read.", "error_code": "SCENARIO", "details": details}
    stub.on("POST", "/api/simulate", StubReply(refusal, status=400))
    file = tmp_path / "changes.yaml"
    file.write_text("- {finish: gone}")
    refused = osmo("simulate", "--live", str(file))
    assert (refused.exit_code, "changes[0].finish: There is no workload 'gone'." in refused.stderr) == (2, True)
    as_json = osmo("simulate", "--live", str(file), "-o", "json")
    assert (as_json.exit_code, json.loads(as_json.stdout)["details"]) == (2, details)


@pytest.mark.parametrize("words", [(), ("--backend", "sim", "file.yaml")])
def test_without_live_a_file_is_required_and_a_backend_is_refused(osmo, words):
    refused = osmo("simulate", *words)
    assert (refused.exit_code, "--live" in refused.stderr) == (2, True)
