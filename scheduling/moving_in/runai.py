"""Run:ai: projects and departments (JSON of its REST API, or lines of `runai project create`) → a tree of queues.

A department is above its projects. A project has numbers for each node pool: with one node pool it is one queue.
Several are flavors where the files say which label their nodes have; otherwise there is one queue for each, named
PROJECT-NODEPOOL on the platform of the node pool. An amount that is null is unlimited.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from pools.domain.configuration.platforms import is_platform_name
from pools.domain.values.amounts import DEFAULT_FLAVOR
from scheduling.domain.cluster.quantities import read_quantity
from scheduling.moving_in.kubernetes.nodes import read_nodes
from scheduling.moving_in.kubernetes.objects import read_objects
from scheduling.moving_in.options import ImportOptions
from scheduling.moving_in.queue_tree import QueueAmounts, SourceQueue, add_queues
from scheduling.moving_in.result import BadSource, ImportResult, SourcePlace
from scheduling.moving_in.runai_node_pools import RunaiNodePool, find_flavors, is_node_pool, read_node_pool
from scheduling.moving_in.simulated_backend import add_backend
from scheduling.moving_in.source_text import SourceText, read_values

NODES_HINT: Final = "Add them to the files: kubectl get nodes -o yaml."
COMMANDS: Final = ("project", "department")
LISTS: Final = ("projects", "departments", "orgUnits", "nodePools", "nodepools")
_OF_KUBERNETES: Final = re.compile(r'^\s*"?apiVersion"?\s*:', re.MULTILINE)
STATE_KEYS: Final = frozenset(
    {
        "id", "name", "parent", "departmentName", "clusterId", "status", "effective", "children", "projectsCount",
        "createdAt", "createdBy", "updatedAt", "updatedBy",
        "deletedAt", "deletedBy", "totalResources", "phase",
        "range", "overtimeData", "requestedNamespace", "namespace", "tenantId", "totalNumberOfProjects",
        "childrenCounts", "enforceRunaiScheduler",
    }
)  # fmt: skip
LOST_KEYS: Final = {
    "description": "a department has no description.",
    "schedulingRules": "rules about idle GPUs and times: a pool has max_exec_timeout for all of its work.",
    "nodeTypes": "work names a platform; node types have no counterpart.",
}
PARENT_IDS: Final = ("parentId", "departmentId")
DEFAULT_RANK: Final = "MediumLow"


@dataclass(slots=True)
class _Unit:
    """A project or department: its numbers by node pool."""

    kind: str
    name: str
    parent: str
    place: SourcePlace
    pools: dict[str, dict[str, Fraction | None]] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    """Its default node pools, the preferred one first."""
    id: str = ""
    parent_id: str = ""
    description: str = ""


def read_runai(sources: list[SourceText], result: ImportResult, options: ImportOptions) -> None:
    """Read exports of Run:ai, and the nodes of its cluster. Raises BadSource."""
    units: list[_Unit] = []
    node_pools: dict[str, RunaiNodePool] = {}
    of_cluster = [source for source in sources if _OF_KUBERNETES.search(source.text)]
    for source in sources:
        if source not in of_cluster:
            is_json = source.text.lstrip()[:1] in ("{", "[")
            units += _read_json(source, node_pools, result) if is_json else _read_commands(source, result)
    _find_departments(units, result)
    used = {pool for unit in units for pool in unit.pools}
    found = find_flavors(used, node_pools, result, options)
    objects = read_objects(of_cluster, result)
    for each in objects:
        if each.kind != "Node":
            result.lost(each.place(), "this kind of object is not read here: of Kubernetes the import reads nodes.")
    nodes = read_nodes(objects, result, kept_labels={key for each in found.flavors for key in each.node_labels})
    add_backend(nodes, result, options, hint=NODES_HINT, flavors=found.flavors)
    add_queues(list(_queues(units, found.names, result)), result, options)
    if not units:
        result.decide(
            SourcePlace("options", 1),
            "the files have no project, so there are no pools. Add the answer of /api/v1/org-unit/projects.",
        )


def _find_departments(units: list[_Unit], result: ImportResult) -> None:
    """The names of departments that projects give by their ids."""
    names = {unit.id: unit.name for unit in units if unit.kind == "department" and unit.id}
    for unit in units:
        if unit.kind != "project" or not unit.parent_id:
            continue
        unit.parent = unit.parent or names.get(unit.parent_id, "")
        if not unit.parent:
            result.decide(
                unit.place, "the files do not have its department. Add the answer of /api/v1/org-unit/departments."
            )


def _queues(units: list[_Unit], flavors: Mapping[str, str], result: ImportResult) -> Iterator[SourceQueue]:
    """The queues of all units. Departments have a prefix, because a project may have the same name."""
    node_pools = {pool for unit in units for pool in unit.pools}
    has_suffix = len(node_pools) > 1 and not flavors
    departments = {unit.name for unit in units if unit.kind == "department"}
    seen: dict[str, SourcePlace] = {}
    for unit in units:
        if unit.kind == "project" and unit.parent and unit.parent not in departments:
            result.decide(unit.place, f"the files do not have the department {unit.parent}, so its quota is unknown.")
        for pool, amounts, weight in _parts(unit, flavors, result):
            suffix = f"-{pool}" if has_suffix else ""
            prefix = "department " if unit.kind == "department" else ""
            name = f"{prefix}{unit.name}{suffix}"
            if name in seen:
                raise BadSource.at(unit.place, f"{name} is given twice, here and in {seen[name]}. Keep one.")
            seen[name] = unit.place
            above = f"department {unit.parent}{suffix}" if unit.kind == "project" and unit.parent in departments else ""
            extra: dict[str, Any] = {}
            if has_suffix and unit.kind == "project":
                if not is_platform_name(pool):
                    raise BadSource.at(unit.place, f"the node pool {pool[:60]} is not a valid name of a platform.")
                extra = {"platforms": {pool: {}}, "default_platform": pool}
                result.decide(
                    unit.place,
                    f"{name} is for the node pool {pool}: give its nodes the platform {pool} (osmo.platform).",
                )
            yield SourceQueue(name, above, amounts, weight, unit.place, extra, unit.description)


def _parts(
    unit: _Unit, flavors: Mapping[str, str], result: ImportResult
) -> Iterator[tuple[str, Mapping[str, QueueAmounts], Fraction]]:
    """(Node pool, amounts, weight) of each queue of a unit: one for each node pool, or one with the flavors of all."""
    if not flavors:
        for pool, numbers in sorted((unit.pools or {DEFAULT_FLAVOR: {}}).items()):
            yield pool, {DEFAULT_FLAVOR: _amounts(numbers)}, numbers.get("weight") or Fraction(0)
        return
    order = [*(pool for pool in unit.order if pool in flavors), *sorted(flavors)]
    amounts = {flavors[pool]: _amounts(unit.pools.get(pool, {})) for pool in order}
    weights = {numbers.get("weight") or Fraction(0) for numbers in unit.pools.values()} or {Fraction(0)}
    if len(weights) > 1:
        result.decide(
            unit.place,
            f"its weights differ between node pools, and a pool has one: {float(max(weights)):g}, the largest.",
        )
    yield "", amounts, max(weights)


def _amounts(numbers: Mapping[str, Fraction | None]) -> QueueAmounts:
    return QueueAmounts(numbers.get("deserved", Fraction(0)), numbers.get("limit"))


_HOW: Final = "Give answers of /api/v1/org-unit/projects and departments, and of /api/v1/node-pools."


def _read_json(source: SourceText, node_pools: dict[str, RunaiNodePool], result: ImportResult) -> Iterator[_Unit]:
    for file, value, lines in read_values([source], result):
        lists = value if isinstance(value, dict) else {"projects": value}
        if not lists.keys() & LISTS:
            message = f"the answer has no {', '.join(sorted(LISTS))}; it may be about an error. {_HOW}"
            raise BadSource.at(SourcePlace(file, 1), message)
        for key, items in lists.items():
            place = SourcePlace(file, lines.get(key, 1), key)
            if key == "next" and items:
                result.decide(
                    place, "this is one page of an answer. Ask for 500 at a time (limit, offset) and give all of them."
                )
                continue
            if key not in LISTS or not isinstance(items, list):
                result.state(place, "not a list of projects or departments.")
                continue
            for at, item in enumerate(items):
                path = f"{key}[{at}]" if isinstance(value, dict) else f"[{at}]"
                line = lines.get(path, 1)
                if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not item["name"]:
                    raise BadSource.at(SourcePlace(file, line, path), "a project is a map with a name.")
                if is_node_pool(item):
                    name = item["name"]
                    node_pools[name] = read_node_pool(item, SourcePlace(file, line, f"node pool {name}"), result)
                    continue
                kind = "department" if key == "departments" or item.get("type") == "department" else "project"
                yield _unit(kind, item, SourcePlace(file, line, f"{kind} {item['name']}"), result)


def _unit(kind: str, item: Mapping[str, Any], place: SourcePlace, result: ImportResult) -> _Unit:
    above = item.get("parent")
    parent = above.get("name") if isinstance(above, dict) else item.get("departmentName")
    unit = _Unit(kind, item["name"], parent if isinstance(parent, str) and kind == "project" else "", place)
    unit.id = _id(item.get("id"))
    unit.parent_id = next((found for key in PARENT_IDS if (found := _id(item.get(key)))), "")
    rows = item.get("resources") or []
    if not isinstance(rows, list):
        raise BadSource.at(place, "resources is a list, one entry for each node pool.")
    for row in rows:
        if not isinstance(row, dict):
            raise BadSource.at(place, "an entry of resources is a map.")
        _read_row(unit, row, result)
    for key, value in item.items():
        at = SourcePlace(place.file, place.line, f"{place.key} {key}")
        if key == "defaultNodePools" and isinstance(value, list) and all(isinstance(each, str) for each in value):
            unit.order = value
            result.became(at, "where node pools are flavors, the order of those of the pool; a subpool has its pool's.")
            continue
        if key == "resources" or (key == "type" and value in COMMANDS):
            continue
        if key == "description" and kind == "project" and isinstance(value, str) and value:
            unit.description = value
            continue
        if key in PARENT_IDS and not _is_empty(value):
            result.state(at, "the id of its department.")
        elif key in STATE_KEYS or _is_empty(value):
            result.state(at, "an id, a time or a state, not configuration of quotas.")
        else:
            result.lost(at, LOST_KEYS.get(key, "this key is not known to the import."))
    return unit


def _id(value: Any) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _is_empty(value: Any) -> bool:
    """Whether nothing is said, at any depth that the answers have."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return all(each in (None, "", [], {}) for each in inner)


