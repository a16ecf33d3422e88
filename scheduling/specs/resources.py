"""`resources`: what a task may ask for, and whether its platform grants it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scheduling.domain.workflow_spec import Topology
from scheduling.specs.cursor import Place, each
from scheduling.specs.faults import listed, quoted
from scheduling.specs.rules import PlatformRules, SpecRules

_FIELDS = ("cpu", "gpu", "memory", "storage", "platform", "nodesExcluded", "topology")


@dataclass(frozen=True, slots=True)
class Resource:
    """One entry of `resources`, and where it stands (None: the default one that nobody wrote)."""

    place: Place | None
    cpu: int = 0
    gpu: int = 0
    memory: int = 0
    storage: int = 0
    platform: str | None = None
    nodes_excluded: tuple[str, ...] = ()
    topology: tuple[Topology, ...] = ()


def read_resources(place: Place | None, rules: SpecRules) -> dict[str, Resource]:
    """All resources by name. Without the section there is one, `default`, that asks for nothing."""
    if place is None:
        return {"default": Resource(None, platform=rules.default_platform)}
    return {name: _read(entry, rules) for name, entry in place.entries("a name for each resource").items()}


def platform_of(resource: Resource, task: Place, rules: SpecRules) -> PlatformRules | None:
    """The rules of the platform that a task with this resource goes to; None (and mostly a fault) if not known."""
    if rules.platforms is None:
        return None
    at = resource.place or task
    if resource.platform is None:
        at.fail(
            "no_platform",
            "The resource names no platform, and the pool has no default one. "
            f"Add `platform:` with one of {listed(rules.platforms)}.",
        )
        return None
    found = rules.platforms.get(resource.platform)
    if found is None:
        at.fail(
            "unknown_platform",
            f"The pool has no platform {quoted(resource.platform)}."
            f"{at.faults.suggestion(resource.platform, rules.platforms)} It has {listed(rules.platforms)}.",
        )
    return found


def warn_unused(resources: dict[str, Resource], used: Iterable[str]) -> None:
    """A resource that no task asks for is no fault, but often a typing error elsewhere."""
    asked = set(used)
    for name, resource in resources.items():
        if name not in asked and name != "default" and resource.place is not None:
            resource.place.warn("no task uses this resource.")


def _read(place: Place, rules: SpecRules) -> Resource:
    if place.absent:
        return Resource(place, platform=rules.default_platform)
    found = place.fields(_FIELDS)
    return Resource(
        place,
        cpu=found["cpu"].whole("cpu") if "cpu" in found else 0,
        gpu=found["gpu"].whole("gpu") if "gpu" in found else 0,
        memory=found["memory"].size("memory") if "memory" in found else 0,
        storage=found["storage"].size("storage") if "storage" in found else 0,
        platform=(found["platform"].text() if "platform" in found else None) or rules.default_platform,
        nodes_excluded=found["nodesExcluded"].texts("node names") if "nodesExcluded" in found else (),
        topology=tuple(_topology(item, rules) for item in each(found.get("topology"), "topology requirements")),
    )


def _topology(place: Place, rules: SpecRules) -> Topology:
    found = place.fields(("key", "group", "requirementType"), required=("key",))
    key = (found["key"].text() if "key" in found else None) or ""
    kind = found["requirementType"].text() if "requirementType" in found else "required"
    if kind not in ("required", "preferred", None):
        found["requirementType"].fail("bad_value", f"The kind is {quoted(kind)}; allowed are required and preferred.")
    if key and rules.topology_keys is not None and key not in rules.topology_keys:
        near = place.faults.suggestion(key, rules.topology_keys)
        known = listed(sorted(rules.topology_keys)) or "none"
        found["key"].fail("unknown_topology", f"The pool has no topology key {quoted(key)}.{near} It has {known}.")
    return Topology(key, (found["group"].text() if "group" in found else None) or "default", kind != "preferred")
