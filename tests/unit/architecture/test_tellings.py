"""A field is named in few files: where it is declared, stored and used, not where it is only carried."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
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
