"""A rule that only its own test calls protects nobody: the product uses everything public in the domain packages."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOMAIN = ("pools/domain", "scheduling/domain", "scheduling/specs", "scheduling/scenario")
CALLED_BY_LIBRARIES = {"filter_stream"}
PRODUCT = ("pools", "scheduling", "osmo_admin", "bench")


def test_everything_in_the_domain_packages_is_used() -> None:
    used: Counter[str] = Counter()
    for folder in PRODUCT:
        for path in (ROOT / folder).rglob("*.py"):
            if "migrations" not in path.parts:
                used.update(re.findall(r"\w+", _without_exports(path.read_text())))
    for path in (ROOT / "templates").rglob("*.html"):
        used.update(re.findall(r"\w+", path.read_text()))
    unused = []
    for folder in DOMAIN:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                is_public = isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
                if is_public and node.name not in CALLED_BY_LIBRARIES and used[node.name] < 2:
                    unused.append(f"{path.relative_to(ROOT)}: {node.name}")
    assert unused == []


def test_every_optional_fact_of_the_rules_for_files_is_given() -> None:
    """A field of `SpecRules` that nothing fills switches its rule off without a word."""
    rules = ast.parse((ROOT / "scheduling/specs/rules.py").read_text())
    (spec_rules,) = (node for node in rules.body if isinstance(node, ast.ClassDef) and node.name == "SpecRules")
    names = {node.target.id for node in spec_rules.body if isinstance(node, ast.AnnAssign)}  # type: ignore[union-attr]
    filled = ast.parse((ROOT / "scheduling/services/workflows/pool_rules.py").read_text())
    given = {word.arg for node in ast.walk(filled) if isinstance(node, ast.Call) for word in node.keywords}
    assert names - given == set()


def _without_exports(text: str) -> str:
    """The text without imports and `__all__`, which use nothing."""
    return re.sub(r"(?ms)^from [^\n]* import (\(.*?\)|[^\n]*)|^__all__ = \[.*?\]", "", text)
