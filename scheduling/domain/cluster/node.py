"""From a node of the API server to a node of the ledger, and the usage of other software's pods on it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pools.domain.configuration.flavors import GPU_RESOURCE, Flavor
from pools.domain.values.amounts import DEFAULT_FLAVOR
from scheduling.domain.cluster.claims import (
    GPU_DRIVER,
    Device,
    claimed_devices,
    count_listed_gpus,
    devices_by_claim,
)
from scheduling.domain.cluster.devices import (
    GpuOffer,
    asks_for_uncounted_devices,
    device_notes,
    read_gpu_count,
    read_gpu_offer,
)
from scheduling.domain.cluster.naming import INSTALLATION_LABEL, PLATFORM, TASK_UUID
from scheduling.domain.cluster.pods.pod_status import ENDED_PHASES
from scheduling.domain.cluster.quantities import read_quantity
from scheduling.domain.kubernetes_json import ReadOnlyObject, read_texts

_MAX_COUNT, _MAX_BYTES = 2**31 - 1, 2**63 - 1
"""The most that the columns of nodes keep."""


@dataclass(frozen=True, slots=True)
class NodeAmounts:
    """GPUs, cores, bytes."""

    gpus: int = 0
    cpu: int = 0
    memory_bytes: int = 0
    storage_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ForeignUsage(NodeAmounts):
    """The amounts that foreign pods hold on a node by their requests, and sentences about what is in no amount.
    `claimed_gpus` of the `listed_gpus` that Kubernetes' dynamic resource allocation gives away there are held by
    ResourceClaims."""

    notes: list[str] = field(default_factory=list)
    claimed_gpus: int = 0
    listed_gpus: int = 0


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """The capacity that a node offers to pods (its allocatable part, rounded down). `ready`: the node is healthy, and
    pods of ours may start on it. `taint` names the taints that somebody set and by which none of our pods starts there;
    `gpu_pods_only`: a taint keeps those without GPUs away. `conditions` are the names of the conditions that are true.
    `barriers` and `device_notes` are sentences for people about what keeps our pods away, and about what the amounts
    do not say. A node that shares its GPUs has `advertised_gpus`
    (:class:`scheduling.domain.cluster.devices.GpuOffer`)."""

    name: str
    platform: str
    amounts: NodeAmounts
    ready: bool
    conditions: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    barriers: tuple[str, ...] = ()
    device_notes: tuple[str, ...] = ()
    taint: str = ""
    gpu_pods_only: bool = False
    physical_gpus: int | None = None
    advertised_gpus: int | None = None
    allocatable: ReadOnlyObject = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """Everything that is said of the node."""
        return (*self.barriers, *self.device_notes)

    @property
    def is_possible(self) -> bool:
        """Whether a machine may have these amounts; anybody who may write a node's status or labels can claim any."""
        counts = (self.amounts.gpus, self.amounts.cpu, self.physical_gpus or 0, self.advertised_gpus or 0)
        bytes_ = (self.amounts.memory_bytes, self.amounts.storage_bytes)
        return max(counts) <= _MAX_COUNT and max(bytes_) <= _MAX_BYTES


