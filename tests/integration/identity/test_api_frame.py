"""What every address has in common: JSON whatever is asked for, errors of one shape, nothing unreadable gets in."""

from __future__ import annotations

import dataclasses
import gzip
import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client, RequestFactory

from osmo_admin.monitoring.logs import formatter
from osmo_admin.web.client_address import client_address
from pools.api import audit
from pools.domain.errors import MAX_DETAILS
from pools.models import IdempotencyRecord
from tests.support.api_client import ApiClient, Callers
from tests.support.world import sign_in

BROKEN = (
    '--x\r\nContent-Disposition: form-data; name="a"; filename="f"\r\n'
    "Content-Transfer-Encoding: base64\r\n\r\n!!!!=a==\r\n--x--\r\n"
)
SHAPE = {"message", "error_code", "workflow_id", "details"}


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """The log of the application."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(formatter("console"))
    logging.getLogger().addHandler(handler)
    yield text
    logging.getLogger().removeHandler(handler)


class TestAnswers:
    def test_json_whatever_the_client_accepts_and_no_cache_may_keep_it(self, caller: Callers) -> None:
        bob = caller("bob")
        for accept in ("text/html", "application/xml", "text/plain", "*/*", "", "nonsense"):
            answer = bob("GET", "/api/profile/settings", accept=accept)
            assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
            assert answer.headers["Cache-Control"] == "no-store"
        assert bob("GET", "/api/profile/settings?format=xml&more=1").status == 200, "format is an unknown key as others"

    def test_two_slashes_are_one_and_one_at_the_end_is_another_address(self, caller: Callers) -> None:
        bob = caller("bob")
        headers = {"Authorization": _bearer(bob)}
        assert Client().get("/", headers=headers, PATH_INFO="//api/profile/settings").status_code == 200
        assert bob("GET", "/api/profile/settings/").status == 404


def _send(
    who: ApiClient, body: Any, address: str = "/api/auth/user", kind: str = "application/json", **more: str
) -> Any:
    """The answer to a body as it is."""
    headers = {"Authorization": _bearer(who), **{name.replace("_", "-"): value for name, value in more.items()}}
    return Client().generic("POST", address, body, content_type=kind, headers=headers)


class TestRefusals:
    def test_unknown_addresses(self, caller: Callers, anonymous: ApiClient) -> None:
        for who in (caller("bob"), anonymous):
            answer = who("GET", "/api/nothing/here")
            assert (answer.status, set(answer.body), answer.body["error_code"]) == (404, SHAPE, "NOTFOUND")
        for method in ("POST", "PUT", "DELETE"):  # they ask for no CSRF token
            response = Client(enforce_csrf_checks=True).generic(method, "/api/nothing", "{}")
            assert (response.status_code, set(response.json())) == (404, SHAPE)

    def test_methods_that_are_not_offered(self, caller: Callers) -> None:
        bob = caller("bob")
        for method in ("PUT", "PATCH", "TRACE", "QUERY"):
            answer = bob(method, "/api/profile/settings")
            assert (answer.status, set(answer.body)) == (405, SHAPE)
            assert "GET, POST" in answer.headers["Allow"] and "Send one of GET, POST" in answer.body["message"]

    def test_a_request_without_a_session_learns_where_it_gets_one(self, db: None) -> None:
        for headers in ({}, {"Authorization": "Bearer an-access-token"}):
            answer = Client().get("/api/pool", headers=headers)
            assert answer.status_code == 401
            assert "POST /api/auth/jwt/access_token" in answer.json()["message"]

    def test_characters_no_column_can_hold(self, admin: ApiClient) -> None:
        for address in ("audit?object=%00", "audit?%00=1", "auth/user/a%00b", "auth/user?roles=a&roles=%00"):
            answer = admin("GET", f"/api/{address}")
            assert (answer.status, set(answer.body)) == (400, SHAPE), address

    def test_bodies_that_are_none(self, admin: ApiClient) -> None:
        for body in (
            b"{", b'{"id": "a\\u0000"}', b'{"id": "\\ud800"}', b'{"\\u0000": 1}', b'{"id": 1e999}', b'{"id": NaN}',
            b"\xff", b'{"id": "a", "id": "b"}', b"[" * 100_000, b'"text"', b"7", b"null",
            b'{"id": ' + b"9" * 5000 + b"}", b'{"id": "' + b"x" * 3_000_000 + b'"}',
        ):  # fmt: skip
            response = _send(admin, body)
            assert (response.status_code, set(response.json())) == (400, SHAPE), body[:100]
        assert "not UTF-8" in _send(admin, b"\xff").json()["message"]
        assert "nested too deeply" in _send(admin, b"[" * 100_000).json()["message"]

    def test_surrogates_that_belong_together_are_text_and_the_content_type_does_not_matter(
        self, admin: ApiClient
    ) -> None:
        assert _send(admin, b'{"id": "bob", "description": "\\ud83d\\ude00"}').status_code == 200
        kinds = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x/y")
        for number, kind in enumerate(kinds):
            assert _send(admin, f'{{"id": "bob{number}"}}', kind=kind).status_code == 200, kind

    def test_every_refusal_has_its_code(self, admin: ApiClient) -> None:
        for call, status, code in (
            (("GET", "/api/auth/user/nobody"), 404, "not_found"),
            (("GET", "/api/nothing/here"), 404, "not_found"),
            (("POST", "/api/auth/user", {"id": "root"}), 409, "conflict"),
            (("PATCH", "/api/auth/user"), 405, "bad_input"),
        ):
            answer = admin(*call)
            assert answer.status == status
            assert answer.body["details"] == [{"path": "", "code": code, "message": answer.body["message"]}]

    def test_a_body_that_is_compressed_is_415(self, admin: ApiClient) -> None:
        packed = gzip.compress(b'{"id": "bob"}')
        for address in ("/api/auth/user", "/api/simulate", "/api/auth/jwt/access_token"):
            for coding in ("gzip", "br", "deflate, gzip", "x"):
                response = _send(admin, packed, address, content_encoding=coding)
                assert (response.status_code, set(response.json())) == (415, SHAPE)
                (detail,) = response.json()["details"]
                assert (detail["path"], detail["code"]) == ("Content-Encoding", "bad_encoding")
                assert "send it as it is" in detail["message"]
                assert response.headers["Accept-Encoding"] == "identity"
        for number, coding in enumerate(("identity", "Identity", "")):
            assert admin("POST", "/api/auth/user", {"id": f"bob{number}"}, content_encoding=coding).status == 200

    def test_an_answer_does_not_grow_with_the_faults_of_a_body_or_a_query(self, admin: ApiClient) -> None:
        faults = {f"k{number}": 1 for number in range(5_000)}
        for method, address in (("POST", "auth/jwt/access_token"), ("PUT", "configs/pool/team"), ("POST", "simulate")):
            answer = admin(method, f"/api/{address}", faults)
            assert (answer.status, len(answer.body["details"])) == (400, MAX_DETAILS)
            assert answer.body["details"][-1]["code"] == "more"
            assert answer.body["message"].count(" is not known here") <= MAX_DETAILS
        answer = admin("GET", "/api/workflow", query={f"k{number}": 1 for number in range(200)})
        assert answer.status == 200
        assert len(answer.headers["x-osmo-warning"]) < 4_000

    def test_too_many_parameters_are_refused_with_the_limit(self, admin: ApiClient, logged: io.StringIO) -> None:
        many = "&".join(f"p{number}=1" for number in range(1001))
        answer = admin("GET", f"/api/auth/user?{many}")
        assert (answer.status, set(answer.body)) == (400, SHAPE)
        (detail,) = answer.body["details"]
        assert (detail["code"], detail["limit"]) == ("too_many_parameters", 1000)
        assert "at most 1000" in answer.body["message"]
        assert "TooManyFieldsSent" in logged.getvalue()
        assert "Traceback" not in logged.getvalue()

    def test_a_form_that_is_none_is_a_page_and_no_trace(self, admin: ApiClient, logged: io.StringIO) -> None:
        options = {"raise_request_exception": False}
        for kind, body in (
            ("application/x-www-form-urlencoded", "&".join(f"p{number}=1" for number in range(1001))),
            ("multipart/form-data; boundary=x", BROKEN),
            ("multipart/form-data", "no boundary"),
        ):
            for client, address in ((Client(**options), "/login/"), (sign_in("root", **options), "/users/-/create")):
                response = client.generic("POST", address, body, content_type=kind)
                assert (response.status_code, "could not be read" in response.content.decode()) == (400, True)
        assert "Traceback" not in logged.getvalue()

    def test_a_database_that_is_away_is_503(self, caller: Callers, monkeypatch: pytest.MonkeyPatch) -> None:
        bob = caller("bob")

        def lost(*_: Any, **__: Any) -> None:
            raise OperationalError("server closed the connection")

        monkeypatch.setattr(audit, "AuditFilterSet", lost)
        answer = bob("GET", "/api/audit")
        assert (answer.status, answer.body["error_code"]) == (503, "SERVER")
        assert int(answer.headers["Retry-After"]) >= 1
        assert "closed" not in answer.body["message"]

    def test_a_mistake_of_ours_is_500_without_its_inside(
        self, caller: Callers, logged: io.StringIO, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bob = caller("bob")

        def broken(*_: Any, **__: Any) -> None:
            raise RuntimeError("an internal secret")

        monkeypatch.setattr(audit, "AuditFilterSet", broken)
        client = Client(raise_request_exception=False)
        response = client.get("/api/audit", headers={"Authorization": _bearer(bob)})
        assert response.status_code == 500
        assert "Traceback" in logged.getvalue()
        assert response.json()["details"][0]["code"] == "defect"
        assert set(response.json()) == SHAPE
        assert response.json()["error_code"] == "SERVER"
        assert response.headers["X-Request-ID"] in response.json()["message"]
        assert "secret" not in response.content.decode()


class TestSession:
    def test_a_change_from_a_browser_needs_its_csrf_token(self, admin: ApiClient) -> None:
        client = sign_in("root", enforce_csrf_checks=True)
        assert client.get("/api/profile/settings").status_code == 200
        refused = client.post("/api/auth/user", {"id": "bob"}, content_type="application/json")
        assert (refused.status_code, set(refused.json())) == (403, SHAPE)


class TestIdempotency:
    def test_keys_that_are_none_and_errors_are_not_stored(self, admin: ApiClient) -> None:
        for key in ("", "k" * 256):
            answer = admin("POST", "/api/auth/user", {"id": "bob"}, idempotency_key=key)
            assert (answer.status, answer.body["details"][0]["path"]) == (400, "Idempotency-Key")
        assert admin("POST", "/api/auth/user", {"id": "a b"}, idempotency_key="k").status == 400
        assert not IdempotencyRecord.objects.exists()
        assert admin("POST", "/api/auth/user", {"id": "ab"}, idempotency_key="k").status == 200

    def test_two_peoples_keys_are_two(self, caller: Callers) -> None:
        bob, carol = caller("bob"), caller("carol")
        bob("POST", "/api/auth/access_token/ci", idempotency_key="k")
        answer = carol("POST", "/api/auth/access_token/ci", idempotency_key="k")
        assert answer.status == 200
        assert "Idempotent-Replayed" not in answer.headers

    def test_a_null_is_a_success_too(self, caller: Callers) -> None:
        bob = caller("bob")
        bob("POST", "/api/profile/settings", {"email_notification": True}, idempotency_key="k")
        again = bob("POST", "/api/profile/settings", {"email_notification": True}, idempotency_key="k")
        assert (again.status, again.body, again.headers["Idempotent-Replayed"]) == (200, None, "true")


@pytest.mark.parametrize(
    ("proxies", "forwarded", "expected"),
    [
        (0, "1.1.1.1", "9.9.9.9"),
        (1, "1.1.1.1", "1.1.1.1"),
        (1, "6.6.6.6, 1.1.1.1", "1.1.1.1"),
        (2, "6.6.6.6, 1.1.1.1, 2.2.2.2", "1.1.1.1"),
        (2, "1.1.1.1", "9.9.9.9"),
        (1, "", "9.9.9.9"),
        (1, " , ", "9.9.9.9"),
    ],
)
def test_the_address_of_a_client_is_what_our_outermost_proxy_saw(
    proxies: int, forwarded: str, expected: str, settings: Any
) -> None:
    settings.OSMO = dataclasses.replace(settings.OSMO, proxy_count=proxies)
    request = RequestFactory().get("/", headers={"X-Forwarded-For": forwarded}, REMOTE_ADDR="9.9.9.9")
    assert client_address(request) == expected


def _bearer(who: ApiClient) -> str:
    from pools.security.tokens import issue_jwt

    assert who.token is not None
    return f"Bearer {issue_jwt(who.token)[0]}"
