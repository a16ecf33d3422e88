"""`osmo profile`, `token`, `user`."""

from __future__ import annotations

import json

import pytest

SETTINGS = "/api/profile/settings"
TOKENS = "/api/auth/access_token"
USERS = "/api/auth/user"
ASSIGNED_ROLES = [{"role_name": "osmo-team-user", "assigned_by": "admin", "assigned_at": "2026-11-20T10:00:00"}]
EFFECT = {"dry_run": True, "before": None, "after": {"x": 1}, "violations": []}


def test_profile_list(osmo, stub):
    body = {
        "profile": {"username": "alice", "email_notification": False, "slack_notification": True, "pool": "team"},
        "roles": ["osmo-team-user"],
        "pools": ["team", "team--a"],
        "token": {"name": "ci", "expires_at": "2026-12-01"},
    }
    stub.on("GET", SETTINGS, body)
    lines = osmo.ok("profile", "list").splitlines()
    assert lines[0] == "User                : alice"
    assert lines[2] == "Pools               : team, team--a"
    assert lines[-2:] == ["Token               : ci", "Token expires       : 2026-12-01 00:00:00 UTC"]
    assert json.loads(osmo.ok("profile", "list", "-t", "json")) == body


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (("pool", "team--a"), {"pool": "team--a"}),
        (("mail", "alice@example.com"), {"email": "alice@example.com"}),
        (("mail", ""), {"email": ""}),
        (("notifications", "email"), {"email_notification": True}),
        (("notifications", "slack", "false"), {"slack_notification": False}),
    ],
)
def test_profile_set(osmo, stub, words, body):
    stub.on("POST", SETTINGS, None)
    assert osmo.ok("profile", "set", *words) == "Profile set.\n"
    assert stub.last.body == body


def test_profile_views(osmo, stub):
    stub.on("GET", "/api/profile/views", {"views": []})
    assert osmo.ok("profile", "views").startswith("No saved views.")
    page = "/workflows?status=PENDING"
    view = {
        "list": "workflows",
        "name": "waits",
        "query": "status=PENDING",
        "page": page,
    }
    stub.on("GET", "/api/profile/views", {"views": [view]})
    last = osmo.ok("profile", "views").splitlines()[-1]
    assert last.split() == ["waits", "workflows", "status=PENDING", page]


def test_profile_set_refuses_unknown_settings(osmo, stub):
    assert osmo("profile", "set", "notifications", "pigeon").exit_code == 2
    assert osmo("profile", "set", "colour", "red").exit_code == 2
    assert stub.requests == []


def test_token_set(osmo, stub):
    stub.on("POST", f"{TOKENS}/ci", "s3cret")
    result = osmo("token", "set", "ci")
    assert (result.stdout, stub.last.query, stub.last.body) == ("Access token: s3cret\n", {}, None)
    assert "will not be shown again" in result.stderr
    stub.on("POST", f"{USERS}/bob/access_token/ci", "s3cret")
    osmo.ok("token", "set", "ci", "-u", "bob", "-e", "2026-12-24", "-d", "for CI", "-r", "a", "b")
    assert stub.last.query == {"expires_at": ["2026-12-24"], "description": ["for CI"], "roles": ["a", "b"]}
    assert json.loads(osmo.ok("token", "set", "ci", "-u", "bob", "-o", "json")) == "s3cret"


def test_token_list(osmo, stub):
    token = {
        "user_name": "alice",
        "token_name": "ci",
        "expires_at": "2026-12-01",
        "description": "",
        "roles": ["a", "b"],
    }
    stub.on("GET", TOKENS, [token])
    assert osmo.ok("token", "list").splitlines()[-1].split() == [
        *("ci", "alice", "-", "2026-12-01", "00:00:00", "UTC", "never", "a,", "b")
    ]
    assert osmo.ok("token", "list", "-o", "csv").splitlines()[1] == "ci,alice,,2026-12-01T00:00:00+00:00,,a;b"
    stub.on("GET", TOKENS, [token | {"last_used_at": "2026-11-02T10:00:00"}])
    assert "2026-11-02 10:00:00 UTC" in osmo.ok("token", "list").splitlines()[-1]
    stub.on("GET", f"{USERS}/bob/access_token", [])
    assert osmo.ok("token", "list", "--user", "bob") == "No tokens found.\n"


