"""`osmo-admin user`: account changes by the operator of the server, and their effect from the next request on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client
from typer.testing import CliRunner, Result

from osmo_admin.cli.server import app
from osmo_admin.cli.server_commands import users
from pools.domain.changes.tokens import CreateToken
from pools.domain.changes.users import CreateUser
from pools.domain.people.roles import SYSTEM
from pools.models import AccessToken, AuditEntry, SignOnIdentity, User
from tests.support import world
from tests.support.api_client import ApiClient, Callers

EXCHANGE = "/api/auth/jwt/access_token"
WHO = "/api/profile/settings"
SECRET, OTHER = "a long enough pass phrase", "another pass phrase 77"
Run = Callable[..., Result]


@pytest.fixture
def run(db: None, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`osmo-admin user WORDS` on this database, with `stdin` as standard input."""
    monkeypatch.setenv("DATABASE_URL", "postgresql:///already-set-up")
    return lambda *words, stdin="": CliRunner().invoke(app, ["user", *words], input=stdin)


def test_the_list_says_how_people_sign_in(run: Run) -> None:
    for name, password in (("ann", None), ("bob", SECRET), ("ci", None), ("eve", SECRET)):
        world.apply_change(CreateUser(id=name), password=password)
    for name, provider in (("ann", "corp"), ("ann", "dir"), ("eve", "corp")):
        SignOnIdentity.objects.create(user=_user(name), provider=provider, issuer=provider, subject=name)
    rows = {row["id"]: row for row in json.loads(run("list", "-o", "json").stdout)["users"]}
    assert {name: (row["providers"], row["password"]) for name, row in rows.items()} == {
        "ann": (["corp", "dir"], False), "bob": ([], True), "ci": ([], False), "eve": (["corp"], True),
    }  # fmt: skip
    shown = {line.split()[0]: " ".join(line.split()[2:]) for line in run("list").stdout.splitlines() if line.strip()}
    assert shown["ann"].startswith("corp, dir ") and shown["eve"].startswith("corp, password ")
    assert shown["bob"].startswith("password ") and shown["ci"].startswith("token ")


def _user(name: str) -> User:
    return User.objects.get(username=name)


def _browser(name: str, password: str) -> Client:
    client = Client(REMOTE_ADDR="10.1.1.1")
    assert client.post("/login/", {"username": name, "password": password}).status_code == 302
    return client


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("user", "create", "eve", "--role", "osmo-emperor"), "There is no such role"),
        (("user", "create", "root"), "User root exists already"),
        (("token", "create", "nobody-here", "x"), "User nobody-here does not exist"),
        (("token", "create", "root", "9 lives"), "is not a valid token name"),
    ],
    ids=["role", "user", "owner", "token name"],
)
@pytest.mark.usefixtures("run")
def test_a_refusal_is_an_error_message(words: tuple[str, ...], message: str) -> None:
    world.make_user("root", "osmo-admin")
    ran = CliRunner().invoke(app, words)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert message in ran.stderr and "Traceback" not in ran.stderr


class TestList:
    @pytest.fixture(autouse=True)
    def people(self, db: None, caller: Callers) -> None:
        caller("ann", "osmo-viewer", "osmo-admin")
        world.apply_change(CreateUser(id="bob"), password=SECRET)
        User.objects.filter(username="bob").update(is_active=False)

    def test_for_people(self, run: Run) -> None:
        lines = run("list").stdout.splitlines()
        assert lines[0].split("  ")[0] == "Name"
        assert [line.split()[:3] for line in lines[2:]] == [["ann", "ACTIVE", "token"], ["bob", "DISABLED", "password"]]
        assert "osmo-admin, osmo-viewer" in lines[2]

    def test_for_programs(self, run: Run) -> None:
        ann, bob = json.loads(run("list", "-o", "json").stdout)["users"]
        assert ann["created_at"] == _user("ann").date_joined.replace(tzinfo=None).isoformat(timespec="microseconds")
        del ann["created_at"], bob["created_at"]
        shared = {"last_login": None, "created_by": "system"}
        assert ann == shared | {
            "id": "ann", "active": True, "password": False, "providers": [],
            "roles": ["osmo-admin", "osmo-viewer"], "tokens": 1,
        }  # fmt: skip
        assert bob == shared | {
            "id": "bob",
            "active": False,
            "password": True,
            "providers": [],
            "roles": [],
            "tokens": 0,
        }

    def test_without_users(self, run: Run) -> None:
        User.objects.all().delete()
        assert run("list").stdout.startswith("There is no user yet. Create one: osmo-admin user create")
        assert json.loads(run("list", "-o", "json").stdout) == {"users": []}