def read_node(node: ReadOnlyObject) -> ClusterNode:
    """The node of the ledger. Its platform is the value of its label `osmo.platform`, `default` without one."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    labels = metadata.get("labels") or {}
    true_conditions = tuple(each["type"] for each in status.get("conditions") or [] if each.get("status") == "True")
    cordoned = bool(spec.get("unschedulable"))
    is_healthy, is_leaving = "Ready" in true_conditions, bool(metadata.get("deletionTimestamp"))
    taints = tuple(
        {key: str(taint[key]) for key in ("key", "value", "effect") if taint.get(key)}
        for taint in spec.get("taints") or []
    )
    barriers = [taint for taint in taints if _keeps_away(taint)]
    allocatable = status.get("allocatable") or {}
    notes = [
        *(["the node is not ready"] if not is_healthy else []),
        *(["the node is being deleted"] if is_leaving else []),
        *(["the node is cordoned: no new pods start here"] if cordoned else []),
        *(_taint_note(taint) for taint in barriers if not (cordoned and taint["key"] == _CORDON_TAINT)),
    ]
    is_open = is_healthy and not cordoned and not is_leaving
    read = ClusterNode(
        name=metadata["name"],
        platform=labels.get(PLATFORM) or "default",
        amounts=_amounts(allocatable, math.floor),
        ready=is_open and all(taint["key"] == GPU_RESOURCE for taint in barriers),
        conditions=true_conditions + (("SchedulingDisabled",) if cordoned else ()),
        labels=dict(labels),
        taints=taints,
        barriers=tuple(notes),
        taint=", ".join(_taint_text(each) for each in barriers if _is_set_by_people(each["key"])),
        gpu_pods_only=any(each["key"] == GPU_RESOURCE for each in barriers),
        allocatable=allocatable,
    )
    return _with_offer(read, read_gpu_offer(labels, allocatable))


def count_in_flavor(node: ClusterNode, flavor: Flavor | None) -> ClusterNode:
    """A node with the GPUs that count in its flavor, None for `default`, where the backend names flavors: parts of GPUs
    and whole ones are never counted together."""
    is_of_parts = flavor is not None and flavor.is_of_parts
    offer = read_gpu_offer(node.labels, node.allocatable, is_flavor_of_parts=is_of_parts)
    return _with_offer(node, offer, flavor.name if flavor is not None else DEFAULT_FLAVOR)


def _with_offer(node: ClusterNode, offer: GpuOffer, flavor: str | None = None) -> ClusterNode:
    return replace(
        node,
        amounts=replace(node.amounts, gpus=offer.whole),
        physical_gpus=offer.physical,
        advertised_gpus=offer.advertised,
        device_notes=tuple(device_notes(offer, node.labels, node.allocatable, flavor)),
    )


_SHARED_GPU_LABEL = "runai-gpu-group"
"""KAI writes it on a pod that shares a GPU; a pod of its own then holds the whole GPU."""

_CORDON_TAINT = "node.kubernetes.io/unschedulable"
# Kubernetes sets and removes these taints with the state of a node.
_OF_STATE = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
# Kubernetes adds this toleration to every pod with a request.
_ALWAYS_TOLERATED = "node.kubernetes.io/memory-pressure"


def _keeps_away(taint: Mapping[str, str]) -> bool:
    """Whether a taint keeps some pods of ours from starting; :func:`scheduling.domain.cluster.pods.pod.pod_manifest`
    gives pods with GPUs one toleration."""
    return taint.get("effect") in {"NoSchedule", "NoExecute"} and taint.get("key") != _ALWAYS_TOLERATED


def _is_set_by_people(key: str) -> bool:
    """Whether a taint that keeps pods away stands until somebody removes it, and keeps our pods with GPUs away too."""
    return key != GPU_RESOURCE and not key.startswith(_OF_STATE)


def _taint_text(taint: Mapping[str, str]) -> str:
    return f"{taint['key']}={taint['value']}" if "value" in taint else taint["key"]


def _taint_note(taint: Mapping[str, str]) -> str:
    name = _taint_text(taint)
    if taint["key"] == GPU_RESOURCE:
        return f"taint {name}: only our pods with GPUs start here"
    return f"taint {name}: our pods do not start here"


def foreign_usage_by_node(
    pods: Iterable[ReadOnlyObject],
    installation: str,
    namespace: str,
    *,
    counted: Collection[str] | None = None,
    device_lists: Iterable[ReadOnlyObject] = (),
    claims: Iterable[ReadOnlyObject] = (),
) -> dict[str, ForeignUsage]:
    """The requests of pods of other software by node, rounded up; ended pods count for nothing. A pod is ours in our
    `namespace` only: anybody can write our label elsewhere. `counted` are the ids of the attempts whose pods the ledger
    counts, None for all: a pod with our labels that it does not know holds its GPUs, too. `device_lists` are the
    cluster's ResourceSlices, `claims` its ResourceClaims."""
    sums: defaultdict[str, list[Any]] = defaultdict(lambda: [0] * len(_NAMES))
    claimers, parts, devices = Counter[str](), Counter[str](), defaultdict[str, Counter[str]](Counter)
    devices_of, listed = devices_by_claim(claims), Counter[str]()
    claimed: defaultdict[str, set[Device]] = defaultdict(set)  # pods may share a claim
    for pod in pods:
        spec = pod.get("spec") or {}
        node = spec.get("nodeName")
        ended = (pod.get("status") or {}).get("phase") in ENDED_PHASES
        metadata = pod["metadata"]
        labels = metadata.get("labels") or {}
        is_ours = (
            metadata.get("namespace") == namespace
            and labels.get(INSTALLATION_LABEL) == installation
            and (counted is None or labels.get(TASK_UUID) in counted)
        )
        if not node or ended or is_ours:
            continue
        claimers[node] += bool(spec.get("resourceClaims"))
        claimed[node] |= claimed_devices(pod, devices_of)
        parts[node] += _holds_unreserved_part(metadata)
        for position, amount in enumerate(_request_or_nothing(spec)):
            sums[node][position] += amount
    for each in device_lists:
        spec = each.get("spec") or {}
        if node := spec.get("nodeName"):
            devices[node][spec.get("driver") or "a driver"] += len(spec.get("devices") or [])
            listed[node] += count_listed_gpus(each)
    found = {}
    for node in sums.keys() | devices.keys():
        of_node = map(min, map(math.ceil, sums[node]), (_MAX_COUNT, _MAX_COUNT, _MAX_BYTES, _MAX_BYTES))
        gpus, cpu, memory, storage = (max(0, amount) for amount in of_node)
        held = len(claimed[node])
        notes = [*_dynamic_notes(devices[node], claimers[node], held), *_part_notes(parts[node])]
        found[node] = ForeignUsage(gpus, cpu, memory, storage, notes, held, listed[node])
    return found


def _request_or_nothing(spec: ReadOnlyObject) -> list[Any]:
    """The request of a pod; of one whose form nobody expected nothing is known, and the others count."""
    try:
        return pod_request(spec)
    except (AttributeError, TypeError, ValueError):
        return []


