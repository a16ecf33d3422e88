"""The settings of identity providers, as the environment gives them."""

from __future__ import annotations

from pathlib import Path

import pytest
from environs import EnvError

from osmo_admin.env import load_environment
from pools.sign_on.providers import OpenIdProvider, SyncMode

CORP = {"OSMO_SSO": "corp", "OSMO_SSO_CORP_ISSUER": "https://id.example", "OSMO_SSO_CORP_CLIENT_ID": "osmo"}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in CORP.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_a_provider_is_read(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    environment.setenv("OSMO_SSO_CORP_CLIENT_SECRET_FILE", str(secret))
    environment.setenv("OSMO_SSO_CORP_ROLES", "cn=a,dc=b=osmo-admin+osmo-viewer; team=osmo-team-user")
    environment.setenv("OSMO_SSO_CORP_SCOPES", "groups")
    (corp,) = load_environment().sign_on_providers
    assert (corp.name, corp.title, corp.client_secret, corp.sync) == ("corp", "corp", "s3cret", SyncMode.FORCE)
    assert corp.roles_by_group == {"cn=a,dc=b": {"osmo-admin", "osmo-viewer"}, "team": {"osmo-team-user"}}
    assert corp.scopes == ("openid", "groups") and "s3cret" not in repr(corp)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OSMO_SSO", "Corp"),
        ("OSMO_SSO", "corp,corp"),
        ("OSMO_SSO", "corp,lab"),
        ("OSMO_SSO_CORP_SYNC", "merge"),
        ("OSMO_SSO_CORP_ROLES", "admins"),
        ("OSMO_SSO_CORP_ROLES", "admins=admin"),
        ("OSMO_SSO_CORP_CLIENT_SECRET_FILE", "/nowhere"),
        ("OSMO_SSO_CORP_SESSION_HOURS", "0"),
        ("OSMO_SSO_CORP_PARAMETERS", "prompt"),
        ("OSMO_SSO_CORP_PARAMETERS", "state=x"),
        ("OSMO_SSO_CORP_PARAMETERS", "prompt=a;prompt=b"),
        ("OSMO_SSO_CORP_PARAMETERS", "max_age=soon"),
    ],
)
def test_a_wrong_setting_is_named(environment: pytest.MonkeyPatch, name: str, value: str) -> None:
    environment.setenv(name, value)
    with pytest.raises(EnvError, match="OSMO_SSO_LAB_ISSUER" if "lab" in value else name):
        load_environment()


def test_further_parameters_and_the_question_for_consent(environment: pytest.MonkeyPatch) -> None:
    def read(parameters: str, scopes: str = "offline_access") -> dict[str, str]:
        environment.setenv("OSMO_SSO_CORP_PARAMETERS", parameters)
        environment.setenv("OSMO_SSO_CORP_SCOPES", scopes)
        (corp,) = load_environment().sign_on_providers
        assert isinstance(corp, OpenIdProvider)
        return corp.extra_parameters

    assert read("") == {"prompt": "consent"}
    assert read("prompt=") == {} == read("", "profile")
    assert read('prompt=login consent; claims={"a"=1}') == {"prompt": "login consent", "claims": '{"a"=1}'}
    assert read("access_type=offline;prompt=consent", "email") == {"access_type": "offline", "prompt": "consent"}
