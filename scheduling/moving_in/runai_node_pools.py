"""Node pools of Run:ai as flavors, where the files say which label their nodes have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pools.domain.configuration.flavors import MAX_FLAVORS, MAX_NAME, Flavor
from pools.domain.names import is_word
from pools.domain.structured_input.faults import join_words
from pools.domain.values.amounts import DEFAULT_FLAVOR
from scheduling.moving_in.options import ImportOptions
from scheduling.moving_in.result import BadSource, ImportResult, SourcePlace

STATE_KEYS: Final = frozenset(
    {
        "id", "clusterId", "status", "phase", "statusMessage", "nodes", "isDefault", "createdAt", "createdBy",
        "updatedAt", "updatedBy", "deletedAt", "deletedBy", "meta", "phaseMessage", "tenantId", "clusterName",
    }
)  # fmt: skip
_HOW: Final = "Add the answer of /api/v1/node-pools, with the label of each, and node pools are flavors."


@dataclass(frozen=True, slots=True)
class RunaiNodePool:
    """A node pool with the label of its nodes; the default one has none."""

    name: str
    place: SourcePlace
    label: tuple[str, str] | None


def is_node_pool(item: Any) -> bool:
    """Whether an object of an export is a node pool."""
    return isinstance(item, dict) and "labelKey" in item and isinstance(item.get("name"), str)


def read_node_pool(item: Mapping[str, Any], place: SourcePlace, result: ImportResult) -> RunaiNodePool:
    """One node pool; every key is in the report."""
    key, value = item["labelKey"], item.get("labelValue")
    label = (key, value) if isinstance(key, str) and key and isinstance(value, str) and value else None
    for other in item:
        at = SourcePlace(place.file, place.line, f"{place.key} {other}")
        if other in ("name", "labelKey", "labelValue"):
            continue
        if other in STATE_KEYS or item[other] in (None, "", [], {}):
            result.state(at, "an id, a time or a state, not configuration of quotas.")
        else:
            result.lost(at, "how a node pool places work has no counterpart.")
    return RunaiNodePool(item["name"], place, label)


@dataclass(frozen=True, slots=True)
class NodePoolFlavors:
    """`names`: the flavor of each node pool; empty where node pools are no flavors. `flavors`: those of the cluster."""

    names: Mapping[str, str]
    flavors: tuple[Flavor, ...]


def find_flavors(
    used: Collection[str], given: Mapping[str, RunaiNodePool], result: ImportResult, options: ImportOptions
) -> NodePoolFlavors:
    """The flavors of the node pools that projects use, if each has a label. Each node pool that was given is in the
    report."""
    labels = {name: pool.label for name, pool in given.items() if pool.label is not None}
    missing = sorted(name for name in used if name not in labels and name != DEFAULT_FLAVOR)
    are_flavors = len(used) > 1 and not missing
    for name, pool in given.items():
        if name not in used or not are_flavors:
            result.state(pool.place, "the projects of the files do not need it as a flavor.")
        elif name == DEFAULT_FLAVOR:
            result.became(pool.place, "the nodes without a flavor.")
        elif options.writes_backend:
            result.became(pool.place, f"is the flavor {name} of backends.{options.backend}.")
        else:
            result.decide(
                pool.place, f"give the cluster {options.backend} this flavor with its label (docs/gpu-flavors.md)."
            )
    if not are_flavors:
        if len(used) > 1:
            known = f"the label of the node pools {join_words(missing[:10])} is not known"
            result.decide(SourcePlace("options", 1), f"{known}, so each project and node pool is a pool. {_HOW}")
        return NodePoolFlavors({}, ())
    for name in used:
        if name in given and (not is_word(name) or len(name) > MAX_NAME or len(used) > MAX_FLAVORS):
            raise BadSource.at(
                given[name].place, f"a flavor has a name of at most {MAX_NAME} letters, and there are {MAX_FLAVORS}."
            )
    flavors = tuple(Flavor(name, dict([label])) for name, label in labels.items() if name in used)
    return NodePoolFlavors({name: name for name in used}, flavors)
