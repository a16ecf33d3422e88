"""The settings of directories (LDAP), as the environment gives them, and those that stop the start."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path
from typing import Any

import pytest
from environs import EnvError

from osmo_admin.access.directory_checks import check_directories
from osmo_admin.checks import check_sign_on, refuse_unsafe_settings
from osmo_admin.env import load_environment
from osmo_admin.ops.programs import process_commands
from pools.sign_on.providers import LdapDirectory, SyncMode
from tests.support.services import ROOT
from tests.support.stack import SECRET_KEY
from tests.support.up import clean_env

CORP = {
    "OSMO_LDAP": "corp",
    "OSMO_LDAP_CORP_URLS": "ldaps://ldap.example",
    "OSMO_LDAP_CORP_USER_BASE": "ou=people,dc=example",
    "OSMO_LDAP_CORP_GROUP_BASE": "ou=groups,dc=example",
    "OSMO_LDAP_CORP_ROLES": "gpu-admins=osmo-admin",
}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in CORP.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def read_corp() -> LdapDirectory:
    (corp,) = load_environment().sign_on_providers
    assert isinstance(corp, LdapDirectory)
    return corp


def test_a_directory_is_read(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    environment.setenv("OSMO_LDAP_CORP_URLS", "ldaps://a.example, ldap://b.example:3389")
    environment.setenv("OSMO_LDAP_CORP_BIND_DN", "cn=osmo,dc=example")
    environment.setenv("OSMO_LDAP_CORP_BIND_PASSWORD_FILE", str(secret))
    environment.setenv("OSMO_LDAP_CORP_LOGIN_ATTRIBUTES", "uid,mail")
    corp = read_corp()
    assert corp.urls == ("ldaps://a.example", "ldap://b.example:3389") and corp.is_encrypted
    assert (corp.issuer, corp.title, corp.sync) == ("ldap:corp", "corp", SyncMode.FORCE)
    assert (corp.bind_password, corp.login_attributes) == ("s3cret", ("uid", "mail"))
    assert corp.roles_by_group == {"gpu-admins": {"osmo-admin"}} and "s3cret" not in repr(corp)


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("OSMO_LDAP", "Corp", "OSMO_LDAP"),
        ("OSMO_LDAP", "corp,lab", "OSMO_LDAP_LAB_URLS"),
        ("OSMO_SSO", "corp", "OSMO_SSO_CORP_ISSUER|OSMO_LDAP"),
        ("OSMO_LDAP_CORP_SYNC", "merge", "OSMO_LDAP_CORP_SYNC"),
        ("OSMO_LDAP_CORP_LOGIN_ATTRIBUTES", "uid,mail)(x", "OSMO_LDAP_CORP_LOGIN_ATTRIBUTES"),
        ("OSMO_LDAP_CORP_ID_ATTRIBUTE", "", "OSMO_LDAP_CORP_ID_ATTRIBUTE"),
        ("OSMO_LDAP_CORP_BIND_PASSWORD_FILE", "/nowhere", "OSMO_LDAP_CORP_BIND_PASSWORD_FILE"),
        ("OSMO_LDAP_CORP_UNENCRYPTED", "perhaps", "OSMO_LDAP_CORP_UNENCRYPTED"),
    ],
)
def test_a_wrong_setting_is_named(environment: pytest.MonkeyPatch, name: str, value: str, named: str) -> None:
    environment.setenv(name, value)
    with pytest.raises(EnvError, match=named):
        load_environment()


def test_without_the_extra(environment: pytest.MonkeyPatch) -> None:
    environment.setattr("osmo_admin.provider_env.find_spec", lambda name: None)
    with pytest.raises(EnvError, match=r"osmo-admin\[ldap\]"):
        load_environment()


@pytest.mark.parametrize(
    ("changes", "ids"),
    [
        ({}, []),
        ({"urls": ("ldap://ldap.example",)}, []),  # StartTLS
        ({"urls": ("https://ldap.example",)}, ["osmo.E016"]),
        ({"urls": ("ldaps://",)}, ["osmo.E016"]),
        ({"urls": ("ldaps://ldap.example:x",)}, ["osmo.E016"]),
        ({"urls": ("ldaps://ldap.example/ou=people",)}, ["osmo.E016"]),
        ({"urls": ()}, ["osmo.E016"]),
        ({"urls": ("ldap://ldap.example",), "is_encrypted": False}, ["osmo.W017"]),
        ({"urls": ("ldap://127.0.0.1",), "is_encrypted": False}, []),
        ({"bind_dn": "cn=osmo,dc=example"}, ["osmo.E018"]),
        ({"bind_password": "x"}, ["osmo.E018"]),
        ({"bind_dn": "osmo@corp.example", "bind_password": "x"}, []),
        ({"user_filter": "(uid="}, ["osmo.E019"]),
        ({"user_filter": "uid=x"}, ["osmo.E019"]),
        ({"user_filter": "(uid={name})"}, ["osmo.E019"]),
        ({"group_filter": "(member={dn}"}, ["osmo.E019"]),
        ({"group_filter": "(member:1.2.840.113556.1.4.1941:={dn})"}, []),
        ({"group_filter": "(objectClass=groupOfNames)"}, ["osmo.E022"]),
        ({"user_base": "people"}, ["osmo.E019"]),
        ({"group_base": ""}, ["osmo.E020"]),
        ({"group_base": "", "sync": SyncMode.IGNORE}, []),
        ({"ca_file": "/nowhere"}, ["osmo.E021"]),
        ({"ca_file": __file__}, ["osmo.E021"]),
        ({"ca_text": "no certificate"}, ["osmo.E021"]),
    ],
)
def test_one_mistake_one_message(
    environment: pytest.MonkeyPatch, settings: Any, changes: dict[str, Any], ids: list[str]
) -> None:
    corp = dataclasses.replace(read_corp(), **changes)
    settings.OSMO = dataclasses.replace(settings.OSMO, sign_on_providers=(corp,))
    found = check_directories(None)
    assert [message.id for message in found] == ids
    assert all("OSMO_LDAP_CORP_" in message.msg for message in found)


def test_the_process_ends_with_the_reason(environment: pytest.MonkeyPatch, settings: Any) -> None:
    usual = {"OSMO_SECRET_KEY": SECRET_KEY, "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    answer = subprocess.run(
        process_commands.bootstrap_command(),
        env=clean_env({**usual, **CORP, "OSMO_LDAP_CORP_BIND_DN": "cn=osmo"}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert answer.returncode != 0 and "OSMO_LDAP_CORP_BIND_PASSWORD" in answer.stdout + answer.stderr
    settings.OSMO = dataclasses.replace(settings.OSMO, sign_on_providers=(read_corp(),))
    refuse_unsafe_settings()


def test_force_without_a_role_for_any_group(environment: pytest.MonkeyPatch, settings: Any) -> None:
    corp = dataclasses.replace(read_corp(), roles_by_group={})
    settings.OSMO = dataclasses.replace(settings.OSMO, sign_on_providers=(corp,))
    (message,) = check_sign_on(None)
    assert message.id == "osmo.E013" and "OSMO_LDAP_CORP_SYNC" in message.msg
