"""A node as the API server shows it -> a machine as the ledger keeps one, and what other people's pods take of it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduling.domain.cluster.naming import GPU_RESOURCE, INSTALLATION_LABEL, PLATFORM
from scheduling.domain.cluster.quantities import read_quantity
from scheduling.domain.kubernetes_json import ReadOnlyObject

_ENDED_PHASES = {"Succeeded", "Failed"}


@dataclass(frozen=True, slots=True)
class NodeAmounts:
    """GPUs, cores, bytes."""

    gpus: int = 0
    cpu: int = 0
    memory_bytes: int = 0
    storage_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """What a node offers to pods (its allocatable part, rounded down). `ready`: it takes new pods and its machine says
    that it is well; `conditions` are the names of those that hold."""

    name: str
    platform: str
    amounts: NodeAmounts
    ready: bool
    conditions: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()


def read_node(node: ReadOnlyObject) -> ClusterNode:
    """The machine. Its platform is what its label `osmo.platform` says, `default` without one."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    labels = metadata.get("labels") or {}
    holding = tuple(each["type"] for each in status.get("conditions") or [] if each.get("status") == "True")
    cordoned = bool(spec.get("unschedulable"))
    return ClusterNode(
        name=metadata["name"],
        platform=labels.get(PLATFORM) or "default",
        amounts=_amounts(status.get("allocatable") or {}, math.floor),
        ready="Ready" in holding and not cordoned,
        conditions=holding + (("SchedulingDisabled",) if cordoned else ()),
        labels=dict(labels),
        taints=tuple(
            {key: str(taint[key]) for key in ("key", "value", "effect") if taint.get(key)}
            for taint in spec.get("taints") or []
        ),
    )


def foreign_usage_by_node(pods: Iterable[ReadOnlyObject], installation: str) -> dict[str, NodeAmounts]:
    """What pods that are not this house's ask for, by node, rounded up; those that have ended hold nothing."""
    sums: defaultdict[str, list[Any]] = defaultdict(lambda: [0, 0, 0, 0])
    for pod in pods:
        spec = pod.get("spec") or {}
        node = spec.get("nodeName")
        ended = (pod.get("status") or {}).get("phase") in _ENDED_PHASES
        if not node or ended or (pod["metadata"].get("labels") or {}).get(INSTALLATION_LABEL) == installation:
            continue
        for place, amount in enumerate(_asked(spec)):
            sums[node][place] += amount
    return {node: NodeAmounts(*(math.ceil(amount) for amount in of_node)) for node, of_node in sums.items()}


def trim_pod(pod: ReadOnlyObject) -> dict[str, Any]:
    """What :func:`foreign_usage_by_node` needs of a pod; a cluster has many, and they are large."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    return {
        "metadata": {"labels": pod["metadata"].get("labels")},
        "spec": {
            "nodeName": spec.get("nodeName"),
            "overhead": spec.get("overhead"),
            **{
                kind: [
                    {"resources": each.get("resources"), "restartPolicy": each.get("restartPolicy")}
                    for each in spec.get(kind) or []
                ]
                for kind in ("containers", "initContainers")
            },
        },
        "status": {"phase": status.get("phase")},
    }


_NAMES = (GPU_RESOURCE, "cpu", "memory", "ephemeral-storage")


def _asked(spec: ReadOnlyObject) -> list[Any]:
    """What a pod asks for: its containers together, or its largest init container; and what the pod itself costs."""
    together, largest = [0] * len(_NAMES), [0] * len(_NAMES)
    for container in spec.get("containers") or []:
        together = [have + more for have, more in zip(together, _requests(container), strict=True)]
    for container in spec.get("initContainers") or []:
        more = _requests(container)
        if container.get("restartPolicy") == "Always":  # a sidecar runs beside the others
            together = [have + each for have, each in zip(together, more, strict=True)]
        else:
            largest = [max(pair) for pair in zip(largest, more, strict=True)]
    overhead = [read_quantity((spec.get("overhead") or {}).get(name)) or 0 for name in _NAMES]
    return [max(a, b) + c for a, b, c in zip(together, largest, overhead, strict=True)]


def _requests(container: ReadOnlyObject) -> list[Any]:
    resources = container.get("resources") or {}
    asked = (resources.get("limits") or {}) | (resources.get("requests") or {})
    return [read_quantity(asked.get(name)) or 0 for name in _NAMES]


def _amounts(source: ReadOnlyObject, rounded: Any) -> NodeAmounts:
    return NodeAmounts(*(max(0, rounded(read_quantity(source.get(name)) or 0)) for name in _NAMES))
