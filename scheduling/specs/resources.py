"""`resources`: the requests of tasks, checked against their platforms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pools.domain.errors import Fault
from pools.domain.structured_input.faults import join_words
from scheduling.domain.workflow_spec import TopologyRequirement
from scheduling.specs.rules import PlatformRules, SpecRules
from scheduling.specs.yaml_cursor import YamlCursor, iterate_items

_FIELDS = ("cpu", "gpu", "memory", "storage", "platform", "nodesExcluded", "topology", "gpu_flavors")


@dataclass(frozen=True, slots=True)
class ResourceEntry:
    """One entry of `resources` with its cursor (None: the default entry of a file without the section)."""

    cursor: YamlCursor | None
    cpu: int = 0
    gpu: int = 0
    memory: int = 0
    storage: int = 0
    platform: str | None = None
    nodes_excluded: tuple[str, ...] = ()
    topology: tuple[TopologyRequirement, ...] = ()
    gpu_flavors: tuple[str, ...] = ()


def read_resources(place: YamlCursor | None, rules: SpecRules) -> dict[str, ResourceEntry]:
    """All resources by name. Without the section there is one, `default`, that requests nothing."""
    if place is None:
        return {"default": ResourceEntry(None, platform=rules.default_platform)}
    return {name: _read(entry, rules) for name, entry in place.map_entries("a name for each resource").items()}


def find_platform_rules(resource: ResourceEntry, task: YamlCursor, rules: SpecRules) -> PlatformRules | None:
    """The rules of the platform that a task with this resource goes to; None (and mostly a fault) if not known."""
    if rules.platforms is None:
        return None
    at = resource.cursor or task
    if resource.platform is None:
        at.add_fault(
            Fault.NO_PLATFORM,
            "The resource names no platform, and the pool has no default platform. "
            f"Add `platform:` with one of {join_words(rules.platforms)}.",
        )
        return None
    found = rules.platforms.get(resource.platform)
    if found is None:
        at.add_fault(
            Fault.UNKNOWN_PLATFORM,
            f"The pool has no platform of this name."
            f"{at.faults.suggestion(resource.platform, rules.platforms)} It has {join_words(rules.platforms)}.",
        )
    return found


def warn_of_unused_resources(resources: dict[str, ResourceEntry], used: Iterable[str]) -> None:
    """Warn of resources that no task uses: that is allowed, but often a typing error elsewhere."""
    used_names = set(used)
    for name, resource in resources.items():
        if name not in used_names and name != "default" and resource.cursor is not None:
            resource.cursor.add_warning("no task uses this resource.")


def _read(place: YamlCursor, rules: SpecRules) -> ResourceEntry:
    if place.is_absent:
        return ResourceEntry(place, platform=rules.default_platform)
    found = place.known_fields(_FIELDS)
    return ResourceEntry(
        place,
        cpu=found["cpu"].count() if "cpu" in found else 0,
        gpu=found["gpu"].count() if "gpu" in found else 0,
        memory=found["memory"].size() if "memory" in found else 0,
        storage=found["storage"].size() if "storage" in found else 0,
        platform=(found["platform"].text() if "platform" in found else None) or rules.default_platform,
        nodes_excluded=found["nodesExcluded"].texts("node names") if "nodesExcluded" in found else (),
        topology=tuple(
            _topology(item, rules) for item in iterate_items(found.get("topology"), "topology requirements")
        ),
        gpu_flavors=read_gpu_flavors(found["gpu_flavors"], rules) if "gpu_flavors" in found else (),
    )


def read_gpu_flavors(place: YamlCursor, rules: SpecRules) -> tuple[str, ...]:
    """The flavors that the work may use, in its order of preference."""
    names = place.texts("names of GPU flavors")
    if len(set(names)) < len(names):
        place.add_fault(Fault.DUPLICATE, "A flavor is named twice; name each flavor once, the preferred one first.")
    unknown = [name for name in names if rules.gpu_flavors is not None and name not in rules.gpu_flavors]
    if unknown:
        near = place.faults.suggestion(unknown[0], rules.gpu_flavors or ())
        known = f"It has {join_words(rules.gpu_flavors or ())}." if rules.gpu_flavors else "It names none."
        place.add_fault(Fault.UNKNOWN_FLAVOR, f"The pool does not have this GPU flavor.{near} {known}")
    return tuple(dict.fromkeys(names))


def _topology(place: YamlCursor, rules: SpecRules) -> TopologyRequirement:
    found = place.known_fields(("key", "group", "requirementType"), required=("key",))
    key = (found["key"].text() if "key" in found else None) or ""
    kind = found["requirementType"].text() if "requirementType" in found else "required"
    if kind not in ("required", "preferred", None):
        found["requirementType"].add_fault(Fault.BAD_VALUE, "The kind must be required or preferred.")
    if key and rules.topology_keys is not None and key not in rules.topology_keys:
        near = place.faults.suggestion(key, rules.topology_keys)
        known = join_words(rules.topology_keys) or "none"
        found["key"].add_fault(
            Fault.UNKNOWN_TOPOLOGY, f"The pool does not have this topology key.{near} It has {known}."
        )
    return TopologyRequirement(
        key, (found["group"].text() if "group" in found else None) or "default", kind != "preferred"
    )
