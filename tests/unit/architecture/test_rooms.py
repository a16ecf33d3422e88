"""The rules of CONTRIBUTING.md on packages: few modules in each, no circles of imports, no import of a higher layer."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("osmo_admin", "pools", "scheduling")
MOST_MODULES = 15
HIGHER_LAYERS = {
    "domain": {"models", "selectors", "services", "api", "admin", "tasks", "apps"},
    "models": {"selectors", "services", "api", "admin", "tasks", "apps"},
    "selectors": {"services", "api", "admin", "tasks", "apps"},
    "services": {"api", "admin", "tasks", "apps"},
    "api": {"admin", "tasks", "apps"},
}
Graph = Mapping[str, Collection[str]]


def modules() -> dict[str, Path]:
    """The modules of the product, without migrations, by dotted name."""
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if "migrations" not in path.parts]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


@cache
def import_graph() -> Graph:
    """The modules that each module imports, at its top or inside of a function."""
    known, graph = modules(), defaultdict(set)
    for name, path in known.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names} & known.keys()
            elif isinstance(node, ast.ImportFrom) and node.module:
                found = {f"{node.module}.{alias.name}" for alias in node.names}
                graph[name] |= (found & known.keys()) or ({node.module} & known.keys())
    return graph


def find_circle(graph: Graph) -> list[str]:
    """Modules of which each imports the one before, the first and the last being the same; empty if there are none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as found:
        return [*found.args[1]]
    return []


def test_a_package_has_few_modules() -> None:
    count = Counter(name.rpartition(".")[0] for name, path in modules().items() if path.name != "__init__.py")
    assert {package: size for package, size in count.items() if size > MOST_MODULES} == {}


def test_no_modules_import_one_another_in_a_circle() -> None:
    assert find_circle(import_graph()) == []


def test_a_circle_is_found() -> None:
    assert set(find_circle({"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": []})) == {"a", "b", "c"}


def test_no_import_of_a_higher_layer() -> None:
    found = [
        f"{name} imports {other}"
        for name, others in import_graph().items()
        for other in others
        if _layer(other) in HIGHER_LAYERS.get(_layer(name), ()) and other.split(".")[0] == name.split(".")[0]
    ]
    assert found == []


def _layer(module: str) -> str:
    return [*module.split("."), ""][1]
