"""Templates and styles contain no scripts and no addresses of other hosts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.template.loader import render_to_string

ROOT = Path(__file__).parents[3]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
STYLES = sorted((ROOT / "static").rglob("*.css"))
ERROR_PAGES = ("400.html", "403.html", "403_csrf.html", "404.html", "500.html", "503.html", "osmo/plain.html")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_code_inside_a_template(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r'<script(?! src="{)[^>]*>|<script[^>]*>(?!</script>)', text) == []
    assert not re.search(r"\son[a-z]+\s*=", text)
    assert "javascript:" not in text
    assert "|safe" not in text


@pytest.mark.parametrize("path", [*TEMPLATES, *STYLES], ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_comes_from_another_host(path: Path) -> None:
    text = path.read_text()
    assert "http://" not in text
    assert "https://" not in text
    assert not re.search(r"url\(\s*['\"]?//", text)
    assert "@import" not in text


@pytest.mark.parametrize("name", ERROR_PAGES)
def test_error_pages_need_no_context(name: str) -> None:
    """They are rendered without a request, a database and a context."""
    page = render_to_string(name)
    assert "<h1>" in page
    assert re.search(r"osmo/osmo[.\w]*\.css", page)
    assert "Traceback" not in page
