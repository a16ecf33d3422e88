"""What a page may load and run, by kind of page."""

from __future__ import annotations

import pytest
from django.test import Client

HEADER = "Content-Security-Policy"


def _policy(client: Client, path: str) -> dict[str, str]:
    header = client.get(path).headers[HEADER]
    parts = (part.strip().partition(" ") for part in header.split(";") if part.strip())
    return {name: sources for name, _, sources in parts}


@pytest.mark.parametrize(
    "path", ["/api/version", "/api/unknown", "/api/audit", "/api/schema", "/health", "/client/version"]
)
def test_answers_to_programs_may_do_nothing(client: Client, db: None, path: str) -> None:
    assert set(_policy(client, path).values()) == {"'none'"}


@pytest.mark.parametrize("path", ["/api/docs", "/api/docs/get_audit", "/api/docs/try"])
def test_the_docs_page_runs_its_own_files_only(client: Client, db: None, path: str) -> None:
    policy = _policy(client, path)
    assert policy["script-src"] == "'self'"
    assert policy["connect-src"] == "'self'"


def test_a_page_runs_its_own_files_only(client: Client, db: None) -> None:
    policy = _policy(client, "/login/")
    assert policy["script-src"] == "'self'"
    assert policy["object-src"] == policy["frame-ancestors"] == "'none'"


@pytest.mark.parametrize("path", ["/login/", "/api/docs", "/api/version"])
def test_nothing_comes_from_another_host(client: Client, db: None, path: str) -> None:
    assert "http" not in client.get(path).headers[HEADER]


@pytest.mark.parametrize("path", ["/nosuch", "/static/nosuch.css", "/api/nosuch", "/webhooks/nosuch", "/pools/pool/x"])
def test_no_cache_keeps_a_refusal(admin_client: Client, path: str) -> None:
    answer = admin_client.get(path)
    assert answer.status_code in {301, 404}
    assert "no-store" in answer.headers["Cache-Control"]


def test_no_cache_keeps_a_refused_form(db: None) -> None:
    answer = Client(enforce_csrf_checks=True).post("/login/", {"username": "x"})
    assert (answer.status_code, answer.headers["Cache-Control"]) == (403, "no-store")
