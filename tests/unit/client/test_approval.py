"""`osmo approval`, and `--request-approval` of changes of subpools."""

from __future__ import annotations

from osmo_admin.cli.text.effect_text import without_approval_needs
from tests.unit.client.stub_server import StubReply

APPROVALS = "/api/configs/approval"
SUBPOOL = "/api/configs/pool/team/subpool/a"
REQUEST = {
    "id": 7, "state": "waiting", "pool": "team", "subject": "team--a", "approval_above": 10, "description": "demo",
    "needs": [{"amount": "quota", "before": 10, "after": 50}, {"amount": "maximum", "before": 5, "after": -1}],
    "requested_by": "alice", "expires_at": "2026-11-26T07:00:00", "decided_by": None, "decision_note": "",
    "may_decide": True, "may_withdraw": False,
}  # fmt: skip


def test_list_and_show(osmo, stub):
    stub.on("GET", APPROVALS, {"approvals": [REQUEST], "more_entries": False})
    line = osmo.ok("approval", "list", "--state", "waiting", "-o", "csv").splitlines()[1]
    change, expires = '"quota 10 → 50, maximum 5 → unlimited"', "2026-11-26T07:00:00+00:00"
    assert line == f"7,team--a,{change},alice,{expires},waits for your decision"
    assert stub.last.query["state"] == ["waiting"]
    stub.on("GET", APPROVALS, {"approvals": [], "more_entries": False})
    assert osmo.ok("approval", "list") == "No requests found.\n"
    stub.on("GET", f"{APPROVALS}/7", REQUEST)
    assert "maximum 5 → unlimited" in osmo.ok("approval", "show", "7")


def test_decisions(osmo, stub):
    stub.on("POST", f"{APPROVALS}/7/approve", REQUEST | {"state": "approved"})
    assert osmo.ok("approval", "approve", "7", "--yes", "-d", "seen") == "Request 7 is approved.\n"
    assert stub.last.body == {"description": "seen"}
    for verb, state in (("reject", "rejected"), ("withdraw", "withdrawn")):
        stub.on("POST", f"{APPROVALS}/7/{verb}", REQUEST | {"state": state})
        assert osmo.ok("approval", verb, "7") == f"Request 7 is {state}.\n"


def test_a_change_is_requested(osmo, stub):
    stub.on("PATCH", SUBPOOL, StubReply(REQUEST, status=202))
    text = osmo.ok("pool", "subpool", "update", "team", "a", "--quota", "50", "--request-approval")
    assert stub.last.query["request_approval"] == ["True"]
    assert text.startswith("Nothing is changed yet. Request 7 waits for the approval of a second person")


def test_the_need_of_an_approval_is_no_refusal_of_its_request():
    need, other = {"code": "approval_needed"}, {"code": "live_work"}
    assert without_approval_needs({"dry_run": True, "violations": [need, other]})["violations"] == [other]


def test_a_configuration_is_requested(osmo, stub):
    stub.on("GET", "/api/configs/pool", {"pools": {"team": {"approval_above": 10}}})
    stub.on("PATCH", "/api/configs/pool/team", StubReply(REQUEST | {"subject": "team"}, status=202))
    text = osmo.ok("config", "update", "POOL", "team", "--request-approval", input='{"approval_above": 50}')
    assert text.startswith("Nothing is changed yet. Request 7 waits")
    assert stub.last.query["request_approval"] == ["True"]
    stub.on("DELETE", "/api/configs/pool/team", StubReply(REQUEST, status=202))
    assert "Request 7 waits" in osmo.ok("config", "delete", "POOL", "team", "--request-approval", "--yes")
