"""A field is named where it is declared, stored and used. Pages and endpoints are declarations."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MOST_LAMBDAS = 60
MOST_FILES = {"enable_maintenance": 10, "lending_limit": 20, "drain_by": 10, "approval_above": 8}


@pytest.mark.parametrize("field", MOST_FILES)
def test_a_field_is_named_in_few_files(field: str) -> None:
    product = [
        path
        for folder in ("osmo_admin", "pools", "scheduling", "templates")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".py", ".html"} and "migrations" not in path.parts
    ]
    named = [str(path.relative_to(ROOT)) for path in product if field in path.read_text(encoding="utf-8")]
    assert 0 < len(named) <= MOST_FILES[field], named


def test_pages_and_endpoints_have_few_lambdas() -> None:
    modules = [
        path
        for folder in ("pools/api", "pools/admin", "scheduling/api", "scheduling/admin")
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]
    found = {
        str(path.relative_to(ROOT)): sum(isinstance(node, ast.Lambda) for node in ast.walk(ast.parse(path.read_text())))
        for path in modules
    }
    assert len(found) > 50
    assert sum(found.values()) < MOST_LAMBDAS, {path: number for path, number in found.items() if number}