def gpus_of_others(node: ClusterNode, requested: int, usage: ForeignUsage = ForeignUsage()) -> int:
    """The GPUs of a node that foreign pods hold: by their requests, and by claims of devices that the node offers as
    GPUs, too. A device plugin does not know of claims, so such a GPU would count as free."""
    if node.advertised_gpus is not None:
        return min(requested, node.amounts.gpus)  # its other pods hold parts
    physical = read_gpu_count(node.labels) or max(node.amounts.gpus, usage.listed_gpus)
    offered_twice = max(0, node.amounts.gpus + usage.listed_gpus - physical)
    return min(requested + min(usage.claimed_gpus, offered_twice), _MAX_COUNT)


def _dynamic_notes(devices: Mapping[str, int], claims: int, gpus: int) -> Iterator[str]:
    for driver, number in sorted(devices.items()):
        yield f"{number} devices of {driver} in ResourceSlices: not counted, and our work cannot ask for them"
    if claims:
        holders = "1 other pod holds" if claims == 1 else f"{claims} other pods hold"
        if gpus:
            yield f"{holders} {gpus} GPU{'s' * (gpus != 1)} of {GPU_DRIVER} by ResourceClaims"
        else:
            yield f"{holders} devices by ResourceClaims, which are not counted"


def _holds_unreserved_part(metadata: ReadOnlyObject) -> bool:
    """Whether a pod asks for a part of a GPU that KAI has not reserved by a pod of its own, which would be counted."""
    asks = any(map(asks_for_uncounted_devices, metadata.get("annotations") or ()))
    return asks and _SHARED_GPU_LABEL not in (metadata.get("labels") or {})


def _part_notes(pods: int) -> Iterator[str]:
    if pods:
        askers = "1 other pod asks" if pods == 1 else f"{pods} other pods ask"
        yield f"{askers} for parts of GPUs by annotations, which are not counted"


def trim_pod(pod: ReadOnlyObject) -> dict[str, Any]:
    """The part of a pod that :func:`foreign_usage_by_node` needs; clusters have many pods, and pods are large."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    return {
        "metadata": {key: pod["metadata"].get(key) for key in ("namespace", "labels")}
        | {"annotations": dict.fromkeys(filter(asks_for_uncounted_devices, read_texts(pod, "annotations")), "")},
        "spec": {
            "nodeName": spec.get("nodeName"),
            "overhead": spec.get("overhead"),
            "resources": spec.get("resources"),
            "resourceClaims": spec.get("resourceClaims"),
            **{
                kind: [
                    {"resources": each.get("resources"), "restartPolicy": each.get("restartPolicy")}
                    for each in spec.get(kind) or []
                ]
                for kind in ("containers", "initContainers")
            },
        },
        "status": {key: status[key] for key in ("phase", "resourceClaimStatuses") if key in status},
    }


_NAMES = (GPU_RESOURCE, "cpu", "memory", "ephemeral-storage")


def pod_request(spec: ReadOnlyObject) -> list[Any]:
    """The request of a pod as Kubernetes counts it, with the overhead of the pod.

    Init containers run one after another, before the containers; those with `restartPolicy: Always` stay. So each init
    container needs its own request and those of the ones before it that stay. Requests of the pod itself replace the
    sums of its containers, a limit of it only a sum that is nothing.
    """
    staying, largest = [0] * len(_NAMES), [0] * len(_NAMES)
    for container in spec.get("initContainers") or []:
        with_it = _add(staying, _requests(container))
        largest = [max(pair) for pair in zip(largest, with_it, strict=True)]
        if container.get("restartPolicy") == "Always":
            staying = with_it
    together = staying
    for container in spec.get("containers") or []:
        together = _add(together, _requests(container))
    needed = [max(pair) for pair in zip(together, largest, strict=True)]
    of_pod, limits = _given(spec, "requests"), _given(spec, "limits")
    needed = [
        own if (own := of_pod[name]) is not None else amount or limits[name] or 0
        for name, amount in zip(_NAMES, needed, strict=True)
    ]
    return _add(needed, [read_quantity((spec.get("overhead") or {}).get(name)) or 0 for name in _NAMES])


def _add(one: list[Any], other: list[Any]) -> list[Any]:
    return [a + b for a, b in zip(one, other, strict=True)]


def _requests(container: ReadOnlyObject) -> list[Any]:
    """The requests of a container; a limit alone is a request."""
    return [amount or 0 for amount in _given(container, "limits", "requests").values()]


def _given(holder: ReadOnlyObject, *keys: str) -> dict[str, Any]:
    """The amounts of a container or of a pod by resource, None where none is given; a later key is stronger."""
    resources, found = holder.get("resources") or {}, dict[str, Any]()
    for key in keys:
        found |= resources.get(key) or {}
    return {name: read_quantity(found.get(name)) for name in _NAMES}


def _amounts(source: ReadOnlyObject, rounded: Any) -> NodeAmounts:
    return NodeAmounts(*(max(0, rounded(read_quantity(source.get(name)) or 0)) for name in _NAMES))