def _read_row(unit: _Unit, row: Mapping[str, Any], result: ImportResult) -> None:
    pool = row.get("nodePool")
    name = pool.get("name") if isinstance(pool, dict) else pool
    name = name if isinstance(name, str) and name else "default"
    gpu = row.get("gpu") or {}
    if not isinstance(gpu, dict):
        raise BadSource.at(unit.place, "gpu is a map with deserved, limit and overQuotaWeight.")
    numbers = {
        "deserved": _amount(gpu, "deserved", unit.place),
        "limit": _amount(gpu, "limit", unit.place),
        "weight": _amount(gpu, "overQuotaWeight", unit.place) or Fraction(0),
    }
    _keep(unit, name, numbers)
    for key in sorted(set(gpu) - {"deserved", "limit", "overQuotaWeight"}):
        result.lost(unit.place, f"resources {name} gpu.{key}: this key is not known to the import.")
    for key, value in row.items():
        if key in ("nodePool", "gpu") or value in (None, {}, ""):
            continue
        text = (
            "pools have no order among one another"
            if key in ("priority", "rank")
            else "pools have a quota of GPUs only"
        )
        bounds = {each: amount for each, amount in value.items() if each != "units"} if isinstance(value, dict) else {}
        if isinstance(value, dict) and all(amount in (None, 0, -1) for amount in bounds.values()):
            result.state(unit.place, f"resources {name} {key}: nothing is bounded.")
        elif key == "rank" and value == DEFAULT_RANK:
            result.state(unit.place, f"resources {name} rank: the usual one.")
        else:
            result.lost(unit.place, f"resources {name} {key}: {text}.")


