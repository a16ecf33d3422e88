"""Devices that are not whole GPUs: nodes that share their GPUs, and requests that are refused by their names, because
nothing counts them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pools.domain.configuration.flavors import (
    GPU_RESOURCE,
    PRODUCT_LABEL,
    SHARED_GPUS,
    SHARED_GPUS_WHOLE,
    read_label_count,
)
from scheduling.domain.cluster.quantities import read_quantity
from scheduling.domain.kubernetes_json import Object, ReadOnlyObject

_HOST_NAME = "kubernetes.io/hostname"
_STRATEGIES = {"time-slicing": "time slicing", "mps": "MPS"}

_PART_KEYS = frozenset(
    {"gpu-fraction", "gpu-fraction-limit", "gpu-fraction-num-devices", "gpu-memory", "gpu-memory-limit"}
)
"""Annotations by which KAI and its relatives give a pod a part of a GPU; some write a prefix before them."""

CLAIM_FIELDS = frozenset({"resourceClaims", "resourceClaimTemplates", "resources"})
"""Fields by which a manifest could ask for devices, other than the annotations that are counted."""


def asks_for_uncounted_devices(annotation: str) -> bool:
    """Whether an annotation of this name asks for a part of a GPU or for another vendor's device."""
    prefix, _, key = annotation.rpartition("/")
    return key in _PART_KEYS or key.startswith("mig-") or key == "gpu.shared" or (key == "gpu" and prefix != "")


@dataclass(frozen=True, slots=True)
class GpuOffer:
    """The GPUs that a node offers. `whole` are those that count: none of a node that shares its GPUs, unless its flavor
    is one of parts or, where the backend names no flavors, its label says that each part counts as a whole one, and
    none of a node with whole GPUs in a flavor of parts. `way` is how they are shared, empty if they are not;
    `physical` and `advertised` are then the GPUs that it has, None where its labels do not say, and the parts and GPUs
    that it advertises. `uncounted` are those that a pod of ours could ask for; `counts_parts`: `whole` are parts."""

    whole: int
    way: str = ""
    physical: int | None = None
    advertised: int | None = None
    uncounted: int = 0
    counts_parts: bool = False

    @property
    def text(self) -> str:
        """Both numbers of a node that shares its GPUs."""
        parts = f"{self.advertised} (shared by {self.way})"
        if self.physical is None:
            return f"GPUs advertised as {parts}"
        return f"{self.physical} GPU{'s' * (self.physical != 1)}, advertised as {parts}"


def read_gpu_offer(
    labels: Mapping[str, str], allocatable: ReadOnlyObject, *, is_flavor_of_parts: bool | None = None
) -> GpuOffer:
    """The GPUs of a node by its labels, which are those of NVIDIA's GPU feature discovery, and by what it offers to
    pods. `is_flavor_of_parts`: whether its flavor is one of parts (:attr:`Flavor.is_of_parts`); None if the backend
    names no flavors."""
    offered = _whole_number(allocatable, GPU_RESOURCE)
    devices, replicas = (read_label_count(labels.get(f"{GPU_RESOURCE}.{name}")) for name in ("count", "replicas"))
    renamed = _whole_number(allocatable, f"{GPU_RESOURCE}.shared")
    mig = sum(_whole_number(allocatable, name) for name in allocatable if name.startswith("nvidia.com/mig-"))
    product = labels.get(PRODUCT_LABEL, "")
    if offered and labels.get("nvidia.com/mig.strategy") == "single" and "-MIG-" in product:
        offer_way, physical = "MIG", None  # each part is a device of its own there, so nothing says how many GPUs
    elif (offered or renamed) and (
        replicas > 1 or product.endswith("-SHARED") or renamed or (devices and offered > devices)
    ):
        offer_way = _STRATEGIES.get(labels.get(f"{GPU_RESOURCE}.sharing-strategy", ""), "time slicing")
        physical = devices or (math.ceil((offered + renamed) / replicas) if replicas > 1 else None)
    elif is_flavor_of_parts and offered:
        return GpuOffer(0, "", offered, offered + mig, uncounted=offered)
    elif mig:  # all other GPUs are whole
        return GpuOffer(offered, "MIG", devices if devices > offered else None, offered + mig)
    else:
        return GpuOffer(offered)
    counts = labels.get(SHARED_GPUS) == SHARED_GPUS_WHOLE if is_flavor_of_parts is None else is_flavor_of_parts
    whole = offered if counts else 0
    return GpuOffer(whole, offer_way, physical, offered + renamed + mig, offered - whole, counts_parts=whole > 0)


def read_gpu_count(labels: Mapping[str, str]) -> int:
    """The GPUs that a node has by its label, 0 without one."""
    return read_label_count(labels.get(f"{GPU_RESOURCE}.count"))


def device_notes(
    offer: GpuOffer, labels: Mapping[str, str], allocatable: ReadOnlyObject, flavor: str | None = None
) -> Iterator[str]:
    """Sentences about devices that are not whole GPUs, or not among the GPUs that the node offers. `flavor` is that of
    the node where the backend names flavors."""
    devices = read_gpu_count(labels)
    if offer.uncounted and not offer.way:
        yield (
            f"{offer.uncounted} whole GPUs in the flavor {flavor}, which is one of parts: they do not count, and our "
            "pods with GPUs do not start here"
        )
    elif offer.uncounted:
        remedy = (
            f"the label {SHARED_GPUS}={SHARED_GPUS_WHOLE} of the node lets each part count as one"
            if flavor is None
            else f"a flavor whose nodes have the label {SHARED_GPUS}={SHARED_GPUS_WHOLE} lets each part count there"
        )
        yield (
            f"{offer.text}: parts are not whole GPUs, so they do not count and our pods with GPUs do not start here; "
            f"{remedy}"
        )
    elif offer.counts_parts:
        how = f"in the flavor {flavor}" if flavor is not None else f"as a whole GPU, as its label {SHARED_GPUS} says"
        yield f"{offer.text}: each part counts {how}"
    elif devices > offer.whole:
        yield f"{devices} GPU{'s' * (devices != 1)}, of which {offer.whole} are offered to pods as whole GPUs"
    for name, quantity in sorted(allocatable.items()):
        if "/" in name and name != GPU_RESOURCE and (amount := read_quantity(quantity)):
            yield f"{math.floor(amount)} {name}: not counted, and our work cannot ask for them"


@dataclass(frozen=True, slots=True)
class NodeLabels:
    """A node for :func:`avoid_shared_gpus`; `is_avoided`: it shares its GPUs, and none of them counts."""

    name: str
    labels: Mapping[str, str]
    is_avoided: bool


def avoid_shared_gpus(nodes: Iterable[NodeLabels]) -> list[Object]:
    """The match expressions of a node affinity by which pods with GPUs keep away from nodes whose parts do not count.
    They name the products that only such nodes have, so that a new node of the same kind is avoided, too; else the
    nodes."""
    nodes = list(nodes)
    of_others = {each.labels.get(PRODUCT_LABEL, "") for each in nodes if not each.is_avoided}
    products, names = set(), set()
    for each in nodes:
        if each.is_avoided:
            product = each.labels.get(PRODUCT_LABEL, "")
            if product and product not in of_others:
                products.add(product)
            else:
                names.add(each.labels.get(_HOST_NAME, each.name))
    found = [(PRODUCT_LABEL, products), (_HOST_NAME, names)]
    return [{"key": key, "operator": "NotIn", "values": sorted(values)} for key, values in found if values]


def _whole_number(amounts: ReadOnlyObject, name: str) -> int:
    return max(0, math.floor(read_quantity(amounts.get(name)) or 0))