def test_token_roles_and_delete(osmo, stub):
    stub.on("GET", f"{TOKENS}/ci/roles", {"user_name": "alice", "token_name": "ci", "roles": ASSIGNED_ROLES})
    assert osmo.ok("token", "roles", "ci").splitlines()[-1].split() == [
        *("osmo-team-user", "admin", "2026-11-20", "10:00:00", "UTC")
    ]
    stub.on("DELETE", f"{USERS}/bob/access_token/ci", None)
    assert osmo.ok("token", "delete", "ci", "-u", "bob") == "Access token ci deleted.\n"


def test_user_list(osmo, stub):
    users = [{"id": "alice", "created_at": "2026-11-20T10:00:00", "created_by": "admin", "roles": ["x", "y"]}]
    stub.on("GET", USERS, {"total_results": 7, "start_index": 1, "items_per_page": 1, "users": users})
    lines = osmo.ok("user", "list", "-p", "al", "-r", "x", "y", "-c", "1").splitlines()
    asked = {"count": ["1"], "start_index": ["1"], "id_prefix": ["al"], "roles": ["x", "y"], "details": ["True"]}
    assert stub.last.query == asked
    assert lines[2].split() == ["alice", "x,", "y", "2026-11-20", "10:00:00", "UTC", "admin"]
    assert lines[-1] == "1 of 7 users."
    stub.on("GET", USERS, {"total_results": 0, "users": []})
    assert osmo.ok("user", "list") == "No users found.\n"


def test_user_get(osmo, stub):
    stub.on("GET", f"{USERS}/alice", {"id": "alice", "created_at": None, "created_by": None, "roles": []})
    assert osmo.ok("user", "get", "alice").splitlines()[-1] == "Roles      : -"


def test_user_create(osmo, stub):
    stub.on("POST", USERS, {"id": "alice"})
    assert osmo.ok("user", "create", "alice") == "User alice created.\n"
    assert stub.last.body == {"id": "alice"}
    osmo.ok("user", "create", "alice", "--roles", "a", "b")
    assert stub.last.body == {"id": "alice", "roles": ["a", "b"]}


def test_user_update(osmo, stub):
    stub.on("POST", f"{USERS}/alice/roles", {})
    stub.on("DELETE", f"{USERS}/alice/roles/old", None)
    stub.on("GET", f"{USERS}/alice", {"id": "alice", "roles": ASSIGNED_ROLES})
    text = osmo.ok("user", "update", "alice", "--add-roles", "osmo-team-user", "x", "--remove-roles", "old")
    assert [(request.method, request.body) for request in stub.requests] == [
        ("POST", {"role_name": "osmo-team-user"}),
        ("POST", {"role_name": "x"}),
        ("DELETE", None),
        ("GET", None),
    ]
    assert "osmo-team-user" in text
    assert osmo("user", "update", "alice").exit_code == 2


def test_user_delete(osmo, stub):
    stub.on("DELETE", f"{USERS}/alice", None)
    assert osmo.ok("user", "delete", "alice", "--force") == "User alice deleted.\n"


@pytest.mark.parametrize(
    ("words", "method", "address"),
    [
        (("profile", "set", "pool", "team"), "POST", SETTINGS),
        (("token", "set", "ci"), "POST", f"{TOKENS}/ci"),
        (("token", "delete", "ci"), "DELETE", f"{TOKENS}/ci"),
        (("user", "create", "bob"), "POST", USERS),
        (("user", "update", "bob", "--add-roles", "r"), "POST", f"{USERS}/bob/roles"),
        (("user", "delete", "bob"), "DELETE", f"{USERS}/bob"),
        (("workflow", "end", "w-1"), "POST", "/api/workflow/w-1/end"),
        (("workflow", "cancel", "w-1"), "POST", "/api/workflow/w-1/cancel"),
        (("cohort", "delete", "prod"), "DELETE", "/api/configs/cohort/prod"),
    ],
)
def test_every_write_has_a_dry_run(osmo, stub, words, method, address):
    stub.on(method, address, EFFECT)
    assert osmo.ok(*words, "--dry-run").startswith("Dry run: nothing was changed.\n")
    assert stub.last.query["dry_run"] == ["True"]
    assert len(stub.requests) == 1
