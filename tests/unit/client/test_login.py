"""Login, the login file that two clients share, and the renewal of a session."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from osmo_admin import __version__
from osmo_admin.cli.base import login_file
from osmo_admin.cli.base.login_file import StoredLogin, TokenLogin
from tests.unit.client.stub_server import StubReply, make_jwt

EXCHANGE = "/api/auth/jwt/access_token"
SETTINGS = "/api/profile/settings"
PROFILE = {
    "profile": {"username": "alice", "pool": None},
    "roles": ["osmo-team-user"],
    "pools": ["team"],
    "token": None,
}


def fresh_token(**more: Any) -> str:
    return make_jwt(exp=time.time() + 300, unique_name="alice", **more)


def read_stored(home: Path) -> dict[str, Any]:
    return yaml.safe_load((home / "login.yaml").read_text())


def write_stored_login(home: Path, **content: Any) -> None:
    home.mkdir(exist_ok=True)
    (home / "login.yaml").write_text(yaml.safe_dump(content))


def test_dev_login_sends_nothing_and_stores_the_file_of_the_stock_client(osmo, stub, home):
    result = osmo.bare("login", stub.url + "/", "--method", "dev", "--username", "alice")
    assert (result.exit_code, result.stdout) == (0, "Successfully logged in. Welcome alice.\n")
    assert stub.requests == []
    assert read_stored(home) == {
        "dev_login": {"username": "alice"},
        "name": "alice",
        "osmo_token": False,
        "token_login": None,
        "url": stub.url,
    }
    stub.on("GET", SETTINGS, PROFILE)
    assert osmo.bare("profile", "list").exit_code == 0
    assert stub.last.headers["x-osmo-user"] == "alice"


def test_the_login_file_is_its_owners_only(osmo, stub, home):
    osmo.bare("login", stub.url, "--username", "alice")
    assert stat.S_IMODE((home / "login.yaml").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    (home / "login.yaml").chmod(0o644)
    osmo.bare("login", stub.url, "--username", "bob")
    assert stat.S_IMODE((home / "login.yaml").stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir()] == ["login.yaml"]


@pytest.mark.parametrize("how", ["option", "file", "stdin", "environment"])
def test_token_login_stores_the_file_of_the_stock_client(osmo, stub, home, tmp_path, how):
    token = fresh_token(name="Alice")
    stub.on("POST", EXCHANGE, {"token": token, "expires_at": 1})
    path = tmp_path / "token"
    path.write_text("secret\n")
    words = {"option": ["--token", "secret"], "file": ["--token-file", str(path)], "stdin": ["--token-file", "-"]}
    env = {"OSMO_TOKEN": "secret"} if how == "environment" else {}
    result = osmo.bare("login", stub.url, *words.get(how, []), env=env, input="secret\n")
    assert (result.exit_code, result.stdout) == (0, "Successfully logged in. Welcome Alice.\n")
    assert stub.last.body == {"token": "secret"}
    assert "authorization" not in stub.last.headers
    assert "idempotency-key" not in stub.last.headers
    assert read_stored(home) == {
        "dev_login": None,
        "name": "Alice",
        "osmo_token": True,
        "token_login": {
            "client_id": None,
            "id_token": token,
            "refresh_token": "secret",
            "refresh_url": stub.url + EXCHANGE,
            "username": None,
        },
        "url": stub.url,
    }


def test_a_stored_login_is_read_back(home):
    for login in (
        StoredLogin(url="http://s", dev_username="äöü"),
        StoredLogin(url="http://s", token=TokenLogin(fresh_token(), "r", "http://s/x", "u", "c"), osmo_token=True),
    ):
        login_file.write_login(login)
        assert login_file.read_login() == login


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"OSMO_CONFIG_FILE_DIR": "/a", "XDG_CONFIG_HOME": "/b"}, "/a/login.yaml"),
        ({"XDG_CONFIG_HOME": "/b"}, "/b/osmo/login.yaml"),
        ({"HOME": "/c"}, "/c/.config/osmo/login.yaml"),
    ],
)
def test_the_folder_is_that_of_the_stock_client(monkeypatch, env, expected):
    for name in ("OSMO_CONFIG_FILE_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert str(login_file.login_path()) == expected


def test_an_expired_session_is_renewed_and_stored(osmo, stub, home):
    old, new = make_jwt(exp=time.time() + 2), fresh_token()  # within the margin of three seconds
    tokens = {"id_token": old, "refresh_token": "secret", "refresh_url": stub.url + EXCHANGE}
    write_stored_login(home, url=stub.url, osmo_token=True, token_login=tokens, dev_login=None)
    stub.on("POST", EXCHANGE, {"token": new, "expires_at": 1})
    stub.on("GET", SETTINGS, PROFILE)
    assert osmo.bare("profile", "list").exit_code == 0
    assert stub.last.headers["authorization"] == f"Bearer {new}"
    assert read_stored(home)["token_login"]["id_token"] == new
    assert osmo.bare("profile", "list").exit_code == 0
    assert [request.path for request in stub.requests] == [EXCHANGE, SETTINGS, SETTINGS]


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_session_that_ended_by_the_clock_of_the_server_is_renewed_once(osmo, stub, home, is_refused):
    """The clock of this machine is behind, so that the session looks valid here."""
    ended, new = fresh_token(), make_jwt(exp=time.time() + 500)
    tokens = {"id_token": ended, "refresh_token": "secret", "refresh_url": stub.url + EXCHANGE}
    write_stored_login(home, url=stub.url, osmo_token=True, token_login=tokens, dev_login=None)
    stub.on("POST", EXCHANGE, {"token": new, "expires_at": 1})
    refusal = StubReply({"message": "The login has expired or was revoked.", "error_code": "USER"}, status=401)
    stub.on("GET", SETTINGS, *([refusal] if is_refused else [refusal, PROFILE]))
    assert osmo.bare("profile", "list").exit_code == (2 if is_refused else 0)
    assert [request.path for request in stub.requests] == [SETTINGS, EXCHANGE, SETTINGS]
    assert stub.last.headers["authorization"] == f"Bearer {new}"
    assert read_stored(home)["token_login"]["id_token"] == new


@pytest.mark.parametrize("offset", [-1, 2.5])
def test_a_token_expires_three_seconds_early(offset):
    assert login_file.is_expired(make_jwt(exp=1000 + offset), now=1000)
    assert not login_file.is_expired(make_jwt(exp=1004), now=1000)
    assert login_file.is_expired(make_jwt(), now=1000)


def test_a_refused_token_is_a_refusal(osmo, stub, home):
    stub.on("POST", EXCHANGE, StubReply({"message": "This token is not valid.", "error_code": "USER"}, status=401))
    result = osmo.bare("login", stub.url, "--token", "wrong")
    assert result.exit_code == 2
    assert result.stderr == f"Error: This token is not valid.\nLog in again: osmo login {stub.url}.\n"
    assert not (home / "login.yaml").exists()


@pytest.mark.parametrize("answer", [{"no": 1}, {"token": "not a token"}, ["x"], {"token": "a.b.c"}])
def test_an_exchange_with_an_invalid_answer(osmo, stub, answer):
    stub.on("POST", EXCHANGE, answer)
    result = osmo.bare("login", stub.url, "--token", "secret")
    assert result.exit_code in (2, 10)
    assert result.stderr.startswith("Error: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["login", "ftp://x", "--username", "a"], "is not an address"),
        (["login", "http://x", "--method", "dev"], "--username NAME"),
        (["login", "http://x", "--method", "token"], "--token-file FILE"),
        (["login", "http://x", "--token-file", "/does/not/exist"], "cannot be read"),
        (["profile", "list"], "You are not logged in."),
    ],
)
def test_missing_values_are_named(osmo, words, message):
    result = osmo.bare(*words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_stored_login_is_not_sent_to_another_server(osmo, stub, home):
    write_stored_login(home, url="http://elsewhere.invalid", dev_login={"username": "alice"})
    result = osmo.bare("profile", "list", env={"OSMO_URL": stub.url})
    assert result.exit_code == 2
    assert "You are logged in to http://elsewhere.invalid, not to" in result.stderr
    assert stub.requests == []


def test_a_token_of_the_environment_wins_over_the_file_and_is_not_stored(osmo, stub, home):
    write_stored_login(home, url=stub.url, dev_login={"username": "alice"})
    before = (home / "login.yaml").read_text()
    stub.on("POST", EXCHANGE, {"token": fresh_token(), "expires_at": 1})
    stub.on("GET", SETTINGS, PROFILE)
    assert osmo.bare("profile", "list", env={"OSMO_TOKEN": "secret"}).exit_code == 0
    assert stub.last.headers["authorization"].startswith("Bearer ")
    assert "x-osmo-user" not in stub.last.headers
    assert (home / "login.yaml").read_text() == before


def test_a_session_of_an_identity_provider_is_used_until_it_ends(osmo, stub, home):
    tokens = {"id_token": fresh_token(), "refresh_token": "r", "refresh_url": "http://idp.invalid/token"}
    write_stored_login(home, url=stub.url, osmo_token=False, token_login=tokens)
    stub.on("GET", SETTINGS, PROFILE)
    assert osmo.bare("profile", "list").exit_code == 0
    tokens["id_token"] = make_jwt(exp=1)
    write_stored_login(home, url=stub.url, osmo_token=False, token_login=tokens)
    result = osmo.bare("profile", "list")
    assert result.exit_code == 2
    assert "has ended" in result.stderr


@pytest.mark.parametrize(
    "content",
    [
        "url: [",
        "- 1",
        "url: http://s",
        "{url: http://s, dev_login: {username: a}, token_login: {id_token: x}}",
        "{url: http://s, dev_login: 3}",
        "{url: http://s, token_login: {}}",
        "{dev_login: {username: a}}",
    ],
)
def test_a_broken_login_file_is_named(osmo, home, content):
    home.mkdir()
    (home / "login.yaml").write_text(content)
    result = osmo.bare("profile", "list")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: The login file {home / 'login.yaml'} cannot be used: ")


def test_logout(osmo, stub, home):
    osmo.bare("login", stub.url, "--username", "alice")
    assert osmo.bare("logout").stdout == "Successfully logged out.\n"
    assert not (home / "login.yaml").exists()
    assert osmo.bare("logout").stdout == "You were not logged in.\n"


def test_version(osmo, stub):
    assert osmo.bare("--version").stdout.startswith("osmo 0.")
    body = {"major": "6", "minor": "4", "revision": "0", "hash": ""}
    stub.on("GET", "/api/version", StubReply(body, headers={"X-OSMO-Admin-Version": "0.9.1"}))
    lines = osmo.ok("version").splitlines()
    assert lines[1] == "OSMO service version: 6.4.0"
    assert lines[2] == f"OSMO Admin:           0.9.1 on the server, {__version__} here; 6.4.0 is the protocol"
    assert "x-osmo-client-version" not in stub.last.headers
    answer = json.loads(osmo.ok("version", "-t", "json"))
    assert set(answer) == {"client", "service", "osmo_admin"}
    assert answer["osmo_admin"] == {"client": __version__, "server": "0.9.1"}


def test_version_of_a_service_of_osmo_has_no_version_of_ours(osmo, stub):
    stub.on("GET", "/api/version", {"major": "6", "minor": "4", "revision": "0", "hash": ""})
    assert len(osmo.ok("version").splitlines()) == 2
    assert set(json.loads(osmo.ok("version", "-t", "json"))) == {"client", "service"}


def test_version_without_a_login_or_a_server_is_the_clients_own(osmo, home, no_waiting):
    assert osmo.bare("version").stdout.startswith("OSMO client version:")
    result = osmo.bare("version", env={"OSMO_URL": "http://127.0.0.1:9", "OSMO_USERNAME": "a"})
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 1
