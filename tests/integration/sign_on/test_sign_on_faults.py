"""What a forger, a thief or a wrong provider sends: nobody is signed on."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pools.models import SignOnIdentity, User
from pools.sign_on import openid
from tests.integration.sign_on.conftest import FaultyProvider, provider_settings
from tests.integration.sign_on.test_browser_sign_on import is_signed_on

NOW = int(time.time())

FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no signature": ({"alg": "none"}, "bad_algorithm"),
    "the public key as the secret": ({"alg": "HS256"}, "bad_algorithm"),
    "a key of somebody else": ({"forged": True}, "bad_signature"),
    "a key that is not published": ({"kid": "other"}, "unknown_key"),
    "another audience": ({"claims": {"aud": "other"}}, "wrong_audience"),
    "issued to another client": ({"claims": {"aud": ["osmo", "other"], "azp": "other"}}, "wrong_audience"),
    "several audiences, none named": ({"claims": {"aud": ["osmo", "other"]}}, "wrong_audience"),
    "another issuer": ({"claims": {"iss": "https://evil.example"}}, "wrong_issuer"),
    "another nonce": ({"claims": {"nonce": "of another sign-on"}}, "wrong_nonce"),
    "no nonce": ({"without": ["nonce"]}, "wrong_nonce"),
    "expired": ({"claims": {"exp": NOW - 3600}}, "expired"),
    "from the future": ({"claims": {"iat": NOW + 86_400}}, "from_the_future"),
    "no expiry": ({"without": ["exp"]}, "bad_token"),
    "no subject": ({"without": ["sub"]}, "bad_token"),
    "groups elsewhere": ({"claims": {"_claim_names": {"groups": "src1"}}}, "unusable_claim"),
    "groups that are none": ({"claims": {"groups": {"a": 1}}}, "unusable_claim"),
    "another name of the provider": ({"issuer": "https://evil.example"}, "wrong_issuer"),
    "an endpoint that is no address": ({"endpoints": {"token_endpoint": "https://[fe80"}}, "bad_endpoint"),
}


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The codes of the refusals, in order."""
    from osmo_admin.access import provider_pages as sign_on

    found: list[str] = []
    shown = sign_on._refusal_page

    def note(request: Any, refusal: Any) -> Any:
        found.extend(each.code for each in refusal.violations)
        return shown(request, refusal)

    monkeypatch.setattr(sign_on, "_refusal_page", note)
    return found


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_token_signs_nobody_on(corp: FaultyProvider, codes: list[str], name: str) -> None:
    fault, code = FAULTS[name]
    corp.control(fault=fault)
    leaving = corp.browser.get("/sign-on/corp/")
    if leaving.status_code == 302:
        leaving = corp.sign_on()
    assert (leaving.status_code, codes) == (403, [code])
    assert not is_signed_on(corp.browser) and not User.objects.exists() and not SignOnIdentity.objects.exists()


@pytest.mark.parametrize(("claim", "offset"), [("exp", -20), ("iat", 40)], ids=["behind", "ahead"])
def test_clocks_may_differ_a_little(corp: FaultyProvider, claim: str, offset: int) -> None:
    corp.control(fault={"claims": {claim: int(time.time()) + offset}})
    assert corp.sign_on().status_code == 302


def test_a_state_is_used_once(corp: FaultyProvider, codes: list[str]) -> None:
    query = corp.start()
    assert corp.finish(query).status_code == 302
    corp.browser.post("/logout/")
    assert corp.finish(query).status_code == 400
    assert corp.finish({**query, "state": "made up"}).status_code == 400
    assert codes == ["unknown_state", "unknown_state"] and not is_signed_on(corp.browser)


def test_a_code_of_one_browser_signs_no_other_on(corp: FaultyProvider, codes: list[str]) -> None:
    """The code of an attacker in the browser of a victim, and the other way round: the state belongs to a session."""
    query = corp.start()
    victim = FaultyProvider(corp.issuer)
    assert victim.finish(query).status_code == 400
    own = victim.start()
    assert victim.finish({**own, "code": query["code"]}).status_code == 403
    assert codes == ["unknown_state", "provider_refused"] and not is_signed_on(victim.browser)


def test_an_answer_of_another_provider_is_refused(corp: FaultyProvider, codes: list[str]) -> None:
    query = corp.start()
    calls = corp.control()["calls"]
    assert corp.finish({**query, "iss": "https://evil.example"}).status_code == 400
    assert codes == ["wrong_issuer"] and corp.control()["calls"] == calls  # the code was sent nowhere


def test_a_sign_on_that_waited_too_long(corp: FaultyProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    from osmo_admin.access import provider_pages as sign_on

    query = corp.start()
    monkeypatch.setattr(sign_on, "ATTEMPT_LIFE", -1)
    assert corp.finish(query).status_code == 400


def test_the_refusal_of_the_provider_is_shown_as_text(corp: FaultyProvider) -> None:
    query = corp.start()
    answer = corp.finish({"state": query["state"], "error": "access_denied", "error_description": "<b>no</b>"})
    assert answer.status_code == 400 and "&lt;b&gt;no" in answer.content.decode()


def test_another_key_is_read_when_it_is_used(corp: FaultyProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    assert corp.sign_on().status_code == 302
    corp.control(rotate=True)
    assert corp.sign_on().status_code == 403  # the keys were read a moment ago: a forger cannot make us ask each time
    monkeypatch.setattr(openid, "KEYS_PAUSE", 0.0)
    assert corp.sign_on().status_code == 302


def test_a_withdrawn_key_is_forgotten(corp: FaultyProvider, configure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = provider_settings(corp.issuer)
    old = corp.control(sign={"sub": "s-1"})["token"]
    assert openid.verify_id_token(provider, old)["sub"] == "s-1"
    corp.control(rotate=True)
    assert openid.verify_id_token(provider, old)["sub"] == "s-1"
    monkeypatch.setattr(openid, "KEYS_LIFE", 0.0)
    with pytest.raises(openid.Forbidden):
        openid.verify_id_token(provider, old)


def test_a_refresh_for_another_person_ends_the_sign_on(corp: FaultyProvider) -> None:
    from tests.integration.sign_on.test_browser_sign_on import check_now

    corp.sign_on()
    corp.control(fault={"claims": {"sub": "s-2"}})
    check_now()
    assert not is_signed_on(corp.browser)


def test_a_provider_that_hangs_does_not_hold_every_thread(corp: FaultyProvider) -> None:
    held = [openid._calls.acquire(blocking=False) for _ in range(openid.CALLS_AT_ONCE)]
    try:
        answer = corp.browser.get("/sign-on/corp/")
    finally:
        for _ in held:
            openid._calls.release()
    assert answer.status_code == 429 and answer.headers["Retry-After"] == "2"


def test_a_provider_that_does_not_answer_is_in_the_log(corp: FaultyProvider, caplog: pytest.LogCaptureFixture) -> None:
    """Why, as of a directory: at a sign-on, and in the background."""
    from tests.integration.sign_on.test_browser_sign_on import check_now

    corp.sign_on()
    corp.control(down=True)
    caplog.clear()
    check_now()
    assert f"The provider corp: {corp.issuer}/token answers 503" in caplog.text
    openid._known.clear()
    corp.browser.get("/sign-on/corp/")
    assert f"The provider corp: {corp.issuer}/.well-known/openid-configuration answers 503" in caplog.text
