"""Every protection in tests/threats.md, the table of the threat model, names tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.support.services import ROOT

TEXT = (ROOT / "tests" / "threats.md").read_text()
FILE = re.compile(r"tests/[\w/]+\.py")
# `tests/file.py::name::name`, and `::name` for another test of the file before it.
REFERENCE = re.compile(r"(tests/[\w/]+\.py)?((?:::\w+)*)")


def table_rows() -> list[list[str]]:
    lines = [line for line in TEXT.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in lines]
    return [row for row in rows if len(row) == 5 and row[0] != "who"]


def references(cell: str) -> list[str]:
    """The node ids in a cell, each with its file."""
    found, file = [], ""
    for match in REFERENCE.finditer(cell):
        if not match.group():
            continue
        file = match.group(1) or file
        found.append(file + match.group(2))
    return found


@cache
def names_in(file: str) -> dict[str, set[str]]:
    """Test functions and classes of a file by their class ('' at the top)."""
    path = ROOT / file
    found: dict[str, set[str]] = {"": set()}
    if not path.exists():
        return found
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[""].add(node.name)
        if isinstance(node, ast.ClassDef):
            found[node.name] = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


def is_a_test(reference: str) -> bool:
    file, *names = reference.split("::")
    if not names or not file:
        return bool(file) and (ROOT / file).exists()
    owner = "" if len(names) == 1 else names[0]
    is_collected = names[-1].startswith("test_") or (len(names) == 1 and names[0].startswith("Test"))
    return is_collected and names[-1] in names_in(file).get(owner, set())


def test_the_table_has_rows() -> None:
    assert len(table_rows()) > 30


@pytest.mark.parametrize("row", table_rows(), ids=lambda row: f"{row[0]}: {row[1]}"[:60])
def test_the_tests_of_a_protection_exist(row: list[str]) -> None:
    named = references(row[4])
    assert named, "each protection has a test"
    assert [each for each in named if not is_a_test(each)] == []


def test_what_is_no_test_is_noticed() -> None:
    here = "tests/unit/architecture/test_threat_model.py"
    assert references(f"`{here}::test_the_table_has_rows`, ::test_gone") == [
        f"{here}::test_the_table_has_rows",
        f"{here}::test_gone",
    ]
    assert is_a_test(f"{here}::test_the_table_has_rows")
    assert is_a_test("tests/integration/identity/test_tokens.py::TestMaking")
    for wrong in (f"{here}::test_gone", f"{here}::references", "tests/unit/test_gone.py", f"{here}::TestGone::test_x"):
        assert not is_a_test(wrong)


def test_it_is_linked_where_operators_look() -> None:
    for place in ("docs/README.md", "docs/database.md", "docs/watching.md"):
        assert "threat-model.md" in (ROOT / place).read_text(), place
