"""Logins: many names from one address, many at one moment, and the passwords that may be set."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from axes.models import AccessAttempt, AccessLog
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.test import Client, RequestFactory
from django.utils import timezone

from osmo_admin.access import password_hashing
from osmo_admin.ops.programs import process_commands
from osmo_admin.processes.bootstrap import prepare_database
from osmo_admin.web.client_address import client_address
from pools.domain.changes.users import CreateUser, SetPassword
from pools.domain.errors import BadInput
from pools.models import User
from scheduling.tasks import forget_idempotency_keys
from tests.support.world import apply_change, sign_in

GOOD = "only-for-tests-4711"


def enter(name: str, password: str, address: str = "10.0.0.1", **meta: str) -> Any:
    return Client(REMOTE_ADDR=address, **meta).post("/login/", {"username": name, "password": password})


@pytest.fixture(autouse=True)
def fast_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash of a real password takes most of a second."""
    monkeypatch.setattr(password_hashing.OneAtATimeHasher, "iterations", 10)


@pytest.fixture
def dora(db: None) -> User:
    return apply_change(CreateUser(id="dora"), password=GOOD)


@pytest.fixture
def few_failures(settings: Any) -> None:
    """Twelve failed logins of an address are the most."""
    settings.OSMO = dataclasses.replace(settings.OSMO, max_login_failures=12)


@pytest.mark.usefixtures("few_failures")
class TestManyNamesFromOneAddress:
    def test_the_address_has_to_wait(self, dora: User) -> None:
        """A review tried one password for 14 names, all of them."""
        assert [enter(f"name{n}", "spring-2026").status_code for n in range(12)] == [200] * 12
        rows = AccessAttempt.objects.count()
        refused = enter("name13", "spring-2026")
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "900")
        assert "too many failed logins for this address" in refused.content.decode()
        assert enter("dora", GOOD).status_code == 429
        assert AccessAttempt.objects.count() == rows, "refused attempts fill no table"
        assert enter("dora", GOOD, "10.0.0.2").status_code == 302

    def test_a_success_of_one_name_resets_no_other(self, dora: User) -> None:
        for number in range(11):
            enter(f"name{number}", "spring-2026")
        assert enter("dora", GOOD).status_code == 302
        enter("name12", "spring-2026")
        assert enter("dora", GOOD).status_code == 429

    def test_it_ends_by_itself(self, dora: User) -> None:
        for number in range(13):
            enter(f"name{number}", "spring-2026")
        AccessAttempt.objects.update(attempt_time=timezone.now() - timezone.timedelta(minutes=16))  # type: ignore[attr-defined]
        assert enter("dora", GOOD).status_code == 302

    def test_a_network_of_ipv6_is_one_client(self, dora: User) -> None:
        for number in range(12):
            enter(f"name{number}", "spring-2026", f"2001:db8::{number:x}")
        assert enter("dora", GOOD, "2001:db8::ffff").status_code == 429
        assert enter("dora", GOOD, "2001:db8:0:1::1").status_code == 302

    def test_the_client_counts_and_not_the_proxy(self, dora: User, settings: Any) -> None:
        settings.OSMO = dataclasses.replace(settings.OSMO, proxy_count=1)
        for number in range(12):
            enter(f"name{number}", "spring-2026", "10.0.0.9", HTTP_X_FORWARDED_FOR=f"1.2.3.{number}, 203.0.113.5")
        assert enter("dora", GOOD, "10.0.0.9", HTTP_X_FORWARDED_FOR="9.9.9.9, 203.0.113.5").status_code == 429
        assert enter("dora", GOOD, "10.0.0.9", HTTP_X_FORWARDED_FOR="203.0.113.5, 203.0.113.6").status_code == 302

    def test_a_stolen_session_tries_no_passwords(self, dora: User) -> None:
        thief = sign_in(dora, REMOTE_ADDR="10.0.0.3")
        form = {"old": "wrong", "new": "quiet-river-12", "again": "quiet-river-12"}
        assert [thief.post("/password_change/", form).status_code for _ in range(10)] == [400] * 9 + [429]
        assert thief.post("/password_change/", {**form, "old": GOOD}).status_code == 429

    def test_a_login_leaves_no_row_for_ever(self, dora: User) -> None:
        enter("dora", GOOD)
        assert not AccessLog.objects.exists()


def test_sessions_that_have_ended_are_deleted(dora: User) -> None:
    """Each login is a row, and nobody deleted them."""
    enter("dora", GOOD)
    enter("dora", GOOD)
    first = Session.objects.first()
    assert first is not None
    Session.objects.filter(pk=first.pk).update(expire_date=timezone.now())
    forget_idempotency_keys()
    assert Session.objects.count() == 1
    assert not Session.objects.filter(pk=first.pk).exists()


@pytest.mark.parametrize(
    ("address", "expected"),
    [("10.1.2.3", "10.1.2.3"), ("::ffff:10.1.2.3", "10.1.2.3"), ("2001:db8::7:8:9", "2001:db8::"), ("nonsense", None),
     ("", None)],
)  # fmt: skip
def test_the_address_of_a_client(address: str, expected: str | None) -> None:
    assert client_address(RequestFactory().get("/", REMOTE_ADDR=address)) == expected