class TestPassword:
    @pytest.fixture(autouse=True)
    def bob(self, db: None) -> None:
        world.apply_change(CreateUser(id="bob"), password=SECRET)

    def test_from_a_pipe_and_the_open_sessions_end(self, run: Run) -> None:
        before = _browser("bob", SECRET)
        assert before.get("/").status_code == 200
        ran = run("set-password", "bob", stdin=f"{OTHER}\nsecond line\n")
        assert (ran.exit_code, ran.stdout) == (0, "The password of bob is changed; open sessions were ended.\n")
        assert _user("bob").check_password(OTHER)
        assert before.get("/").status_code == 302
        entry = AuditEntry.objects.latest("id")
        assert (entry.action, entry.actor, entry.object) == ("user.password_changed", "system", "user/bob")

    def test_from_a_file(self, run: Run, tmp_path: Path) -> None:
        file = tmp_path / "secret"
        file.write_text(f"{OTHER}\n")
        assert run("set-password", "bob", "--password-file", str(file)).exit_code == 0
        assert _user("bob").check_password(OTHER)

    def test_at_a_terminal_it_is_asked_for_twice_and_not_shown(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(users, "_is_terminal_input", lambda: True)
        ran = run("set-password", "bob", stdin=f"{OTHER}\n{OTHER}\n")
        assert ran.exit_code == 0
        assert _user("bob").check_password(OTHER)
        assert OTHER not in ran.output

    def test_a_weak_one_is_refused_with_every_reason(self, run: Run) -> None:
        ran = run("set-password", "bob", stdin="1234\n")
        assert ran.exit_code == 1
        assert "too short" in ran.stderr
        assert "too common" in ran.stderr
        assert _user("bob").check_password(SECRET)

    def test_nothing_on_standard_input_is_refused(self, run: Run) -> None:
        ran = run("set-password", "bob")
        assert (ran.exit_code, ran.stderr) == (1, "There is no password in standard input: its first line is empty.\n")

    def test_a_file_that_cannot_be_read_is_an_error_message(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "secret").write_bytes(b"\xff\xfe\n")
        for name in ("secret", "none", "."):
            ran = run("set-password", "bob", "--password-file", str(tmp_path / name))
            assert ran.exit_code == 1
            assert ran.stderr.startswith(f"The password file {tmp_path / name} cannot be read: ")

    @pytest.mark.parametrize("words", [("set-password",), ("roles",), ("disable",), ("enable",)], ids=str)
    def test_an_unknown_user(self, run: Run, words: tuple[str, ...]) -> None:
        ran = run(*words, "nobody", stdin=f"{OTHER}\n")
        assert (ran.exit_code, "User nobody does not exist" in ran.stderr) == (1, True)

    def test_create_reads_a_pipe_too(self, run: Run) -> None:
        assert run("create", "carol", "--password-file", "-", stdin=f"{SECRET}\n").exit_code == 0
        assert _user("carol").check_password(SECRET)


class TestDisable:
    @pytest.fixture(autouse=True)
    def people(self, db: None) -> None:
        world.make_user("root", "osmo-admin")
        world.apply_change(CreateUser(id="bob", roles=["osmo-viewer"]), password=SECRET)

    def test_sessions_and_tokens_are_refused_at_once(self, run: Run, caller: Callers, anonymous: ApiClient) -> None:
        browser, program = _browser("bob", SECRET), caller("bob")
        assert program("GET", WHO).status == browser.get("/").status_code == 200
        ran = run("disable", "bob", "-d", "lost the laptop")
        assert ran.exit_code == 0
        assert ran.stdout == "The account of bob is disabled: its password, sessions and tokens are refused.\n"
        assert program("GET", WHO).status == 401
        assert browser.get("/").status_code == 302
        assert Client().post("/login/", {"username": "bob", "password": SECRET}).status_code == 200  # the form again
        entry = AuditEntry.objects.latest("id")
        assert (entry.object, entry.actor, entry.description) == ("user/bob", "system", "lost the laptop")

    def test_its_access_token_is_not_exchanged(self, run: Run, anonymous: ApiClient) -> None:
        from pools.services.people.access_tokens import create_token

        secret = create_token(CreateToken(owner="bob", name="ci"), actor=SYSTEM)[1]
        run("disable", "bob")
        assert anonymous("POST", EXCHANGE, {"token": secret}).status == 401
        run("enable", "bob")
        assert anonymous("POST", EXCHANGE, {"token": secret}).status == 200

    def test_an_enabled_account_has_its_roles_and_tokens(self, run: Run, caller: Callers) -> None:
        program = caller("bob")
        run("disable", "bob")
        ran = run("enable", "bob")
        assert (ran.exit_code, ran.stdout) == (0, "The account of bob is enabled.\n")
        assert program("GET", WHO).body["roles"] == ["osmo-viewer"]

    def test_twice_is_no_error_and_no_second_entry(self, run: Run) -> None:
        run("disable", "bob")
        before = AuditEntry.objects.count()
        assert run("disable", "bob").exit_code == 0
        assert AuditEntry.objects.count() == before

    def test_the_last_admin_stays(self, run: Run) -> None:
        ran = run("disable", "root")
        assert ran.exit_code == 1
        assert "root has the last open account with the role osmo-admin" in ran.stderr
        assert _user("root").is_active

    def test_one_of_two_admins_may_be_disabled(self, run: Run) -> None:
        world.make_user("second", "osmo-admin")
        assert run("disable", "root").exit_code == 0
        assert run("disable", "second").exit_code == 1

    def test_a_disabled_account_is_not_created_again(self, run: Run) -> None:
        """The new account would have the old roles and tokens."""
        AccessToken.objects.all().delete()
        run("disable", "bob")
        ran = run("create", "bob")
        assert (ran.exit_code, "is disabled. Enable it" in ran.stderr) == (1, True)
        assert not _user("bob").is_active

    @pytest.mark.parametrize("words", [("set-password",), ("roles", "osmo-admin")], ids=lambda words: words[0])
    def test_changes_of_a_disabled_account_are_refused(self, run: Run, words: tuple[str, ...]) -> None:
        run("disable", "bob")
        ran = run(words[0], "bob", *words[1:], stdin=f"{OTHER}\n")
        assert (ran.exit_code, "account is disabled" in ran.stderr) == (1, True)


class TestRoles:
    @pytest.fixture(autouse=True)
    def people(self, db: None) -> None:
        world.make_pool("team")
        world.make_user("root", "osmo-admin")
        world.make_user("bob", "osmo-viewer")

    def test_exactly_these(self, run: Run) -> None:
        ran = run("roles", "bob", "osmo-team-admin", "osmo-team-user", "-d", "moved")
        assert (ran.exit_code, ran.stdout) == (0, "bob: osmo-team-admin, osmo-team-user\n")
        assert _user("bob").as_actor().roles == {"osmo-team-admin", "osmo-team-user"}
        entries = AuditEntry.objects.filter(object="user/bob", actor="system", description="moved")
        assert sorted(entries.values_list("action", flat=True)) == ["role.granted", "role.granted", "role.revoked"]

    def test_none_named_shows_them(self, run: Run) -> None:
        assert run("roles", "bob").stdout == "bob: osmo-viewer\n"
        assert _user("bob").as_actor().roles == {"osmo-viewer"}

    def test_all_roles_are_removed(self, run: Run) -> None:
        assert run("roles", "bob", "--none").stdout == "bob: no roles\n"
        assert _user("bob").as_actor().roles == set()

    def test_none_together_with_some_is_refused(self, run: Run) -> None:
        ran = run("roles", "bob", "osmo-admin", "--none")
        assert (ran.exit_code, ran.stderr) == (1, "Name roles or use --none, not both.\n")

    def test_unknown_ones_are_reported_all_by_their_number_and_nothing_is_changed(self, run: Run) -> None:
        ran = run("roles", "bob", "osmo-team-user", "osmo-x-user", "boss")
        assert ran.exit_code == 1
        assert "There is no such role: number 2, 3 of those given. Roles are osmo-admin, " in ran.stderr
        assert _user("bob").as_actor().roles == {"osmo-viewer"}

    @pytest.mark.parametrize("words", [("osmo-viewer",), ("--none",)], ids=str)
    def test_the_last_admin_keeps_the_role(self, run: Run, words: tuple[str, ...]) -> None:
        ran = run("roles", "root", *words)
        assert ran.exit_code == 1
        assert "root has the last open account with the role osmo-admin" in ran.stderr
        assert _user("root").as_actor().is_admin
