"""The PodGroup of a gang: its queue, the pods that KAI starts together, and its minimums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduling.domain.cluster.naming import (
    FIELD_MANAGER,
    MANAGED_BY_LABEL,
    DispatchTarget,
    GangOrigin,
    gang_labels,
    pod_group_name,
)
from scheduling.domain.cluster.pods.topology import TopologyTree
from scheduling.domain.kubernetes_json import Object


@dataclass(frozen=True, slots=True)
class GangShape:
    """The structure of a gang. `tree` is its tree from :func:`scheduling.domain.gang.tree_to_json`; None means all
    `pods` together, and then `topology` may divide them."""

    pods: int
    tree: Mapping[str, Any] | None = None
    topology: TopologyTree | None = None


def pod_group_manifest(target: DispatchTarget, origin: GangOrigin, shape: GangShape) -> Object:
    """The manifest."""
    return {
        "metadata": {
            "name": pod_group_name(origin.group_uuid),
            "namespace": target.namespace,
            "labels": gang_labels(target, origin) | {MANAGED_BY_LABEL: FIELD_MANAGER},
        },
        "spec": {
            "queue": target.queue,
            "priorityClassName": f"osmo-{origin.priority.lower()}",
            **_minimums(shape),
        },
    }


def _minimums(shape: GangShape) -> Object:
    if shape.tree is not None:
        return _of_tree(shape.tree)
    topology = shape.topology
    if topology is None:
        return {"minMember": shape.pods}
    constraint = {"topologyConstraint": topology.constraint} if topology.constraint else {}
    # A PodGroup with SubGroups needs all of them, and its own minimum is ignored.
    return constraint | ({"subGroups": list(topology.sub_groups)} if topology.sub_groups else {"minMember": shape.pods})


def _of_tree(tree: Mapping[str, Any]) -> Object:
    if not tree.get("sub_groups"):
        return {"minMember": tree.get("min_member", 1)}
    return _rename_fields(tree, {"min_sub_group": "minSubGroup"}) | {
        "subGroups": [
            _rename_fields(
                sub, {"name": "name", "parent": "parent", "min_member": "minMember", "min_sub_group": "minSubGroup"}
            )
            for sub in tree["sub_groups"]
        ]
    }


def _rename_fields(fields: Mapping[str, Any], names: Mapping[str, str]) -> Object:
    return {there: fields[here] for here, there in names.items() if here in fields}


def dropped_fields(sent: Object, kept: Object) -> list[str]:
    """The paths in `spec` that an API server dropped, because its PodGroup version does not know them."""
    return list(_find_dropped_fields(sent["spec"], kept.get("spec") or {}, "spec"))


def _find_dropped_fields(sent: Mapping[str, Any], kept: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, value in sent.items():
        here = f"{path}.{key}"
        if key not in kept:
            yield here
        elif isinstance(value, Mapping):
            yield from _find_dropped_fields(value, kept[key], here)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            for position, (item, other) in enumerate(zip(value, kept[key], strict=False)):
                if isinstance(item, Mapping):
                    yield from _find_dropped_fields(item, other, f"{here}[{position}]")


def may_be_dropped(manifest: Object) -> bool:
    """Whether the manifest has a field that older clusters drop silently: a minimum of SubGroups."""
    spec = manifest["spec"]
    return "minSubGroup" in spec or any("minSubGroup" in sub for sub in spec.get("subGroups", ()))
