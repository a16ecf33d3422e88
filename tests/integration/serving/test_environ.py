"""The WSGI environment that Django gets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from osmo_admin.serving.environ import make_environ


class Headers:
    """Headers of a request, as granian has them: names in lower case, one entry for each line."""

    def __init__(self, *lines: tuple[str, str]) -> None:
        self.lines = list(lines)

    def items(self) -> list[tuple[str, str]]:
        """All lines."""
        return self.lines


def environ_of(*headers: tuple[str, str], body: bytes = b"", client: str = "10.0.0.9:4711") -> dict[str, Any]:
    """The environment of a POST."""
    scope: Any = SimpleNamespace(
        method="POST", query_string="a=%20b", http_version="1.1", scheme="http", client=client,
        server="127.0.0.1:8000", headers=Headers(*headers),
    )  # fmt: skip
    return make_environ(scope, "/pööl", body)


def test_all_that_django_reads() -> None:
    environ = environ_of(("host", "osmo.example"), ("content-type", "a/b"), ("content-length", "3"), body=b"abc")
    expected = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/pööl".encode().decode("latin-1"),
        "QUERY_STRING": "a=%20b",
        "REMOTE_ADDR": "10.0.0.9",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8000",
        "HTTP_HOST": "osmo.example",
        "CONTENT_TYPE": "a/b",
        "CONTENT_LENGTH": "3",
        "wsgi.url_scheme": "http",
    }
    assert {name: environ[name] for name in expected} == expected
    assert environ["wsgi.input"].read() == b"abc"


def test_a_body_in_chunks_has_its_length() -> None:
    assert environ_of(("transfer-encoding", "chunked"), body=b"abc")["CONTENT_LENGTH"] == "3"


def test_a_header_with_an_underscore_cannot_pass_for_a_proxy() -> None:
    environ = environ_of(
        ("x_forwarded_for", "6.6.6.6"), ("x-forwarded-for", "10.1.1.1"), ("x_forwarded_proto", "https")
    )
    assert environ["HTTP_X_FORWARDED_FOR"] == "10.1.1.1"
    assert "HTTP_X_FORWARDED_PROTO" not in environ


def test_repeated_headers_are_one_list() -> None:
    environ = environ_of(
        ("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "2.2.2.2"), ("cookie", "a=1"), ("cookie", "b=2")
    )
    assert environ["HTTP_X_FORWARDED_FOR"] == "1.1.1.1,2.2.2.2"
    assert environ["HTTP_COOKIE"] == "a=1; b=2"


@pytest.mark.parametrize(("client", "address"), [("[::1]:80", "::1"), ("::1:80", "::1"), ("1.2.3.4:5", "1.2.3.4")])
def test_the_address_of_the_client(client: str, address: str) -> None:
    assert environ_of(client=client)["REMOTE_ADDR"] == address
