"""A person whom the provider lets in no longer: the same for identity providers and directories, for sessions and for
access tokens of programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from pools.domain.changes.tokens import CreateToken
from pools.models import AccessToken, AuditEntry, SignOnIdentity, User
from pools.sign_on import accounts as service
from pools.sign_on import openid
from pools.sign_on.accounts import check_due_identities
from pools.sign_on.providers import SyncMode
from tests.integration.sign_on.conftest import FaultyProvider, directory_settings, provider_settings
from tests.integration.sign_on.test_browser_sign_on import check_now, is_signed_on, person, roles_of
from tests.integration.sign_on.test_directory_login import ANN, log_in
from tests.support.directory import Directory
from tests.support.world import apply_change, make_user

ROLE = "osmo-admin"
EVENT = {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}}


@dataclass
class Person:
    """ann, who has signed on as an admin, and a program with a token, once with named roles."""

    browser: Client
    tokens: list[str]
    leave: Callable[[], Any]
    rename: Callable[[], Any]

    def programs_are_admins(self) -> list[bool]:
        return [is_admin(token) for token in self.tokens]


def is_admin(token: str) -> bool:
    login = Client().post("/api/auth/jwt/access_token", {"token": token}, "application/json").json()
    headers = {"Authorization": f"Bearer {login['token']}"}
    return Client().get("/api/auth/user/root", headers=headers).status_code == 200


def make_tokens() -> list[str]:
    actor = User.objects.get(username="ann").as_actor()
    return [
        apply_change(CreateToken(owner="ann", name=name, roles=roles), actor=actor)[1]
        for name, roles in (("all", None), ("named", [ROLE]))
    ]


def sign_on_there(corp: FaultyProvider) -> Person:
    make_user("root", ROLE)
    corp.control(person=person("admins"))
    corp.sign_on()

    def rename() -> None:
        corp.control(person=person("admins", preferred_username="ann.smith"))

    return Person(corp.browser, make_tokens(), lambda: corp.control(end="s-1"), rename)


def sign_on_by_directory(directory: Directory) -> Person:
    make_user("root", ROLE)
    directory.join("admins", ANN)
    browser = log_in()

    def rename() -> None:
        renamed = directory.rename(ANN, "ann.smith")
        directory.leave("admins", ANN)  # slapd leaves groups to others
        directory.join("admins", renamed)

    return Person(browser, make_tokens(), lambda: directory.remove(ANN), rename)


@pytest.fixture(params=["openid", pytest.param("ldap", marks=pytest.mark.ldap)])
def ann(request: pytest.FixtureRequest) -> Person:
    if request.param == "openid":
        return sign_on_there(request.getfixturevalue("corp"))
    return sign_on_by_directory(request.getfixturevalue("directory"))


class TestBothKinds:
    @pytest.mark.parametrize("is_signed_out", [False, True], ids=["with a session", "without a session"])
    def test_who_was_removed_loses_roles_sessions_and_the_rights_of_tokens(
        self, ann: Person, is_signed_out: bool
    ) -> None:
        if is_signed_out:
            ann.browser.post("/logout/")
        assert ann.programs_are_admins() == [True, True]
        ann.leave()
        check_now()
        assert roles_of("ann") == set() and ann.programs_are_admins() == [False, False]
        assert not is_signed_on(ann.browser)
        entry = AuditEntry.objects.filter(action="role.revoked", object="user/ann").latest("id")
        assert entry.actor == "sign-on:corp" and entry.description
        known = AuditEntry.objects.count()
        check_now()
        assert AuditEntry.objects.count() == known  # recorded once

    def test_a_clock_that_was_set_back_puts_no_check_off(self, ann: Person) -> None:
        ahead = timezone.now() + timedelta(hours=1)
        SignOnIdentity.objects.update(checked_at=ahead, claimed_until=ahead)
        ann.leave()
        check_due_identities()
        assert roles_of("ann") == set()

    def test_who_was_renamed_stays_the_same_person(self, ann: Person) -> None:
        ann.rename()
        check_now()
        assert roles_of("ann") >= {ROLE} and ann.programs_are_admins() == [True, True]
        assert is_signed_on(ann.browser) and not User.objects.filter(username="ann.smith").exists()

    def test_the_roles_of_an_import_stay(self, corp: FaultyProvider, configure: Any) -> None:
        configure(provider_settings(corp.issuer, sync=SyncMode.IMPORT))
        ann = sign_on_there(corp)
        ann.leave()
        check_now()
        assert not is_signed_on(ann.browser) and ann.programs_are_admins() == [True, True]

    @pytest.mark.ldap
    def test_the_roles_of_an_import_stay_with_a_directory(self, directory: Directory, configure: Any) -> None:
        configure(directory_settings(directory, sync=SyncMode.IMPORT))
        ann = sign_on_by_directory(directory)
        ann.leave()
        check_now()
        assert not is_signed_on(ann.browser) and ann.programs_are_admins() == [True, True]


class TestTheSession:
    def test_signing_out_leaves_programs_their_rights_and_the_person_is_asked_about_on(
        self, corp: FaultyProvider
    ) -> None:
        ann = sign_on_there(corp)
        ann.browser.post("/logout/")
        check_now()
        assert ann.programs_are_admins() == [True, True] and not is_signed_on(ann.browser)
        assert not SignOnIdentity.objects.filter(valid_until__gt=timezone.now()).exists()
        corp.control(person=person())
        check_now()
        assert ann.programs_are_admins() == [False, False]

    def test_the_provider_ends_a_session_and_says_who_the_person_still_is(self, corp: FaultyProvider) -> None:
        ann = sign_on_there(corp)
        token = corp.control(sign=EVENT | {"sid": "sid-s-1"})["token"]
        assert Client().post("/sign-on/corp/logout/", {"logout_token": token}).status_code == 200
        assert not is_signed_on(ann.browser) and ann.programs_are_admins() == [True, True]
        ann.leave()
        check_now()
        assert ann.programs_are_admins() == [False, False]

    def test_the_roles_come_back_with_the_next_sign_on(self, corp: FaultyProvider) -> None:
        ann = sign_on_there(corp)
        ann.leave()
        check_now()
        corp.control(person=person("admins"))
        assert corp.sign_on().status_code == 302
        assert roles_of("ann") == {ROLE}
        assert ann.programs_are_admins() == [True, False]  # named roles are taken from a token for good


class TestWhoCannotBeAskedAgain:
    def test_without_a_refresh_token_the_roles_end_with_the_sign_on(self, corp: FaultyProvider) -> None:
        ann = sign_on_there(corp)
        SignOnIdentity.objects.update(refresh_token="")
        check_now()
        assert roles_of("ann") == {ROLE} and is_signed_on(ann.browser)
        SignOnIdentity.objects.update(valid_until=timezone.now())
        check_due_identities()
        assert roles_of("ann") == set() and ann.programs_are_admins() == [False, False]

    def test_and_when_the_person_signs_out(self, corp: FaultyProvider) -> None:
        ann = sign_on_there(corp)
        SignOnIdentity.objects.update(refresh_token="")
        ann.browser.post("/logout/")
        check_due_identities()
        assert ann.programs_are_admins() == [False, False]

    @pytest.mark.parametrize("fault", [{"forged": True}, {"claims": {"groups": {"a": 1}}}, {"claims": {"sid": "\x00"}}])
    def test_an_answer_that_cannot_be_used_takes_the_roles_with_the_grace(
        self, corp: FaultyProvider, fault: dict[str, Any]
    ) -> None:
        ann = sign_on_there(corp)
        corp.control(fault=fault)
        SignOnIdentity.objects.update(checked_at=timezone.now() - timedelta(seconds=60))
        check_due_identities()
        assert is_signed_on(ann.browser) and ann.programs_are_admins() == [True, True]
        check_after_the_grace()
        assert not is_signed_on(ann.browser) and ann.programs_are_admins() == [False, False]
        corp.control(fault={})
        check_after_the_grace()
        assert roles_of("ann") == {ROLE}  # the person was there all the time

    def test_an_unforeseen_error_does_so_too(self, corp: FaultyProvider, monkeypatch: pytest.MonkeyPatch) -> None:
        ann = sign_on_there(corp)

        def fail(*_: Any) -> None:
            raise RuntimeError("unforeseen")

        monkeypatch.setattr(service, "_record_confirmation", fail)
        check_after_the_grace()
        assert roles_of("ann") == set() and not is_signed_on(ann.browser)

    def test_a_provider_that_does_not_answer_anybody_takes_no_roles(self, corp: FaultyProvider) -> None:
        """As a directory: sessions end with the grace, and programs keep the roles that were stated last."""
        ann = sign_on_there(corp)
        corp.control(down=True)
        check_after_the_grace()
        SignOnIdentity.objects.update(valid_until=timezone.now())
        assert not is_signed_on(ann.browser) and ann.programs_are_admins() == [True, True]

    def test_a_wrong_client_secret_is_no_word_about_the_person(self, corp: FaultyProvider, configure: Any) -> None:
        ann = sign_on_there(corp)
        configure(provider_settings(corp.issuer, client_secret="rotated"))
        check_now()
        assert is_signed_on(ann.browser) and ann.programs_are_admins() == [True, True]
        assert AccessToken.objects.count() == 2


def check_after_the_grace() -> None:
    SignOnIdentity.objects.update(checked_at=timezone.now() - timedelta(hours=1), claimed_until=None)
    openid._known.clear()
    check_due_identities()
