"""The codes of violations: one enum, which the product names, and of which docs/error-codes.md is made."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from pools.domain.errors import Fault
from scripts.reference.error_codes import render_error_codes

ROOT = Path(__file__).resolve().parents[3]
HOME = ROOT / "pools/domain/errors.py"
OTHER_WORDS = {
    "archived", "cycle", "debt", "empty", "ended", "expired", "follows_profile", "missing", "more", "negative",
    "not_by_password", "released", "stale", "too_deep", "too_large", "unreadable",
}  # fmt: skip
"""Codes that are also words of something else: states, keys of answers, filters, codes of Django's forms. The type
checker refuses them where a code is meant, because a violation takes a member, or the name of another rule."""
SOURCES = {
    path: path.read_text(encoding="utf-8")
    for package in ("osmo_admin", "pools", "scheduling")
    for path in (ROOT / package).rglob("*.py")
    if path != HOME and "migrations" not in path.parts
}


def test_the_page_has_each_code_with_its_meaning() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", render_error_codes().partition("## Why work waits")[0], re.MULTILINE)
    assert rows == [(str(code), code.meaning) for code in Fault]


def test_no_module_spells_a_code() -> None:
    codes = set(map(str, Fault)) - OTHER_WORDS
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for path, source in SOURCES.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and node.value in codes
    ]
    assert found == []


def test_every_code_is_written_somewhere() -> None:
    """Codes of templates are made of the words of the sandbox."""
    named = {name for source in SOURCES.values() for name in re.findall(r"\bFault\.([A-Z_]+)", source)}
    sandbox = "".join(source for path, source in SOURCES.items() if "sandbox" in path.name or "budget" in path.name)
    words = set(re.findall(r'(?:"code": |error_body\()"(\w+)"', sandbox)) - {"stopped"}
    assert named | {f"TEMPLATE_{word.upper()}" for word in words} == set(Fault.__members__)
