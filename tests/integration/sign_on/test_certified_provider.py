"""The promises of docs/sign-on.md with a certified provider that follows OpenID Connect Core in every point: npm's
`oidc-provider` with its defaults."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from typer.testing import CliRunner

from osmo_admin.cli.server import app
from osmo_admin.monitoring.work_metrics import WorkCollector
from pools.models import SignOnIdentity
from tests.integration.sign_on.certified import CertifiedProvider, run_certified_provider
from tests.integration.sign_on.conftest import provider_settings
from tests.integration.sign_on.test_browser_sign_on import check_now, is_signed_on, roles_of
from tests.integration.sign_on.test_sign_on_faults import codes as codes  # noqa: PLC0414  (a fixture)

pytestmark = pytest.mark.oidc


@pytest.fixture(scope="module")
def running() -> Iterator[CertifiedProvider]:
    with run_certified_provider() as provider:
        yield provider


@pytest.fixture
def certified(running: CertifiedProvider, configure: Any, db: None) -> CertifiedProvider:
    """The provider with ann, who is in the group watchers."""
    configure(provider_settings(running.issuer))
    running.set_accounts({"ann": {"preferred_username": "ann", "groups": ["watchers"]}})
    return running


def sign_on_counts() -> dict[tuple[str, str], float]:
    (found,) = (each for each in WorkCollector().collect() if each.name == "osmo_sign_ons")
    return {(each.labels["provider"], each.labels["renewable"]): each.value for each in found.samples}


def test_a_removed_group_and_a_removed_account_count(certified: CertifiedProvider) -> None:
    browser = Client()
    answer, request = certified.sign_on(browser, "ann")
    assert answer.status_code == 302 and is_signed_on(browser) and roles_of("ann") == {"osmo-viewer"}
    assert request["prompt"] == "consent" and SignOnIdentity.objects.get().refresh_token
    assert sign_on_counts() == {("corp", "yes"): 1, ("corp", "no"): 0}
    assert "refresh token" not in browser.get("/users/ann").content.decode()

    certified.set_accounts({"ann": {"preferred_username": "ann", "groups": []}})
    check_now()
    assert roles_of("ann") == set() and browser.get("/users/ann").status_code == 200
    certified.set_accounts({})
    check_now()
    assert browser.get("/users/ann").status_code == 302


def test_a_client_id_and_a_secret_with_every_character(configure: Any, db: None) -> None:
    """Both are form-encoded before they are joined (RFC 6749, 2.3.1): `%` and `+` have another meaning there."""
    client_id, client_secret = "osmo+admin%41", "50%25 a+b/c=d&~:*" + "x" * 20
    with run_certified_provider(client_id, client_secret) as provider:
        configure(provider_settings(provider.issuer, client_id=client_id, client_secret=client_secret))
        provider.set_accounts({"ann": {"preferred_username": "ann", "groups": ["watchers"]}})
        browser = Client()
        answer, _ = provider.sign_on(browser, "ann")
        assert (answer.status_code, is_signed_on(browser), roles_of("ann")) == (302, True, {"osmo-viewer"})
        check_now()  # with the refresh token
        assert is_signed_on(browser)


class TestWithoutTheQuestion:
    """`…PARAMETERS=prompt=`: the provider then gives no refresh token. Nobody finds that out by accident."""

    @pytest.fixture
    def signed_on(self, certified: CertifiedProvider, configure: Any) -> Client:
        configure(provider_settings(certified.issuer, parameters={"prompt": ""}))
        browser = Client()
        answer, request = certified.sign_on(browser, "ann")
        assert answer.status_code == 302 and "prompt" not in request
        assert SignOnIdentity.objects.get().refresh_token == ""
        return browser

    def test_the_person_sees_it_at_the_sign_on_and_on_the_page_of_the_account(self, signed_on: Client) -> None:
        page = signed_on.get("/").content.decode()
        assert "Corp gave no refresh token, so it cannot confirm you again" in page
        page = signed_on.get("/users/ann").content.decode()
        assert "cannot confirm this person again: a change of the groups there counts at the next sign-on" in page
        (row,) = signed_on.get("/api/auth/user/ann/identity").json()
        assert row["is_renewable"] is False

    def test_the_operator_finds_it_in_log_metric_and_check(
        self,
        certified: CertifiedProvider,
        signed_on: Client,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        for name in [each for each in os.environ if each.startswith(("OSMO_TEST_", "OSMO_ENVTEST"))]:
            monkeypatch.delenv(name)  # which the product does not know, so that the command would name them
        certified.sign_on(Client(), "ann")
        assert "corp gave no refresh token for ann" in caplog.text
        assert sign_on_counts() == {("corp", "yes"): 0, ("corp", "no"): 1}
        answer = CliRunner().invoke(app, ["check"])
        assert "1 sign-on through corp without a refresh token" in answer.output, answer.output


class TestFurtherParameters:
    def test_they_are_sent_and_what_was_asked_for_is_required(
        self, certified: CertifiedProvider, configure: Any, codes: list[str]
    ) -> None:
        configure(provider_settings(certified.issuer, parameters={"max_age": "3600", "access_type": "offline"}))
        answer, request = certified.sign_on(Client(), "ann")
        assert answer.status_code == 302
        assert (request["max_age"], request["access_type"], request["prompt"]) == ("3600", "offline", "consent")

        configure(provider_settings(certified.issuer, parameters={"acr_values": "urn:two-factors"}))
        answer, request = certified.sign_on(Client(), "ann")
        assert (answer.status_code, codes) == (403, ["weak_login"]) and request["acr_values"] == "urn:two-factors"


def test_a_login_there_that_is_too_old_is_refused(corp: Any, configure: Any, codes: list[str]) -> None:
    configure(provider_settings(corp.issuer, parameters={"max_age": "60"}))
    assert corp.sign_on().status_code == 403  # the provider says nothing about the login
    for age, status in ((30, 302), (3600, 403)):
        corp.control(fault={"claims": {"auth_time": int(time.time()) - age}})
        assert corp.sign_on().status_code == status
    assert codes == ["too_old", "too_old"]


def test_a_way_of_login_that_was_asked_for(corp: Any, configure: Any, codes: list[str]) -> None:
    configure(provider_settings(corp.issuer, parameters={"acr_values": "gold silver"}))
    corp.control(fault={"claims": {"acr": "silver"}})
    assert corp.sign_on().status_code == 302
    corp.control(fault={"claims": {"acr": "bronze"}})
    assert corp.sign_on().status_code == 403 and codes == ["weak_login"]
