"""GPUs that pods hold by ResourceClaims (Kubernetes' dynamic resource allocation), in plain JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from scheduling.domain.kubernetes_json import ReadOnlyObject

GPU_DRIVER: Final = "gpu.nvidia.com"

Device = tuple[str, str]
"""The pool and the name of a device of :data:`GPU_DRIVER`."""


def devices_by_claim(claims: Iterable[ReadOnlyObject]) -> dict[tuple[str, str], frozenset[Device]]:
    """The GPUs that each claim, by its namespace and name, has. Devices with admin access are only looked at."""
    found = {}
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        results = (allocation.get("devices") or {}).get("results") or []
        devices = frozenset(
            (str(each.get("pool")), str(each.get("device")))
            for each in results
            if each.get("driver") == GPU_DRIVER and not each.get("adminAccess")
        )
        if devices:
            metadata = claim["metadata"]
            found[metadata.get("namespace", ""), metadata["name"]] = devices
    return found


def claimed_devices(pod: ReadOnlyObject, claims: Mapping[tuple[str, str], frozenset[Device]]) -> frozenset[Device]:
    """The GPUs that a pod has by its claims. The name of a claim that is made from a template is in its status."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    made = {each.get("name"): each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or []}
    names = {
        each.get("resourceClaimName") or made.get(each.get("name")) for each in spec.get("resourceClaims") or []
    } | set(made.values())
    namespace = pod["metadata"].get("namespace", "")
    return frozenset[Device]().union(*(claims.get((namespace, name), frozenset()) for name in names if name))


def count_listed_gpus(device_list: ReadOnlyObject) -> int:
    """The whole GPUs of a ResourceSlice."""
    spec = device_list.get("spec") or {}
    if spec.get("driver") != GPU_DRIVER:
        return 0
    return sum(_type_of(device) in {None, "gpu"} for device in spec.get("devices") or [])


def _type_of(device: ReadOnlyObject) -> Any:
    return ((device.get("attributes") or {}).get("type") or {}).get("string")


def trim_claim(claim: ReadOnlyObject) -> dict[str, Any]:
    """The part of a claim that :func:`devices_by_claim` needs."""
    metadata = claim["metadata"]
    allocation = (claim.get("status") or {}).get("allocation")
    return {
        "metadata": {key: metadata[key] for key in ("namespace", "name", "resourceVersion") if key in metadata},
        "status": {"allocation": allocation},
    }
