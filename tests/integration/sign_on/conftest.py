"""Identity providers as processes: one of another project, and one that makes the faults of the tests."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from django.test import Client

from pools.sign_on import openid
from pools.sign_on.providers import LdapDirectory, OpenIdProvider, SignOnProvider, SyncMode
from tests.support.directory import GROUPS, PEOPLE, READER, READER_PASSWORD, Directory
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET
from tests.support.services import ROOT
from tests.support.stack import find_free_port

HOST = "http://testserver"
ROLES = {"admins": frozenset({"osmo-admin"}), "watchers": frozenset({"osmo-viewer"})}


@dataclass
class FaultyProvider:
    """The provider of `tests/support/oidc_provider.py`, and the browser of a person who uses it."""

    issuer: str
    browser: Client = field(default_factory=Client)

    def control(self, **orders: Any) -> Any:
        return httpx.post(f"{self.issuer}/control", content=json.dumps(orders)).json()

    def start(self, query: str = "", name: str = "corp") -> dict[str, str]:
        """Begin a sign-on, and go to the provider and back as far as our own address: the query of the way back."""
        leaving = self.browser.get(f"/sign-on/{name}/{query}")
        assert leaving.status_code == 302, leaving.content.decode()
        back = httpx.get(leaving.headers["Location"]).headers["Location"]
        assert back.startswith(f"{HOST}/sign-on/{name}/callback/?")
        return {key: values[0] for key, values in parse_qs(urlsplit(back).query).items()}

    def finish(self, query: dict[str, str], name: str = "corp") -> Any:
        """Arrive with this query."""
        return self.browser.get(f"/sign-on/{name}/callback/", query)

    def sign_on(self, query: str = "") -> Any:
        """A whole sign-on; the answer to the arrival."""
        return self.finish(self.start(query))


def provider_settings(issuer: str, **changes: Any) -> OpenIdProvider:
    """A provider called corp."""
    made = OpenIdProvider("corp", "Corp", issuer, CLIENT_ID, CLIENT_SECRET, roles_by_group=ROLES)
    return dataclasses.replace(made, **changes)


@pytest.fixture(scope="session")
def faulty_issuer() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.oidc_provider"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.fixture
def configure(settings: Any) -> Iterator[Any]:
    """Sets the providers of the installation."""

    def use(*providers: SignOnProvider, **env: Any) -> None:
        settings.OSMO = dataclasses.replace(settings.OSMO, sign_on_providers=providers, **env)

    openid._known.clear()
    yield use
    openid._known.clear()


@pytest.fixture
def corp(faulty_issuer: str, configure: Any, db: None, no_authorities: None) -> FaultyProvider:
    """The faulty provider without a fault; ann is in no group."""
    configure(provider_settings(faulty_issuer))
    provider = FaultyProvider(faulty_issuer)
    provider.control(fault={}, down=False, person={"sub": "s-1", "preferred_username": "ann", "groups": []})
    return provider


@pytest.fixture(scope="session")
def independent_issuer() -> Iterator[str]:
    """The provider `oidc-provider-mock`, which others wrote (on Authlib and Flask)."""
    port = find_free_port()
    issuer = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [sys.executable, "-m", "oidc_provider_mock", "--port", str(port), "--require-nonce", "true"],
        env=os.environ | {"AUTHLIB_INSECURE_TRANSPORT": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + 30
    while True:
        try:
            httpx.get(f"{issuer}/.well-known/openid-configuration").raise_for_status()
            break
        except httpx.TransportError:
            assert process.poll() is None and time.monotonic() < end, "the provider does not start"
            time.sleep(0.05)  # it has no event to wait for
    yield issuer
    process.kill()
    process.wait()


@pytest.fixture
def independent(independent_issuer: str, configure: Any, db: None, no_authorities: None) -> str:
    configure(provider_settings(independent_issuer, title="Mock", sync=SyncMode.FORCE))
    return independent_issuer


@pytest.fixture(scope="session")
def slapd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    """A directory of this session."""
    server = Directory(tmp_path_factory.mktemp("slapd"))
    yield server
    server.close()


def directory_settings(server: Directory, **changes: Any) -> LdapDirectory:
    """A directory called corp."""
    made = LdapDirectory(
        "corp",
        "Corp",
        "ldap:corp",
        urls=(server.urls["ldaps"],),
        ca_file=server.ca_file,
        bind_dn=READER,
        bind_password=READER_PASSWORD,
        user_base=PEOPLE,
        group_base=GROUPS,
        roles_by_group=ROLES,
    )
    return dataclasses.replace(made, **changes)


@pytest.fixture
def directory(slapd: Directory, configure: Any, db: None) -> Directory:
    """The directory with ann, who is in the group watchers, and the empty group admins."""
    configure(directory_settings(slapd))
    slapd.clear()
    ann = slapd.add_person("ann", "ann-at-corp", mail="ann@corp.example")
    slapd.add_group("watchers", ann)
    slapd.add_group("admins")
    return slapd
