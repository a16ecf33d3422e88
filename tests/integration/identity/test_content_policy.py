"""What a page may load and run, by kind of page."""

from __future__ import annotations

from django.test import Client

HEADER = "Content-Security-Policy"


def _policy(client: Client, path: str) -> dict[str, str]:
    header = client.get(path).headers[HEADER]
    parts = (part.strip().partition(" ") for part in header.split(";") if part.strip())
    return {name: sources for name, _, sources in parts}


def test_answers_to_programs_may_do_nothing_and_a_page_runs_its_own_files_only(client: Client, db: None) -> None:
    for path in ("/api/version", "/api/unknown", "/api/audit", "/api/schema", "/health", "/client/version"):
        assert set(_policy(client, path).values()) == {"'none'"}, path
    for path in ("/api/docs", "/api/docs/get_audit", "/api/docs/try"):
        policy = _policy(client, path)
        assert policy["script-src"] == policy["connect-src"] == "'self'", path
    login = _policy(client, "/login/")
    assert login["script-src"] == "'self'"
    assert login["object-src"] == login["frame-ancestors"] == "'none'"
    for path in ("/login/", "/api/docs", "/api/version"):
        assert "http" not in client.get(path).headers[HEADER], f"{path}: nothing comes from another host"


def test_no_cache_keeps_a_refusal(admin_client: Client) -> None:
    for path in ("/nosuch", "/static/nosuch.css", "/api/nosuch", "/webhooks/nosuch", "/pools/pool/x"):
        answer = admin_client.get(path)
        assert answer.status_code in {301, 404}
        assert "no-store" in answer.headers["Cache-Control"], path
    form = Client(enforce_csrf_checks=True).post("/login/", {"username": "x"})
    assert (form.status_code, form.headers["Cache-Control"]) == (403, "no-store")
