"""Passwords that follow from a name."""

from __future__ import annotations

import pytest

from pools.domain.people.passwords import follows_from_name


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("dora", "doradora"), ("dora", "DoRa2024!"), ("dora", "x-dora-x-long"), ("dora", "arod-arod"),
        ("dora", "d.o.r.a.d.o.r.a"), ("dora", "dórádórá"), ("ann.miller@corp", "miller-2026"),
        ("ann.miller", "rellim99"),
        ("administrator", "administr"), ("administrator", "rotartsinimda"), ("al", "alalalal"), ("al", "al-1234-la"),
        ("x", "x1234567"), ("4711", "xx4711xx"), ("Ärger", "arger-arger"),
    ],
)  # fmt: skip
def test_refused(name: str, password: str) -> None:
    assert follows_from_name(password, name)


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("dora", "only-for-tests-4711"), ("dora", "d0ra-is-nowhere"), ("al", "all-in-all-balls"), ("x", "xylophone-77"),
        ("bob", "another-secret-99"), ("a", "banana-split"), ("---", "quiet-river-12"), ("", "quiet-river-12"),
        ("administrator", "in"),
    ],
)  # fmt: skip
def test_allowed(name: str, password: str) -> None:
    assert not follows_from_name(password, name)
