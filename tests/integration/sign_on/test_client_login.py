"""Logins of clients with consent in the browser."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from pools.domain.changes.users import CreateUser, DeleteUser, GrantRole
from pools.models import AccessToken, AuditEntry, ClientLogin, SignOnIdentity, User
from tests.integration.sign_on.conftest import FaultyProvider
from tests.integration.sign_on.test_browser_sign_on import PASSWORD, check_now
from tests.support import world

pytestmark = pytest.mark.django_db
START, TOKEN = "/api/auth/client_login", "/api/auth/client_login/token"


def post(path: str, body: dict[str, Any], jwt: str = "") -> Any:
    headers = {"Authorization": f"Bearer {jwt}"} if jwt else {}
    return Client().post(path, body, content_type="application/json", headers=headers)


def begin(name: str = "laptop") -> dict[str, Any]:
    return dict(post(START, {"client_name": name}).json())


def ask(started: dict[str, Any]) -> dict[str, Any]:
    return dict(post(TOKEN, {"device_code": started["device_code"]}).json())


def login_of(secret: str) -> Any:
    return post("/api/auth/jwt/access_token", {"token": secret})


def answer(browser: Client, started: dict[str, Any], how: str = "approve") -> Any:
    return browser.post("/client-login/", {"code": started["user_code"], "answer": how})


@pytest.fixture
def bob() -> Client:
    world.apply_change(CreateUser(id="bob", roles=["osmo-viewer"]), password=PASSWORD)
    browser = Client()
    browser.post("/login/", {"username": "bob", "password": PASSWORD})
    return browser


def test_consent_gives_one_token(bob: Client) -> None:
    started = begin("laptop <b>")
    assert started["verification_uri_complete"] == f"http://testserver/client-login/?code={started['user_code']}"
    page = bob.get("/client-login/", {"code": started["user_code"].lower().replace("-", " ")}).content.decode()
    assert "laptop &lt;b&gt;" in page and "127.0.0.1" in page and "<b>bob</b>" in page
    assert ask(started) == {"status": "pending", "token": None, "token_name": None, "expires_at": None}
    assert answer(bob, started).status_code == 302
    given = ask(started)
    assert given["status"] == "approved" and given["token_name"].startswith("login-")
    assert ask(started)["status"] == "expired"  # once
    jwt = login_of(given["token"]).json()["token"]
    settings = Client().get("/api/profile/settings", headers={"Authorization": f"Bearer {jwt}"}).json()
    assert (settings["profile"]["username"], settings["roles"]) == ("bob", ["osmo-viewer"])
    entry = AuditEntry.objects.filter(action="token.created").latest("id")
    assert (entry.actor, entry.description) == ("bob", "osmo login on laptop <b>, from 127.0.0.1")
    assert given["token"] not in str([entry.before, entry.after]) and not ClientLogin.objects.exists()


def test_a_refusal_ends_the_login(bob: Client) -> None:
    started = begin()
    answer(bob, started, "deny")
    assert ask(started)["status"] == "denied"
    assert answer(bob, started).status_code == 404 and not AccessToken.objects.exists()


def test_codes_end(bob: Client) -> None:
    started = begin()
    ClientLogin.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert bob.get("/client-login/", {"code": started["user_code"]}).status_code == 404
    assert answer(bob, started).status_code == 404
    assert ask(started)["status"] == "expired"
    begin()
    assert ClientLogin.objects.count() == 1  # old ones are removed


def test_consent_needs_a_login_and_a_form_of_ours(bob: Client) -> None:
    started = begin()
    visit = Client().get("/client-login/", {"code": started["user_code"]})
    assert visit.headers["Location"] == f"/login/?next=/client-login/%3Fcode%3D{started['user_code']}"
    assert answer(Client(), started).status_code == 403
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = bob.cookies
    assert answer(strict, started).status_code == 403
    assert ask(started)["status"] == "pending"


def test_a_closed_account_gets_no_token(bob: Client) -> None:
    started = begin()
    answer(bob, started)
    User.objects.filter(username="bob").update(is_active=False)
    assert ask(started)["status"] == "expired" and not AccessToken.objects.exists()


def test_a_consent_ends_with_the_account(bob: Client) -> None:
    """A client that a removed person let in is not a client of the next person of the name."""
    world.make_pool("team", 8)
    world.apply_change(GrantRole(username="bob", role_name="osmo-team-user"))
    # The account has work, so its row stays for the next person.
    world.submit_workflow(User.objects.get(username="bob").as_actor(), "team", 1)
    started = begin()
    answer(bob, started)
    world.apply_change(DeleteUser(username="bob"))
    world.make_user("bob", "osmo-viewer")
    assert ask(started)["status"] == "expired" and not AccessToken.objects.exists()


def test_strangers_cannot_fill_the_table() -> None:
    for _ in range(20):
        begin()
    refused = post(START, {})
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "60")
    assert refused.json()["details"][0]["code"] == "too_many_client_logins"
    assert ClientLogin.objects.count() == 20


@pytest.mark.parametrize(
    ("path", "body"),
    [(START, {"client_name": 7}), (START, {"client_name": "x" * 65}), (START, {"other": 1}), (TOKEN, {})],
)
def test_a_wrong_body_is_named(path: str, body: dict[str, Any]) -> None:
    assert post(path, body).status_code == 400


def test_the_token_lives_as_long_as_the_sign_on(corp: FaultyProvider) -> None:
    corp.sign_on()
    started = begin()
    answer(corp.browser, started)
    given = ask(started)
    jwt = login_of(given["token"]).json()["token"]
    token = AccessToken.objects.get()
    assert token.identity == SignOnIdentity.objects.get() and token.expires_at == token.identity.session_until
    child = post("/api/auth/access_token/ci", {}, jwt)
    assert child.status_code == 200, child.content

    SignOnIdentity.objects.update(
        valid_until=timezone.now() - timedelta(hours=1)
    )  # the provider has not answered for too long
    assert [login_of(secret).status_code for secret in (given["token"], child.json())] == [401, 401]
    me = Client().get("/api/profile/settings", headers={"Authorization": f"Bearer {jwt}"})
    assert me.status_code == 401
    check_now()
    assert login_of(given["token"]).status_code == 200

    corp.control(end="s-1")
    check_now()
    assert not AccessToken.objects.exists()
    assert Client().get("/api/profile/settings", headers={"Authorization": f"Bearer {jwt}"}).status_code == 401
