"""The rules of CONTRIBUTING.md on packages: few modules in each, no circles of imports, no import of a higher layer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter

from tests.support.product_source import module_facts, module_texts

MOST_MODULES = 15
HIGHER_LAYERS = {
    "domain": {"models", "selectors", "services", "history", "api", "admin", "tasks", "apps"},
    "models": {"selectors", "services", "history", "api", "admin", "tasks", "apps"},
    "selectors": {"services", "history", "api", "admin", "tasks", "apps"},
    "services": {"history", "api", "admin", "tasks", "apps"},
    "history": {"api", "admin", "tasks", "apps"},
    "api": {"admin", "tasks", "apps"},
}
TWO_WAY_ROOMS = [
    "osmo_admin.doctor and osmo_admin.monitoring",
    "osmo_admin.doctor and osmo_admin.processes",
    "osmo_admin.processes and osmo_admin.web",
    "pools.representations and pools.selectors",
    "pools.representations and pools.services",
]
"""The pairs that are left. A new one is a mistake."""

Graph = Mapping[str, Collection[str]]


def modules() -> dict[str, str]:
    """The paths of the modules by dotted name."""
    return {path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): path for path in module_texts()}


@cache
def import_graph() -> Graph:
    """The modules that each module imports, at its top or inside of a function."""
    known, graph = modules(), defaultdict(set)
    for name, path in known.items():
        for module, names in module_facts()[path].imports:
            found = {f"{module}.{each}" for each in names}
            graph[name] |= (found & known.keys()) or ({module} & known.keys())
    return graph


def find_circle(graph: Graph) -> list[str]:
    """Modules of which each imports the one before, the first and the last being the same; empty if there are none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as found:
        return [*found.args[1]]
    return []


def test_a_package_has_few_modules() -> None:
    count = Counter(name.rpartition(".")[0] for name, path in modules().items() if not path.endswith("__init__.py"))
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


def test_no_rooms_import_one_another() -> None:
    packages = {name for name, path in modules().items() if path.endswith("__init__.py")}
    assert two_way_rooms(import_graph(), packages) == TWO_WAY_ROOMS


def test_two_rooms_that_import_one_another_are_found() -> None:
    graph = {"a.x.one": ["a.y.two", "a.three"], "a.y.four": ["a.x.five", "a.z.six"], "a.three": ["a.x.one"]}
    assert two_way_rooms(graph, {"a", "a.x", "a.y", "a.z"}) == ["a.x and a.y"]


def two_way_rooms(graph: Graph, packages: Collection[str]) -> list[str]:
    """The pairs of packages in one package of which each imports the other."""
    pairs = {rooms for name, others in graph.items() for other in others if (rooms := _rooms_of(name, other, packages))}
    return sorted(f"{one} and {other}" for one, other in pairs if one < other and (other, one) in pairs)


def _rooms_of(module: str, other: str, packages: Collection[str]) -> tuple[str, str] | None:
    """The packages of two modules that stand in one package; None where one of them is not in a package there."""
    parts, others = module.split("."), other.split(".")
    depth = next((place for place, pair in enumerate(zip(parts, others, strict=False), 1) if len({*pair}) == 2), 0)
    rooms = ".".join(parts[:depth]), ".".join(others[:depth])
    return rooms if depth and packages.issuperset(rooms) else None


def _layer(module: str) -> str:
    return [*module.split("."), ""][1]
