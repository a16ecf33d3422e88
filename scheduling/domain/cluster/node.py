"""From a node of the API server to a node of the ledger, and the usage of other software's pods on it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduling.domain.cluster.naming import GPU_RESOURCE, INSTALLATION_LABEL, PLATFORM
from scheduling.domain.cluster.pod_status import ENDED_PHASES
from scheduling.domain.cluster.quantities import read_quantity
from scheduling.domain.kubernetes_json import ReadOnlyObject


@dataclass(frozen=True, slots=True)
class NodeAmounts:
    """GPUs, cores, bytes."""

    gpus: int = 0
    cpu: int = 0
    memory_bytes: int = 0
    storage_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """The capacity that a node offers to pods (its allocatable part, rounded down). `ready`: the node accepts new pods
    and is healthy. `conditions` are the names of the conditions that are true."""

    name: str
    platform: str
    amounts: NodeAmounts
    ready: bool
    conditions: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()


def read_node(node: ReadOnlyObject) -> ClusterNode:
    """The node of the ledger. Its platform is the value of its label `osmo.platform`, `default` without one."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    labels = metadata.get("labels") or {}
    true_conditions = tuple(each["type"] for each in status.get("conditions") or [] if each.get("status") == "True")
    cordoned = bool(spec.get("unschedulable"))
    return ClusterNode(
        name=metadata["name"],
        platform=labels.get(PLATFORM) or "default",
        amounts=_amounts(status.get("allocatable") or {}, math.floor),
        ready="Ready" in true_conditions and not cordoned,
        conditions=true_conditions + (("SchedulingDisabled",) if cordoned else ()),
        labels=dict(labels),
        taints=tuple(
            {key: str(taint[key]) for key in ("key", "value", "effect") if taint.get(key)}
            for taint in spec.get("taints") or []
        ),
    )


def foreign_usage_by_node(pods: Iterable[ReadOnlyObject], installation: str, namespace: str) -> dict[str, NodeAmounts]:
    """The requests of pods of other software by node, rounded up; ended pods count for nothing. A pod is ours in our
    `namespace` only: anybody can write our label elsewhere."""
    sums: defaultdict[str, list[Any]] = defaultdict(lambda: [0, 0, 0, 0])
    for pod in pods:
        spec = pod.get("spec") or {}
        node = spec.get("nodeName")
        ended = (pod.get("status") or {}).get("phase") in ENDED_PHASES
        metadata = pod["metadata"]
        is_ours = (
            metadata.get("namespace") == namespace
            and (metadata.get("labels") or {}).get(INSTALLATION_LABEL) == installation
        )
        if not node or ended or is_ours:
            continue
        for position, amount in enumerate(_pod_request(spec)):
            sums[node][position] += amount
    return {node: NodeAmounts(*(math.ceil(amount) for amount in of_node)) for node, of_node in sums.items()}


def trim_pod(pod: ReadOnlyObject) -> dict[str, Any]:
    """The part of a pod that :func:`foreign_usage_by_node` needs; clusters have many pods, and pods are large."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    return {
        "metadata": {key: pod["metadata"].get(key) for key in ("namespace", "labels")},
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


def _pod_request(spec: ReadOnlyObject) -> list[Any]:
    """The request of a pod: the sum of its containers or its largest init container, plus the overhead of the pod."""
    together, largest = [0] * len(_NAMES), [0] * len(_NAMES)
    for container in spec.get("containers") or []:
        together = [have + more for have, more in zip(together, _requests(container), strict=True)]
    for container in spec.get("initContainers") or []:
        more = _requests(container)
        if container.get("restartPolicy") == "Always":  # a sidecar runs as long as the containers
            together = [have + each for have, each in zip(together, more, strict=True)]
        else:
            largest = [max(pair) for pair in zip(largest, more, strict=True)]
    overhead = [read_quantity((spec.get("overhead") or {}).get(name)) or 0 for name in _NAMES]
    return [max(a, b) + c for a, b, c in zip(together, largest, overhead, strict=True)]


def _requests(container: ReadOnlyObject) -> list[Any]:
    resources = container.get("resources") or {}
    requested = (resources.get("limits") or {}) | (resources.get("requests") or {})
    return [read_quantity(requested.get(name)) or 0 for name in _NAMES]


def _amounts(source: ReadOnlyObject, rounded: Any) -> NodeAmounts:
    return NodeAmounts(*(max(0, rounded(read_quantity(source.get(name)) or 0)) for name in _NAMES))
