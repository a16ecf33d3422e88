"""A number stands before its word by `counted`, so that one is not several: `1 GPU`, not `1 GPUs`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WORDS = re.compile(r" (GPUs|workflows|gangs|pods|workers|notices|subpools)\b")
NO_NUMBER = re.compile(r"flavor|text|loses|'s' \*")
"""What stands before the word is a name, a text that was made with its unit, or a word."""
KNOWN = {
    "scheduling/domain/engine/reasons/explain.py": "two or more",
    "scheduling/domain/queues/plan.py": "a quota of KAI, which may be a fraction",
    "scheduling/templatetags/fleet.py": "an average",
}


def _is_constant(value: ast.expr) -> bool:
    """A constant of the module, which is not one; also a part of it (`MAX.days`)."""
    while isinstance(value, ast.Attribute):
        value = value.value
    return isinstance(value, ast.Name) and value.id.isupper()


def _ends_with_if(tree: ast.AST) -> set[ast.JoinedStr]:
    """The texts in one half of a condition whose other half is for one."""
    return {
        each
        for node in ast.walk(tree)
        if isinstance(node, ast.IfExp) and re.search(r"== 1|> 1|is_one|is_single", ast.unparse(node.test))
        for half in (node.body, node.orelse)
        for each in ast.walk(half)
        if isinstance(each, ast.JoinedStr)
    }


def by_hand(source: str) -> Iterator[str]:
    """The words after a number that no function has counted."""
    tree = ast.parse(source)
    spared = _ends_with_if(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr) or node in spared:
            continue
        for value, text in zip(node.values, node.values[1:], strict=False):
            if not isinstance(value, ast.FormattedValue) or not isinstance(text, ast.Constant):
                continue
            found, number = WORDS.match(str(text.value)), ast.unparse(value.value)
            if found and not _is_constant(value.value) and not NO_NUMBER.search(number):
                yield f"{node.lineno}: {{{number}}}{found[0]}"


@pytest.mark.parametrize("folder", ["pools", "scheduling", "osmo_admin"])
def test_no_sentence_counts_by_hand(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{each}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "migrations" not in path.parts and str(path.relative_to(ROOT)) not in KNOWN
        if WORDS.search(source := path.read_text(encoding="utf-8"))
        for each in by_hand(source)
    ]
    assert not found, "Use counted (pools/domain/values/counting.py):\n" + "\n".join(found)
