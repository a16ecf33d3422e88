"""What every address has in common: JSON whatever is asked for, errors of one shape, nothing unreadable gets in."""

from __future__ import annotations

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
    @pytest.mark.parametrize("accept", ["text/html", "application/xml", "text/plain", "*/*", "", "nonsense"])
    def test_json_whatever_the_client_accepts(self, caller: Callers, accept: str) -> None:
        answer = caller("bob")("GET", "/api/profile/settings", accept=accept)
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/json"

    def test_format_is_an_unknown_query_key_like_any_other(self, caller: Callers) -> None:
        assert caller("bob")("GET", "/api/profile/settings?format=xml&more=1").status == 200

    def test_no_cache_may_keep_them(self, caller: Callers) -> None:
        assert caller("bob")("GET", "/api/profile/settings").headers["Cache-Control"] == "no-store"

    def test_two_slashes_are_one(self, caller: Callers) -> None:
        headers = {"Authorization": _bearer(caller("bob"))}
        assert Client().get("/", headers=headers, PATH_INFO="//api/profile/settings").status_code == 200

    def test_a_slash_at_the_end_is_another_address(self, caller: Callers) -> None:
        assert caller("bob")("GET", "/api/profile/settings/").status == 404


class TestRefusals:
    def test_unknown_addresses(self, caller: Callers, anonymous: ApiClient) -> None:
        for who in (caller("bob"), anonymous):
            answer = who("GET", "/api/nothing/here")
            assert (answer.status, set(answer.body), answer.body["error_code"]) == (404, SHAPE, "NOTFOUND")

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
    def test_unknown_addresses_ask_for_no_csrf_token(self, method: str) -> None:
        response = Client(enforce_csrf_checks=True).generic(method, "/api/nothing", "{}")
        assert (response.status_code, set(response.json())) == (404, SHAPE)

    @pytest.mark.parametrize("method", ["PUT", "PATCH", "TRACE", "QUERY"])
    def test_methods_that_are_not_offered(self, caller: Callers, method: str) -> None:
        answer = caller("bob")(method, "/api/profile/settings")
        assert (answer.status, set(answer.body)) == (405, SHAPE)
        assert "GET, POST" in answer.headers["Allow"]
        assert "Send one of GET, POST" in answer.body["message"]

    @pytest.mark.parametrize("sent", [None, "Bearer an-access-token"])
    def test_a_request_without_a_session_learns_where_it_gets_one(self, db: None, sent: str | None) -> None:
        answer = Client().get("/api/pool", headers={} if sent is None else {"Authorization": sent})
        assert answer.status_code == 401
        assert "POST /api/auth/jwt/access_token" in answer.json()["message"]

    @pytest.mark.parametrize(
        "address",
        ["/api/audit?object=%00", "/api/audit?%00=1", "/api/auth/user/a%00b", "/api/auth/user?roles=a&roles=%00"],
    )
    def test_characters_no_column_can_hold(self, admin: ApiClient, address: str) -> None:
        answer = admin("GET", address)
        assert (answer.status, set(answer.body)) == (400, SHAPE)

    @pytest.mark.parametrize(
        "body",
        [b"{", b'{"id": "a\\u0000"}', b'{"id": "\\ud800"}', b'{"\\u0000": 1}', b'{"id": 1e999}', b'{"id": NaN}',
         b"\xff", b'{"id": "a", "id": "b"}', b"[" * 100_000, b'"text"', b"7", b"null", b'{"id": ' + b"9" * 5000 + b"}"],
    )  # fmt: skip
    def test_bodies_that_are_none(self, admin: ApiClient, body: bytes) -> None:
        headers = {"Authorization": _bearer(admin)}
        response = Client().generic("POST", "/api/auth/user", body, content_type="application/json", headers=headers)
        assert response.status_code == 400, response.content
        assert set(response.json()) == SHAPE

    @pytest.mark.parametrize(("body", "fault"), [(b"\xff", "not UTF-8"), (b"[" * 100_000, "nested too deeply")])
    def test_a_fault_of_the_body_is_in_plain_words(self, admin: ApiClient, body: bytes, fault: str) -> None:
        headers = {"Authorization": _bearer(admin)}
        response = Client().generic("POST", "/api/auth/user", body, content_type="application/json", headers=headers)
        assert fault in response.json()["message"]

    def test_surrogates_that_belong_together_are_text(self, admin: ApiClient) -> None:
        headers = {"Authorization": _bearer(admin)}
        body = b'{"id": "bob", "description": "\\ud83d\\ude00"}'
        response = Client().generic("POST", "/api/auth/user", body, content_type="application/json", headers=headers)
        assert response.status_code == 200

    def test_a_body_beyond_all_measure(self, admin: ApiClient) -> None:
        answer = admin("POST", "/api/auth/user", {"id": "x" * 3_000_000})
        assert (answer.status, set(answer.body)) == (400, SHAPE)

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x/y"])
    def test_the_content_type_does_not_matter(self, admin: ApiClient, kind: str) -> None:
        headers = {"Authorization": _bearer(admin)}
        body = '{"id": "bob"}'
        assert Client().generic("POST", "/api/auth/user", body, content_type=kind, headers=headers).status_code == 200

    @pytest.mark.parametrize(
        ("call", "status", "detail"),
        [
            (("GET", "/api/auth/user/nobody"), 404, {"path": "", "code": "not_found"}),
            (("GET", "/api/nothing/here"), 404, {"path": "", "code": "not_found"}),
            (("POST", "/api/auth/user", {"id": "root"}), 409, {"path": "", "code": "conflict"}),
            (("PATCH", "/api/auth/user"), 405, {"path": "", "code": "bad_input"}),
        ],
        ids=lambda each: str(each) if isinstance(each, int) else "",
    )
    def test_every_refusal_has_its_code(
        self, admin: ApiClient, call: tuple[Any, ...], status: int, detail: dict[str, str]
    ) -> None:
        answer = admin(*call)
        assert answer.status == status
        assert answer.body["details"] == [detail | {"message": answer.body["message"]}]

    @pytest.mark.parametrize("coding", ["gzip", "br", "deflate, gzip", "x"])
    @pytest.mark.parametrize("address", ["/api/auth/user", "/api/simulate", "/api/auth/jwt/access_token"])
    def test_a_body_that_is_compressed_is_415(self, admin: ApiClient, address: str, coding: str) -> None:
        headers = {"Authorization": _bearer(admin), "Content-Encoding": coding}
        packed = gzip.compress(b'{"id": "bob"}')
        response = Client().generic("POST", address, packed, content_type="application/json", headers=headers)
        assert response.status_code == 415
        assert set(response.json()) == SHAPE
        (detail,) = response.json()["details"]
        assert (detail["path"], detail["code"]) == ("Content-Encoding", "bad_encoding")
        assert "send it as it is" in detail["message"]
        assert response.headers["Accept-Encoding"] == "identity"

    @pytest.mark.parametrize("coding", ["identity", "Identity", ""])
    def test_a_body_that_is_not_compressed_may_say_so(self, admin: ApiClient, coding: str) -> None:
        assert admin("POST", "/api/auth/user", {"id": "bob"}, content_encoding=coding).status == 200

    @pytest.mark.parametrize("address", ["/api/auth/jwt/access_token", "/api/configs/pool/team", "/api/simulate"])
    def test_an_answer_does_not_grow_with_the_faults_of_a_body(self, admin: ApiClient, address: str) -> None:
        faults = {f"k{number}": 1 for number in range(5_000)}
        answer = admin("PUT" if "configs" in address else "POST", address, faults)
        assert answer.status == 400
        assert len(answer.body["details"]) == MAX_DETAILS
        assert answer.body["details"][-1]["code"] == "more"
        assert answer.body["message"].count(" is not known here") <= MAX_DETAILS

    def test_the_warnings_of_a_query_fit_into_a_header(self, admin: ApiClient) -> None:
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

    @pytest.mark.parametrize(
        ("kind", "body"),
        [
            ("application/x-www-form-urlencoded", "&".join(f"p{number}=1" for number in range(1001))),
            (
                "multipart/form-data; boundary=x",
                BROKEN,
            ),
            ("multipart/form-data", "no boundary"),
        ],
        ids=["too many fields", "broken multipart", "no boundary"],
    )
    @pytest.mark.parametrize("address", ["/login/", "/users/-/create"])
    def test_a_form_that_is_none_is_a_page_and_no_trace(
        self, admin: ApiClient, logged: io.StringIO, address: str, kind: str, body: str
    ) -> None:
        options = {"raise_request_exception": False}
        client = Client(**options) if address == "/login/" else sign_in("root", **options)
        response = client.generic("POST", address, body, content_type=kind)
        assert response.status_code == 400
        assert "could not be read" in response.content.decode()
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
    @pytest.mark.parametrize("key", ["", "k" * 256])
    def test_keys_that_are_none(self, admin: ApiClient, key: str) -> None:
        answer = admin("POST", "/api/auth/user", {"id": "bob"}, idempotency_key=key)
        assert answer.body["details"][0]["path"] == "Idempotency-Key"
        assert answer.status == 400

    def test_an_error_is_not_stored(self, admin: ApiClient) -> None:
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


class TestClientAddress:
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
    def test_what_our_outermost_proxy_saw(
        self, proxies: int, forwarded: str, expected: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from dataclasses import replace

        from django.conf import settings

        monkeypatch.setattr(settings, "OSMO", replace(settings.OSMO, proxy_count=proxies))
        request = RequestFactory().get("/", headers={"X-Forwarded-For": forwarded}, REMOTE_ADDR="9.9.9.9")
        assert client_address(request) == expected


def _bearer(who: ApiClient) -> str:
    from pools.security.tokens import issue_jwt

    assert who.token is not None
    return f"Bearer {issue_jwt(who.token)[0]}"
