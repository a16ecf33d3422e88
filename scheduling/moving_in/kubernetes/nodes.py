"""Node objects of a cluster → nodes of a simulated backend."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from pools.domain.configuration.backend_config import DEFAULT_CPU, DEFAULT_MEMORY, DEFAULT_STORAGE, NodeSpec
from pools.domain.configuration.flavors import PRODUCT_LABEL
from pools.domain.configuration.platforms import DEFAULT_PLATFORM
from scheduling.domain.cluster.quantities import read_quantity
from scheduling.moving_in.kubernetes.objects import KubernetesObject
from scheduling.moving_in.result import BadSource, ImportResult, PartOutcome
from scheduling.moving_in.simulated_backend import FoundNodes

GPU_RESOURCES: Final = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
REPLICAS_LABEL: Final = "nvidia.com/gpu.replicas"


def read_nodes(
    objects: Iterable[KubernetesObject],
    result: ImportResult,
    kept_labels: Collection[str] = (),
) -> FoundNodes:
    """The nodes among the objects, with those of their labels that flavors name (`kept_labels`)."""
    found = FoundNodes()
    for each in objects:
        if each.kind != "Node":
            continue
        labels = each.take_map("metadata.labels")
        key = "status.allocatable" if each.take_map("status.allocatable") else "status.capacity"
        amounts = each.take_map(key)
        gpus = sum(_whole(each, f"{key}.{name}", amounts.get(name, 0)) for name in GPU_RESOURCES)
        for name in sorted(amounts):
            if name.startswith("nvidia.com/mig-"):
                result.lost(each.place(f"{key}.{name}"), "parts of GPUs (MIG) have no quota here; whole GPUs have.")
        gpus = _physical(each, labels, gpus, result)
        found.add(
            NodeSpec(
                name=each.name.lower(),
                gpus=gpus,
                cpu=_whole(each, f"{key}.cpu", amounts.get("cpu", DEFAULT_CPU)),
                memory_bytes=_whole(each, f"{key}.memory", amounts.get("memory", DEFAULT_MEMORY)),
                storage_bytes=_whole(
                    each, f"{key}.ephemeral-storage", amounts.get("ephemeral-storage", DEFAULT_STORAGE)
                ),
                platform=DEFAULT_PLATFORM,
                labels={label: str(labels[label]) for label in kept_labels if label in labels},
            ),
            each.place(),
        )
        each.used.update(("kind", "metadata.name"))
        _report_node(each, result)
    return found


def _report_node(each: KubernetesObject, result: ImportResult) -> None:
    taints = each.take_list("spec.taints")
    if taints or each.take("spec.unschedulable"):
        result.decide(
            each.place("spec"), "the node is cordoned or has taints; the simulated node takes work all the same."
        )
    each.used.update(("spec.taints", "spec.unschedulable"))
    each.report_rest(result, lambda _path: (PartOutcome.STATE, "a value of the node that quotas do not use."))


def _physical(each: KubernetesObject, labels: Mapping[str, Any], gpus: int, result: ImportResult) -> int:
    """Whole GPUs: a node with time slicing offers each GPU several times, and one with MIG `single` parts of them."""
    if gpus and "-MIG-" in str(labels.get(PRODUCT_LABEL, "")):
        result.lost(each.place("metadata.labels"), "each GPU of the node is a part (MIG); it is imported without GPUs.")
        return 0
    replicas = read_quantity(labels.get(REPLICAS_LABEL)) or 1
    if replicas <= 1 or gpus == 0:
        return gpus
    whole = math.floor(gpus / replicas)
    result.decide(
        each.place("metadata.labels"),
        f"the node shares each GPU {replicas} times and offers {gpus}; {whole} whole GPUs are counted.",
    )
    return whole


def _whole(each: KubernetesObject, path: str, value: Any) -> int:
    number = read_quantity(value)
    if number is None or number < 0:
        raise BadSource.at(each.place(path), "this is not a quantity such as 8, 500m or 64Gi.")
    return math.floor(number)
