"""Each rule is where the table says, and the test that it names fails without it."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rules.removals import REMOVALS, Removal

ROOT = Path(__file__).parents[2]
DESIGNS = {"dynamic subpools", "scheduling", "minSubGroup", "hierarchical cohorts", "namespaced GPU quota"}
each_rule = pytest.mark.parametrize("removal", [pytest.param(each, id=each.rule) for each in REMOVALS])


@each_rule
def test_each_rule_is_where_the_table_says(removal: Removal) -> None:
    assert (ROOT / removal.file).read_text(encoding="utf-8").count(removal.code) == 1, "the table is out of date"
    file, _, name = removal.test.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_design_has_rules() -> None:
    assert {removal.design for removal in REMOVALS} > DESIGNS


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code and the tests."""
    copy = tmp_path_factory.mktemp("tree")
    for name in ("osmo_admin", "pools", "scheduling", "tests", "templates", "static", "docs"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "manage.py"):
        shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture
def without(tree: Path, removal: Removal) -> Iterator[Path]:
    """The copy without this rule."""
    file = tree / removal.file
    code = file.read_text(encoding="utf-8")
    file.write_text(code.replace(removal.code, removal.without), encoding="utf-8")
    yield tree
    file.write_text(code, encoding="utf-8")


@pytest.mark.nightly
@each_rule
def test_the_test_of_each_rule_fails_without_it(removal: Removal, without: Path) -> None:
    assert _run(without, removal.test) == 1, f"{removal.test} does not notice that this rule is gone: {removal.rule}"


@pytest.mark.nightly
def test_these_tests_pass_with_all_rules(tree: Path) -> None:
    assert _run(tree, *sorted({removal.test for removal in REMOVALS})) == 0


def _run(tree: Path, *tests: str) -> int:
    """The exit code of pytest: 0 all passed, 1 some failed; anything else means that they did not run."""
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=tree, capture_output=True, check=False).returncode
