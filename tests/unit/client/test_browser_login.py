"""`osmo login` with consent in the browser, and with a password."""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml

from osmo_admin.cli.base import browser_login
from tests.unit.client.stub_server import make_jwt

START, TOKEN = "/api/auth/client_login", "/api/auth/client_login/token"
EXCHANGE = "/api/auth/jwt/access_token"
PAGE = "http://osmo.example/client-login/?code=BCDF-GHJK"


@pytest.fixture
def started(stub: Any, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The server begins a login; the pauses of the client."""
    pauses: list[float] = []
    monkeypatch.setattr(browser_login, "pause", pauses.append)
    answer = {"device_code": "d", "user_code": "BCDF-GHJK", "verification_uri_complete": PAGE}
    stub.on("POST", START, answer | {"expires_in": 600, "interval": 2})
    return pauses


def test_the_client_waits_for_the_consent(osmo: Any, stub: Any, home: Any, started: list[float]) -> None:
    jwt = make_jwt(exp=time.time() + 300, name="alice", osmo_token_name="login-1a")
    pending, approved = {"status": "pending", "token": None}, {"status": "approved", "token": "secret"}
    stub.on("POST", TOKEN, pending, pending, approved)
    stub.on("POST", EXCHANGE, {"token": jwt, "expires_at": 1})
    result = osmo.bare("login", stub.url)
    assert (result.exit_code, result.stdout) == (0, "Successfully logged in. Welcome alice.\n")
    assert PAGE in result.stderr and "BCDF-GHJK" in result.stderr
    assert started == [2.0, 2.0]
    stored = yaml.safe_load((home / "login.yaml").read_text())
    assert stored["token_login"]["refresh_token"] == "secret" and stored["osmo_token"] is True

    stub.on("DELETE", "/api/auth/access_token/login-1a", None)
    assert osmo.bare("logout").exit_code == 0
    assert (stub.last.method, stub.last.path) == ("DELETE", "/api/auth/access_token/login-1a")
    assert not (home / "login.yaml").exists()


@pytest.mark.parametrize(("status", "message"), [("denied", "refused in the browser"), ("expired", "in time")])
def test_the_client_ends_without_consent(
    osmo: Any, stub: Any, home: Any, started: list[float], status: str, message: str
) -> None:
    stub.on("POST", TOKEN, {"status": status, "token": None})
    result = osmo.bare("login", stub.url)
    assert result.exit_code != 0 and message in result.stderr
    assert not (home / "login.yaml").exists()


def test_a_server_that_answers_something_else(osmo: Any, stub: Any) -> None:
    stub.on("POST", START, {"hello": 1})
    result = osmo.bare("login", stub.url, "--method", "browser")
    assert result.exit_code != 0 and "did not answer as expected" in result.stderr


PASSWORD = "/api/auth/client_login/password"


@pytest.mark.parametrize("options", [["--method", "password"], []], ids=["named", "chosen"])
def test_a_password_of_a_file(osmo: Any, stub: Any, home: Any, tmp_path: Any, options: list[str]) -> None:
    (tmp_path / "password").write_text(" s3cret \n")
    jwt = make_jwt(exp=time.time() + 300, name="ann", osmo_token_name="login-1a")
    stub.on("POST", PASSWORD, {"token": "secret", "token_name": "login-1a", "expires_at": None})
    stub.on("POST", EXCHANGE, {"token": jwt, "expires_at": 1})
    file = ["--password-file", str(tmp_path / "password")]
    result = osmo.bare("login", stub.url, "--username", "ann", *file, *options)
    assert (result.exit_code, result.stdout) == (0, "Successfully logged in. Welcome ann.\n")
    sent = next(each.body for each in stub.requests if each.path == PASSWORD)
    assert (sent["username"], sent["password"]) == ("ann", " s3cret ")  # only the end of the line does not belong to it
    stored = (home / "login.yaml").read_text()
    assert yaml.safe_load(stored)["token_login"]["refresh_token"] == "secret" and "s3cret" not in stored


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "password"], "Name the user"),
        (["--method", "password", "--username", "ann"], "no terminal"),
        (["--username", "ann", "--password-file", "/nowhere"], "cannot be read"),
        (["--username", "ann", "--password-file", "/dev/null"], "is empty"),
    ],
)
def test_nothing_is_sent_without_a_password(osmo: Any, stub: Any, options: list[str], message: str) -> None:
    result = osmo.bare("login", stub.url, *options)
    assert result.exit_code != 0 and message in result.stderr and not stub.requests