def _keep(unit: _Unit, pool: str, numbers: dict[str, Fraction | None]) -> None:
    if pool in unit.pools:
        raise BadSource.at(unit.place, f"the node pool {pool[:60]} is given twice.")
    unit.pools[pool] = numbers


def _amount(values: Mapping[str, Any], key: str, place: SourcePlace) -> Fraction | None:
    """The number, None for null and -1."""
    value = values.get(key)
    if value is None or value in (-1, "-1"):
        return None
    number = read_quantity(repr(value) if isinstance(value, float) else value)
    if number is None or number < 0:
        raise BadSource.at(place, f"{key} is a number from 0 on, or -1 for unlimited.")
    return number


def _read_commands(source: SourceText, result: ImportResult) -> Iterator[_Unit]:
    for number, line in enumerate(source.text.replace("\\\n", "  ").split("\n"), 1):
        place = SourcePlace(source.name, number, line.strip()[:60])
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            words = shlex.split(line)
        except ValueError as problem:
            raise BadSource.at(place, f"the quotes of the line do not match ({problem}).") from problem
        if len(words) < 4 or words[0] != "runai" or words[1] not in COMMANDS or words[2] not in ("create", "update"):
            raise BadSource.at(place, f"this is neither JSON nor a line `runai project create NAME ...`. {_HOW}")
        yield _unit_of_command(words, place, result)


def _unit_of_command(words: list[str], place: SourcePlace, result: ImportResult) -> _Unit:
    unit = _Unit(words[1], words[3], "", place)
    rest = words[4:]
    while rest:
        option, mark, value = rest.pop(0).partition("=")
        if not mark:
            value = rest.pop(0) if rest else ""
        if option == "--department":
            unit.parent = value
        elif option == "--description":
            unit.description = value
        elif option == "--resources":
            _read_option(unit, value, result)
        else:
            result.lost(place, f"the option {option[:40]} has no counterpart.")
    return unit


def _read_option(unit: _Unit, value: str, result: ImportResult) -> None:
    given = dict(part.partition("=")[::2] for part in value.split(","))
    pool = given.pop("nodepool", "default")
    limit = given.pop("gpu-limit", None)
    numbers = {
        "deserved": _amount({"gpu-deserved": given.pop("gpu-deserved", "0")}, "gpu-deserved", unit.place),
        "limit": _amount({"gpu-limit": limit}, "gpu-limit", unit.place),
        "weight": _amount({"weight": given.pop("gpu-over-quota-weight", "1")}, "weight", unit.place),
    }
    _keep(unit, pool, numbers)
    for key in sorted(given):
        text = "pools have no order among one another" if key == "priority" else "pools have a quota of GPUs only"
        result.lost(unit.place, f"{key[:40]}={given[key][:40]}: {text}.")
