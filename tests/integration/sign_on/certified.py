"""npm's `oidc-provider`, a certified provider, as a process of its own, and a person who signs on there."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
from django.test import Client

from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET
from tests.support.optional_tools import NPM_PROVIDER

REDIRECT_URI = "http://testserver/sign-on/corp/callback/"


@dataclass
class CertifiedProvider:
    """The provider with its defaults."""

    issuer: str

    def set_accounts(self, accounts: Mapping[str, Mapping[str, Any]]) -> None:
        """The people there by their subject, with their claims."""
        httpx.post(f"{self.issuer}/control", json=accounts).raise_for_status()

    def sign_on(self, browser: Client, subject: str) -> tuple[Any, dict[str, str]]:
        """A whole sign-on with the pages of the provider: the answer to the arrival here, and the query with which the
        browser left."""
        leaving = browser.get("/sign-on/corp/").headers["Location"]
        request = {key: values[0] for key, values in parse_qs(urlsplit(leaving).query).items()}
        with httpx.Client() as there:
            answer = there.get(leaving)
            while not (address := answer.headers.get("Location", "")).startswith(REDIRECT_URI):
                if address:
                    answer = there.get(urljoin(str(answer.url), address))
                    continue
                form = re.search(r'action="([^"]+)"', answer.text)
                assert form is not None, answer.text
                answer = there.post(
                    urljoin(str(answer.url), form[1]),
                    data={"prompt": "login" if 'name="login"' in answer.text else "consent", "login": subject},
                )
        return browser.get(address.removeprefix("http://testserver")), request


@contextmanager
def run_certified_provider(
    client_id: str = CLIENT_ID, client_secret: str = CLIENT_SECRET
) -> Iterator[CertifiedProvider]:
    """The provider until the end of the block."""
    process = subprocess.Popen(
        ["node", "server.mjs", client_id, client_secret, REDIRECT_URI],
        cwd=NPM_PROVIDER,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        port = process.stdout.readline().strip()
        assert port, "the provider does not start"
        yield CertifiedProvider(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
