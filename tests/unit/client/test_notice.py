"""`osmo notice`."""

from __future__ import annotations

import json

TARGETS, NOTICES = "/api/notices/target", "/api/notices"
TARGET = {
    "id": 7, "name": "ci", "user": "alice", "pool": None, "channel": "webhook", "address": "https://ci.example.com/…",
    "kinds": ["drain"], "pools": [], "quiet_hours": "", "enabled": True, "follows_profile": False, "failures": 0,
    "retry_at": None, "off_reason": "",
}  # fmt: skip
NOTICE = {
    "id": "msg_1", "target": 7, "target_name": "ci", "kind": "drain", "subject": "pool/team--a",
    "title": "A subpool drains: team--a", "text": "…", "status": "dead", "attempts": 8,
    "created_at": "2026-11-23T07:00:00", "attempted_at": None, "ended_at": None, "error": "The receiver answered 500.",
}  # fmt: skip

NEWS = {
    "id": 7, "kind": "drain", "subject": "pool/team--a", "title": "A subpool drains: team--a",
    "text": "Subpool team--a was deleted by root and drains.", "page": "/pools/team", "read": False,
    "created_at": "2026-11-23T07:00:00",
}  # fmt: skip


def test_targets(osmo, stub):
    off = TARGET | {"id": 8, "user": None, "pool": "team", "enabled": False, "off_reason": "gone (410)"}
    failing = TARGET | {"id": 9, "user": None, "failures": 2, "retry_at": "2026-11-23T07:00:00"}
    stub.on("GET", TARGETS, [TARGET, off, failing])
    lines = osmo.ok("notice", "destinations", "-o", "csv").splitlines()
    assert lines[1] == "7,ci,alice,webhook,https://ci.example.com/…,drain,,,on"
    assert "pool team" in lines[2]
    assert lines[2].endswith("off: gone (410)")
    assert "installation" in lines[3]
    assert lines[3].endswith('"2 failures, again at 2026-11-23T07:00:00"')
    stub.on("GET", TARGETS, [])
    assert osmo.ok("notice", "destinations").startswith("No destinations found.")


def test_add(osmo, stub):
    stub.on("POST", TARGETS, {"target": TARGET, "secret": "whsec_x"})
    result = osmo("notice", "add", "ci", "webhook", "https://ci.example.com/h", "--kinds", "drain", "preempted")
    assert result.stdout == "Destination ci added with the number 7.\nSecret: whsec_x\n"
    assert "will not be shown again" in result.stderr
    assert stub.last.body == {
        "name": "ci", "channel": "webhook", "address": "https://ci.example.com/h", "kinds": ["drain", "preempted"],
    }  # fmt: skip
    osmo.ok("notice", "add", "x", "mail", "a@example.com", "--pool", "team", "-o", "json")
    assert stub.last.body == {"name": "x", "channel": "mail", "address": "a@example.com", "pool": "team"}
    osmo.ok("notice", "add", "x", "mail", "a@example.com", "--installation", "--pools", "a", "b", "-o", "json")
    assert stub.last.body["installation"] is True
    assert stub.last.body["pools"] == ["a", "b"]


def test_set_test_secret_and_delete(osmo, stub):
    stub.on("PATCH", f"{TARGETS}/7", TARGET)
    osmo.ok("notice", "set", "7", "--off", "--kinds", "drain")
    assert stub.last.body == {"kinds": ["drain"], "enabled": False}
    stub.on("POST", f"{TARGETS}/7/test", NOTICE | {"status": "waiting"})
    assert "msg_1 waits to be sent" in osmo.ok("notice", "test", "7")
    stub.on("POST", f"{TARGETS}/7/secret", {"secret": "whsec_y"})
    assert osmo.ok("notice", "secret", "7") == "Secret: whsec_y\n"
    stub.on("DELETE", f"{TARGETS}/7", None)
    assert osmo.ok("notice", "delete", "7", "--yes") == "Destination 7 deleted.\n"


def test_list_and_replay(osmo, stub):
    stub.on("GET", NOTICES, {"notices": [NOTICE], "more_entries": False})
    assert "The receiver answered 500." in osmo.ok(
        "notice", "list", "--status", "dead", "--destination", "7", "-o", "csv"
    )
    assert stub.last.query == {"status": ["dead"], "target": ["7"], "limit": ["20"], "offset": ["0"]}
    assert json.loads(osmo.ok("notice", "list", "-o", "json"))["notices"] == [NOTICE]
    stub.on("POST", f"{NOTICES}/msg_1/replay", NOTICE)
    assert osmo.ok("notice", "replay", "msg_1") == "Notice msg_1 waits to be sent again.\n"
    stub.on("POST", f"{TARGETS}/7/replay", {"notices": 3})
    assert osmo.ok("notice", "replay", "--destination", "7") == "3 notices wait to be sent again.\n"
    assert osmo("notice", "replay").exit_code == 2


def test_the_inbox(osmo, stub):
    inbox = f"{NOTICES}/inbox"
    stub.on("GET", inbox, {"news": [NEWS, NEWS | {"id": 6, "read": True}], "unread": 1, "more_entries": False})
    heads, first, second = osmo.ok("notice", "inbox", "--unread", "-o", "csv").splitlines()
    assert heads == "id,time,read,news"
    assert (first.split(",")[2], second.split(",")[2]) == ("new", "read")
    assert stub.last.query == {"unread": ["True"], "limit": ["20"], "offset": ["0"]}
    stub.on("GET", inbox, {"news": [], "unread": 0, "more_entries": False})
    assert osmo.ok("notice", "inbox").startswith("There is nothing new.")
    stub.on("POST", f"{inbox}/7/read", {"marked": 1})
    assert osmo.ok("notice", "read", "7") == "Marked as read: 1.\n"
    stub.on("POST", f"{inbox}/read", {"marked": 3})
    assert osmo.ok("notice", "read") == "Marked as read: 3.\n"
