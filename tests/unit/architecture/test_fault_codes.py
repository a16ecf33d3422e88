"""The codes of violations: one enum, which the product names, and of which docs/error-codes.md is made."""

from __future__ import annotations

import re

from pools.domain.errors import Fault
from scripts.reference.error_codes import render_error_codes
from tests.support.product_source import module_facts, module_texts

HOME = "pools/domain/errors.py"
OTHER_WORDS = {
    "archived", "cycle", "debt", "empty", "ended", "expired", "follows_profile", "missing", "more", "negative",
    "not_by_password", "released", "stale", "too_deep", "too_large", "unreadable",
}  # fmt: skip
"""Codes that are also words of something else: states, keys of answers, filters, codes of Django's forms. The type
checker refuses them where a code is meant, because a violation takes a member, or the name of another rule."""


def test_the_page_has_each_code_with_its_meaning() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", render_error_codes().partition("## Why work waits")[0], re.MULTILINE)
    assert rows == [(str(code), code.meaning) for code in Fault]


def test_no_module_spells_a_code() -> None:
    codes = set(map(str, Fault)) - OTHER_WORDS
    found = [
        f"{path}:{line}: {text}"
        for path, facts in module_facts().items()
        for line, text in facts.constants
        if path != HOME and text in codes
    ]
    assert found == []


def test_every_code_is_written_somewhere() -> None:
    """Codes of templates are made of the words of the sandbox."""
    sources = {path: text for path, text in module_texts().items() if path != HOME}
    named = {name for source in sources.values() for name in re.findall(r"\bFault\.([A-Z_]+)", source)}
    files = {path: path.rpartition("/")[2] for path in sources}
    sandbox = "".join(sources[path] for path, name in files.items() if "sandbox" in name or "budget" in name)
    words = set(re.findall(r'(?:"code": |error_body\()"(\w+)"', sandbox)) - {"stopped"}
    assert named | {f"TEMPLATE_{word.upper()}" for word in words} == set(Fault.__members__)
