"""Texts of a provider that cannot be stored, and other unforeseen trouble with one person: the others go on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from pools.models import SignOnIdentity, User
from pools.sign_on import accounts as service
from tests.integration.sign_on.conftest import FaultyProvider
from tests.integration.sign_on.test_browser_sign_on import is_signed_on, person, roles_of
from tests.integration.sign_on.test_sign_on_faults import codes as codes  # noqa: PLC0414  (a fixture)
from tests.support.world import make_user

UNREADABLE: dict[str, dict[str, Any]] = {
    "half a surrogate pair in a group": {"groups": ["a\ud800"]},
    "a NUL in a group": {"groups": ["watchers", "a\x00"]},
    "a NUL in the name": {"preferred_username": "ann\x00"},
    "half a surrogate pair in the name": {"preferred_username": "ann\udfff"},
    "a NUL in the mail address": {"email": "a\x00@corp.example", "email_verified": True},
    "half a surrogate pair in the session": {"sid": "a\ud800"},
}


@pytest.mark.parametrize("name", [*UNREADABLE, "a NUL in the subject"])
def test_nobody_signs_on_with_a_text_that_cannot_be_stored(corp: FaultyProvider, codes: list[str], name: str) -> None:
    corp.control(fault={"claims": UNREADABLE.get(name, {"sub": "s\x001"})})
    answer = corp.sign_on()
    assert (answer.status_code, codes) == (403, ["unreadable_text"])
    assert not is_signed_on(corp.browser) and not User.objects.exists()


@pytest.mark.parametrize("claims", [{"sid": "a\x00"}, {"sub": "a\ud800"}])
def test_a_logout_token_with_such_a_text_is_refused(corp: FaultyProvider, claims: dict[str, str]) -> None:
    event = {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}}
    token = corp.control(sign=event | claims)["token"]
    assert Client().post("/sign-on/corp/logout/", {"logout_token": token}).status_code == 400


def check_soon() -> None:
    """The periodic check after its interval, before the grace ends."""
    SignOnIdentity.objects.update(checked_at=timezone.now() - timedelta(seconds=60))
    service.check_due_identities()


def sign_on_three(corp: FaultyProvider) -> list[FaultyProvider]:
    """Three people with the role of the group watchers, each with a browser."""
    browsers = []
    for number, name in enumerate(("ann", "bob", "eve"), 1):
        corp.control(person=person("watchers", sub=f"s-{number}", preferred_username=name))
        browsers.append(FaultyProvider(corp.issuer))
        assert browsers[-1].sign_on().status_code == 302
    return browsers


@pytest.mark.parametrize("claims", UNREADABLE.values(), ids=UNREADABLE)
def test_two_people_with_unreadable_claims_do_not_stop_the_check_of_a_third(
    corp: FaultyProvider, claims: dict[str, Any]
) -> None:
    sign_on_three(corp)
    for number, name in enumerate(("ann", "bob"), 1):
        corp.control(person=person("watchers", sub=f"s-{number}", preferred_username=name) | claims)
    corp.control(person=person(sub="s-3", preferred_username="eve"))
    check_soon()
    assert roles_of("eve") == set() and [roles_of(name) for name in ("ann", "bob")] == [{"osmo-viewer"}] * 2
    assert SignOnIdentity.objects.get(user__username="eve").groups == []


class TestAnUnforeseenError:
    """An error of our own about one person: it counts as no answer, and the grace ends."""

    @pytest.fixture
    def broken(self, corp: FaultyProvider, monkeypatch: pytest.MonkeyPatch) -> FaultyProvider:
        sign_on_three(corp)
        record = service._record_confirmation

        def fail(provider: Any, facts: Any, pk: int) -> None:
            if facts.username != "eve":
                raise RuntimeError("unforeseen")
            record(provider, facts, pk)

        monkeypatch.setattr(service, "_record_confirmation", fail)
        return corp

    def test_the_others_are_asked_and_the_failed_ones_wait(
        self, broken: FaultyProvider, caplog: pytest.LogCaptureFixture
    ) -> None:
        broken.control(person=person(sub="s-3", preferred_username="eve"))
        check_soon()
        assert [roles_of(name) for name in ("ann", "bob", "eve")] == [{"osmo-viewer"}, {"osmo-viewer"}, set()]
        assert "the check of a sign-on: ann at corp" in caplog.text
        failed = SignOnIdentity.objects.get(user__username="ann")
        assert failed.claimed_until is not None and failed.claimed_until > timezone.now()  # not first again at once
        assert failed.checked_at < timezone.now() - timedelta(seconds=30)  # the page shows the last confirmation

    def test_the_sign_on_ends_with_the_grace(self, broken: FaultyProvider) -> None:
        ann = FaultyProvider(broken.issuer)
        broken.control(person=person("watchers"))
        ann.sign_on()
        service.check_due_identities()
        assert is_signed_on(ann.browser)
        SignOnIdentity.objects.filter(user__username="ann").update(valid_until=timezone.now())
        assert not is_signed_on(ann.browser)


def test_the_end_of_several_sessions_by_the_provider_is_no_chain(
    corp: FaultyProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of the provider may have begun several sign-ons; one that cannot be ended leaves the others."""
    make_user("root", "osmo-admin")
    sign_on_three(corp)
    SignOnIdentity.objects.update(session_id="one")
    end = service.end_sign_on

    def fail(pk: int, provider: Any, *, reason: str) -> None:
        if SignOnIdentity.objects.get(pk=pk).user.username == "ann":
            raise RuntimeError("unforeseen")
        end(pk, provider, reason=reason)

    monkeypatch.setattr(service, "end_sign_on", fail)
    event = {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}}
    token = corp.control(sign=event | {"sid": "one"})["token"]
    Client().post("/sign-on/corp/logout/", {"logout_token": token})
    ended = SignOnIdentity.objects.filter(session_until__lte=timezone.now()).values_list("user__username", flat=True)
    assert sorted(ended) == ["bob", "eve"]