class TestManyAtOneMoment:
    @pytest.fixture
    def others(self) -> Iterator[None]:
        """One password is being hashed in another thread, and another one waits."""
        for _ in range(password_hashing.MOST_AT_ONCE):
            assert password_hashing._places.acquire(blocking=False)
        yield
        for _ in range(password_hashing.MOST_AT_ONCE):
            password_hashing._places.release()

    def test_a_third_login_holds_no_thread(self, dora: User, others: None) -> None:
        for name in ("dora", "nobody"):
            refused = enter(name, GOOD)
            assert (refused.status_code, refused.headers["Retry-After"]) == (429, "3")
            assert "Too many passwords are being checked" in refused.content.decode()
        assert not AccessAttempt.objects.exists(), "nothing was tried, so nothing has failed"

    def test_every_page_that_hashes_says_so(self, dora: User, others: None) -> None:
        client = sign_in(dora)
        form = {"old": GOOD, "new": "quiet-river-12", "again": "quiet-river-12"}
        refused = client.post("/password_change/", form)
        assert refused.status_code == 429
        assert "Too many passwords are being checked" in refused.content.decode()

    def test_a_thread_is_always_left(self) -> None:
        assert password_hashing.MOST_AT_ONCE < process_commands.WEB_THREADS

    def test_they_follow_one_another(self) -> None:
        hashing, done, second = threading.Event(), threading.Event(), threading.Event()

        def hash_slowly() -> None:
            with password_hashing.hash_turn():
                hashing.set()
                done.wait(30)

        def follow() -> None:
            with password_hashing.hash_turn():
                second.set()

        threads = [threading.Thread(target=hash_slowly), threading.Thread(target=follow)]
        threads[0].start()
        assert hashing.wait(30)
        threads[1].start()
        assert not second.wait(0.1)
        done.set()
        assert second.wait(30)
        for thread in threads:
            thread.join()

    def test_stored_passwords_stay_valid(self, dora: User) -> None:
        assert dora.password.startswith("pbkdf2_sha256$")
        assert dora.check_password(GOOD)


class TestNames:
    """`doradora` for `dora`, in every place where a password is set."""

    def test_services(self, dora: User) -> None:
        with pytest.raises(BadInput, match="follows from the name dora"):
            apply_change(SetPassword(username="dora", password="doradora"))
        with pytest.raises(BadInput, match="follows from the name zed"):
            apply_change(CreateUser(id="zed"), password="dez-2026-dez")

    def test_pages(self, dora: User) -> None:
        root = sign_in(apply_change(CreateUser(id="root", roles=["osmo-admin"])))
        texts = [
            root.post("/users/-/create", {"username": "zora", "password": "zorazora"}, follow=True).content.decode(),
            root.post("/users/dora/password", {"password": "doradora"}).content.decode(),
        ]
        own = sign_in(dora)
        form = {"old": GOOD, "new": "doradora", "again": "doradora"}
        texts.append(own.post("/password_change/", form).content.decode())
        assert ["follows from the name" in text for text in texts] == [True] * 3

    def test_the_first_user_of_a_server_for_others(self, db: None, settings: Any) -> None:
        settings.OSMO = dataclasses.replace(settings.OSMO, secure=True)
        with pytest.raises(BadInput, match="follows from the name admin"):
            prepare_database(demo=False, password="admin-admin-1")
        assert not User.objects.exists()
        assert prepare_database(demo=False, password=GOOD)["admin_created"]

    def test_djangos_own_command_asks_the_same(self, dora: User) -> None:
        from django.contrib.auth.password_validation import validate_password
        from django.core.exceptions import ValidationError

        with pytest.raises(ValidationError, match="follows from the name"):
            validate_password("doradora", dora)
        call_command("check")


@pytest.mark.parametrize(
    ("proxies", "peer", "forwarded", "expected"),
    [
        (0, "10.0.7.5", "203.0.113.9", "203.0.113.9"),
        (0, "10.0.7.5", "forged, 203.0.113.9", "203.0.113.9"),
        (0, "::ffff:10.0.7.5", "203.0.113.9", "203.0.113.9"),
        (0, "10.0.7.5", "", "10.0.7.5"),
        (0, "10.0.7.5", "nonsense", "10.0.7.5"),
        (0, "10.0.7.6", "203.0.113.9", "10.0.7.6"),  # another client
        (1, "10.0.0.1", "203.0.113.9, 10.0.7.5", "203.0.113.9"),
        (1, "10.0.0.1", "10.0.7.5", "10.0.7.5"),
        (1, "10.0.0.1", "203.0.113.9, 198.51.100.2", "198.51.100.2"),  # not through the gateway
        (1, "10.0.7.5", "10.0.7.5, 198.51.100.2", "198.51.100.2"),
        (1, "10.0.0.1", "", "10.0.0.1"),
    ],
)
def test_a_gateway_names_its_caller(settings: Any, proxies: int, peer: str, forwarded: str, expected: str) -> None:
    settings.OSMO = dataclasses.replace(settings.OSMO, proxy_count=proxies, gateways=["10.0.7.5/32", "2001:db8::/64"])
    request = RequestFactory().get("/", REMOTE_ADDR=peer, HTTP_X_FORWARDED_FOR=forwarded)
    assert client_address(request) == expected


def test_wrong_tokens_count_against_the_caller_of_a_gateway(db: None, settings: Any) -> None:
    def exchange(caller: str, gateway: str = "10.0.7.5") -> int:
        browser = Client(REMOTE_ADDR=gateway, HTTP_X_FORWARDED_FOR=caller)
        return int(browser.post("/api/auth/jwt/access_token", {"token": "x"}, "application/json").status_code)

    settings.OSMO = dataclasses.replace(settings.OSMO, gateways=["10.0.7.5"])
    assert [exchange("203.0.113.9") for _ in range(11)][-1] == 429
    assert exchange("203.0.113.10") == 401
    assert [exchange(f"203.0.113.{number}", "10.0.7.6") for number in range(20, 31)][-1] == 429  # no gateway
