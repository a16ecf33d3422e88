"""Logging in: what anybody may ask, tokens for sessions, too many failures, the dev header."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import jwt
import pytest
import time_machine
from axes.models import AccessAttempt
from django.test import Client, override_settings
from django.utils import timezone

from osmo_admin import __version__
from pools.domain.changes.tokens import CreateToken, DeleteToken
from pools.domain.changes.users import CreateUser, DeleteUser, GrantRole
from pools.domain.people.roles import SYSTEM
from pools.models import AccessToken, SignOnIdentity, User
from pools.security.tokens import issue_jwt
from tests.support.api_client import ApiAnswer, ApiClient, Callers
from tests.support.world import apply_change, make_user

EXCHANGE = "/api/auth/jwt/access_token"
WHO = "/api/profile/settings"


def _secret(owner: str = "bob", name: str = "ci", **more: object) -> str:
    if not User.objects.filter(username=owner).exists():
        make_user(owner)
    return apply_change(CreateToken(owner=owner, name=name, **more))[1]  # type: ignore[arg-type]


def _session(secret: str, anonymous: ApiClient) -> ApiClient:
    answer = anonymous("POST", EXCHANGE, {"token": secret})
    assert answer.status == 200, answer.body
    return ApiClient(headers={"Authorization": f"Bearer {answer.body['token']}"})


def _warning(answer: ApiAnswer) -> str:
    return base64.b64decode(answer.headers.get("x-osmo-warning", "")).decode()


class TestWithoutALogin:
    def test_version(self, anonymous: ApiClient) -> None:
        answer = anonymous("GET", "/api/version")
        assert answer.body == {"major": "6", "minor": "4", "revision": "0", "hash": ""}
        assert Client().get("/api/version").headers["X-OSMO-Admin-Version"] == __version__
        assert anonymous("GET", "/api/version", authorization="Bearer a.b.c").status == 200, "a login that has ended"

    def test_where_to_log_in(self, anonymous: ApiClient) -> None:
        answer = anonymous("GET", "/api/auth/login")
        assert answer.status == 200
        assert set(answer.body.values()) == {None}
        assert set(answer.body) >= {"device_endpoint", "browser_client_id", "token_endpoint", "logout_endpoint"}

    def test_everything_else_asks_for_one(self, anonymous: ApiClient) -> None:
        answer = anonymous("GET", WHO)
        assert answer.status == 401
        assert answer.body["error_code"] == "USER"
        assert answer.headers["WWW-Authenticate"] == "Bearer"

    def test_client_version_for_scripts(self, client: Client) -> None:
        assert client.get("/client/version", headers={"Accept": "text/plain"}).content == b"6.4.0"
        assert client.get("/client/version").json()["major"] == "6"


class TestExchange:
    def test_a_token_becomes_a_session(self, anonymous: ApiClient) -> None:
        secret = _secret(roles=None)
        answer = anonymous("POST", EXCHANGE, {"token": secret})
        claims = jwt.decode(answer.body["token"], options={"verify_signature": False})
        assert answer.body["token"].count(".") == 2
        assert claims["exp"] == answer.body["expires_at"]
        assert claims["unique_name"] == claims["name"] == "bob"
        assert claims["osmo_token_name"] == "ci"
        assert answer.headers["Cache-Control"] == "no-store"
        assert _session(secret, anonymous)("GET", WHO).body["profile"]["username"] == "bob"

    def test_what_is_refused(self, anonymous: ApiClient) -> None:
        for body in ({}, {"token": ""}, {"token": 7}, {"token": None}, [], {"token": "x", "user": "y"}):
            assert anonymous("POST", EXCHANGE, body).status == 400, body
        answer = anonymous("POST", EXCHANGE, {"token": "x" * 43})
        assert (answer.status, answer.body["error_code"]) == (401, "USER")
        assert "not valid" in answer.body["message"]
        secret, expired = _secret(), _secret(name="old")
        AccessToken.objects.filter(name="old").update(expires_at=timezone.now() - timedelta(seconds=1))
        assert anonymous("POST", EXCHANGE, {"token": expired}).status == 401
        assert anonymous("POST", EXCHANGE, {"token": secret}).status == 200
        User.objects.filter(username="bob").update(is_active=False)
        assert anonymous("POST", EXCHANGE, {"token": secret}).status == 401, "of a removed user"

    def test_the_secret_is_kept_nowhere(self, anonymous: ApiClient) -> None:
        secret = _secret()
        assert not AccessToken.objects.filter(digest__contains=secret).exists()
        assert len(AccessToken.objects.get().digest) == 64


class TestSession:
    def test_it_ends_with_its_token_and_with_its_user(self, anonymous: ApiClient) -> None:
        first, second = _session(_secret(), anonymous), _session(_secret(name="second"), anonymous)
        assert (first("GET", WHO).status, second("GET", WHO).status) == (200, 200)
        apply_change(DeleteToken(owner="bob", name="ci"))
        assert (first("GET", WHO).status, second("GET", WHO).status) == (401, 200)
        apply_change(DeleteUser(username="bob"))
        assert second("GET", WHO).status == 401

    def test_it_lasts_no_longer_than_the_token(self, anonymous: ApiClient) -> None:
        soon = timezone.now() + timedelta(seconds=60)
        answer = anonymous("POST", EXCHANGE, {"token": _secret(expires_at=soon)})
        assert answer.body["expires_at"] <= soon.timestamp()

    def test_it_ends_although_its_signature_was_checked_before(self, anonymous: ApiClient, settings: Any) -> None:
        session = _session(_secret(), anonymous)
        assert session("GET", WHO).status == 200
        with time_machine.travel(timezone.now() + timedelta(minutes=5, seconds=6)):
            assert session("GET", WHO).status == 401
        settings.SECRET_KEY = "another-key-of-at-least-32-characters"
        assert session("GET", WHO).status == 401

    def test_roles_are_those_of_now(self, anonymous: ApiClient) -> None:
        session = _session(_secret(), anonymous)
        assert session("GET", "/api/auth/user").status == 403
        from pools.services.people.users import grant_role

        grant_role(GrantRole(username="bob", role_name="osmo-viewer"), actor=SYSTEM)
        assert session("GET", "/api/auth/user").status == 200

    def test_somebody_elses_signature_is_worth_nothing(self, caller: Callers) -> None:
        bob = caller("bob")
        assert bob.token is not None
        claims = jwt.decode(issue_jwt(bob.token)[0], options={"verify_signature": False})
        forged = jwt.encode(claims, "another-key-of-at-least-32-characters", algorithm="HS256")
        unsigned = jwt.encode(claims, None, algorithm="none")
        for encoded in (forged, unsigned, "", "a.b.c", "x"):
            assert ApiClient()("GET", WHO, authorization=f"Bearer {encoded}").status == 401
        assert ApiClient()("GET", WHO, authorization="Basic Ym9iOng=").status == 401, "another scheme"


class TestTooManyFailures:
    def test_an_address_has_to_wait(self, db: None) -> None:
        def enter(token: str, address: str = "10.0.0.1") -> Any:
            client = Client(REMOTE_ADDR=address)
            return client.post(EXCHANGE, {"token": token}, content_type="application/json")

        secret = _secret()
        assert [enter(f"{n:043}").status_code for n in range(11)] == [401] * 10 + [429]
        answer = enter("y" * 43)
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "900")
        assert (answer.json()["error_code"], "15 minutes" in answer.json()["message"]) == ("USER", True)
        assert enter(secret).status_code == 200, "a right token is let in from there"
        assert enter("y" * 43, "10.0.0.2").status_code == 401, "another address does not wait"
        AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=16))
        assert enter("y" * 43).status_code == 401, "it ends by itself"

    def test_a_browser_login_locks_that_name_and_nobody_else_at_the_address(self, db: None) -> None:
        for name in ("bob", "carol"):
            apply_change(CreateUser(id=name), password="only-for-tests-4711")

        def enter(name: str, password: str) -> Any:
            return Client(REMOTE_ADDR="10.0.0.1").post("/login/", {"username": name, "password": password})

        assert [enter("bob", "wrong").status_code for _ in range(10)][-1] == 429
        locked = enter("bob", "only-for-tests-4711")
        assert (locked.status_code, locked.headers["Retry-After"]) == (429, "900")
        assert "Wait 15 minutes" in locked.content.decode()
        assert enter("carol", "only-for-tests-4711").status_code == 302


class TestDevHeader:
    def test_it_is_ignored_by_an_installation_that_is_not_in_dev_mode(self, caller: Callers) -> None:
        caller("bob", "osmo-admin")
        assert ApiClient()("GET", WHO, x_osmo_user="bob").status == 401

    def test_it_does_not_change_who_a_session_is(self, caller: Callers) -> None:
        caller("root", "osmo-admin")
        bob = caller("bob")
        assert bob("GET", WHO, x_osmo_user="root", x_osmo_roles="osmo-admin").body["profile"]["username"] == "bob"
        with override_settings(DEV_LOGIN=True):
            assert bob("GET", WHO, x_osmo_user="root").body["profile"]["username"] == "bob"

    def test_it_is_believed_in_dev_mode(self, caller: Callers, settings: Any) -> None:
        caller("bob", "osmo-viewer")
        settings.DEV_LOGIN = True
        answer = ApiClient()("GET", WHO, x_osmo_user="bob")
        assert answer.body["profile"]["username"] == "bob"
        assert answer.body["roles"] == ["osmo-viewer"]
        refused = ApiClient()("GET", WHO, x_osmo_user="nobody")
        assert (refused.status, refused.body["message"]) == (401, "There is no such user.")


class TestWarnings:
    def test_a_token_that_ends_soon(self, anonymous: ApiClient) -> None:
        secret = _secret(expires_at=timezone.now() + timedelta(days=6))
        assert "ci ends on" in _warning(anonymous("POST", EXCHANGE, {"token": secret}))
        session = _session(secret, anonymous)
        assert "ci ends on" in _warning(session("GET", WHO))
        refused = session("GET", "/api/auth/user")
        assert (refused.status, "ci ends on" in _warning(refused)) == (403, True), "refusals carry it too"
        AccessToken.objects.update(expires_at=timezone.now() + timedelta(days=8))
        assert _warning(session("GET", WHO)) == ""

    @pytest.mark.parametrize(("minutes", "is_warned"), [(12 * 60, False), (61, False), (59, True)])
    def test_a_login_warns_in_its_last_hour_and_names_the_command(
        self, anonymous: ApiClient, minutes: int, is_warned: bool
    ) -> None:
        """Tokens of `osmo login`, and those that were made with one of a sign-on, which end with it."""
        of_login = _secret(expires_at=timezone.now() + timedelta(minutes=minutes), name="login-1a2b")
        made_with_it = _secret(expires_at=timezone.now() + timedelta(minutes=minutes), name="ci")
        owner = User.objects.get(tokens__name="ci")
        identity = SignOnIdentity.objects.create(
            user=owner, provider="corp", issuer="x", subject="1", valid_until=timezone.now() + timedelta(hours=1)
        )
        AccessToken.objects.filter(name="ci").update(identity=identity)
        for secret in (of_login, made_with_it):
            for warning in (
                _warning(anonymous("POST", EXCHANGE, {"token": secret})),
                _warning(_session(secret, anonymous)("GET", WHO)),
            ):
                assert ("Log in again: osmo login." in warning) is is_warned and "osmo token set" not in warning

    def test_an_older_client_is_served_and_warned(self, caller: Callers) -> None:
        bob = caller("bob")
        for version in ("6.3.9", "5.0.0.abc", "0.0.1"):
            answer = bob("GET", WHO, x_osmo_client_version=version)
            assert answer.status == 200
            assert f"version {version}; this service speaks 6.4.0" in _warning(answer)
        for version in ("6.4.0", "6.4.0.abc", "7.0.0", "nonsense", "", "6.4", "9" * 400):
            answer = bob("GET", WHO, x_osmo_client_version=version)
            assert (answer.status, _warning(answer)) == (200, ""), version
