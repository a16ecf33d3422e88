"""What the web server sends for static files and pages: compressed, and with a cache of a year."""

from __future__ import annotations

import re

import pytest

from tests.support.stack import Stack

YEAR = "max-age=31536000"


@pytest.fixture(scope="module")
def addresses(stack: Stack) -> list[str]:
    """The static files that the login page loads."""
    page = stack.anonymous_client().get("/login/").text
    return re.findall(r'(?:href|src)="(/static/[^"#]+)', page)


def test_a_page_loads_hashed_names_only(addresses: list[str]) -> None:
    assert len(addresses) >= 5
    assert [address for address in addresses if not re.search(r"\.[0-9a-f]{12}\.\w+$", address)] == []
    assert [address for address in addresses if re.search("htmx|chart|alpine|simplebar", address)] == []


@pytest.mark.parametrize("coding", ["br", "gzip"])
def test_files_are_compressed_and_kept_for_a_year(stack: Stack, addresses: list[str], coding: str) -> None:
    for address in (each for each in addresses if each.endswith((".css", ".js"))):
        answer = stack.anonymous_client().get(address, headers={"Accept-Encoding": coding})
        assert (answer.status_code, answer.headers["Content-Encoding"]) == (200, coding), address
        assert YEAR in answer.headers["Cache-Control"]
        assert "immutable" in answer.headers["Cache-Control"]
        assert "Accept-Encoding" in answer.headers["Vary"]


def test_pages_are_compressed_and_answers_of_the_api_are_not(stack: Stack) -> None:
    page = stack.anonymous_client().get("/login/", headers={"Accept-Encoding": "gzip"})
    assert page.headers["Content-Encoding"] == "gzip"
    answer = stack.anonymous_client().get("/api/schema", headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in answer.headers
