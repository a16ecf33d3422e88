"""The rules of CONTRIBUTING.md on names and packages that a program can check."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.support.product_source import PACKAGES, module_facts
from tests.support.services import ROOT

LAYERS = {"domain", "models", "services", "selectors", "api", "admin", "migrations"}
MODULES_OF_POOLS = {"__init__", "apps", "signals", "receivers", "permissions", "locking"}
INNER_CLASSES_OF_DJANGO = {"Meta", "Media"}


def class_definitions() -> dict[str, list[str]]:
    """Places (`file:line`) of the classes of the product by name."""
    places = defaultdict(list)
    for path, facts in module_facts().items():
        for line, name in facts.classes:
            if name not in INNER_CLASSES_OF_DJANGO:
                places[name].append(f"{path}:{line}")
    return places


def test_a_class_name_has_one_meaning() -> None:
    classes = class_definitions()
    assert len(classes) > 500
    assert {name: places for name, places in classes.items() if len(places) > 1} == {}


def test_a_module_gives_a_name_once() -> None:
    """A second assignment would take the place of the first for all who import it, without a word."""
    names = {path: [name for _, name in facts.assigned] for path, facts in module_facts().items()}
    assert {path: each for path, found in names.items() if (each := {n for n in found if found.count(n) > 1})} == {}


def test_both_apps_have_the_same_second_level() -> None:
    for app in ("pools", "scheduling"):
        packages = {path.parent.name for path in (ROOT / app).glob("*/__init__.py")}
        assert packages >= LAYERS


def test_no_loose_module_lies_in_pools() -> None:
    assert {path.stem for path in (ROOT / "pools").glob("*.py")} <= MODULES_OF_POOLS


def test_every_package_says_in_one_sentence_what_lives_there() -> None:
    silent = []
    for folder in sorted({path.parent for package in PACKAGES for path in (ROOT / package).rglob("*.py")}):
        module = folder / "__init__.py"
        text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) if module.exists() else None
        first = " ".join((text or "").split("\n\n")[0].split())
        if not first.endswith(".") or ". " in first:
            silent.append(f"{folder.relative_to(ROOT)}: {first}")
    assert silent == []
