"""A GPU worker as its pod tells it by annotations, and a quota's status as its object carries it. Plain JSON in, values
out.

Source: tensorfusion-quota.md, sections 8 and 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pools.domain.gpu_quota.workers import MAX_GPUS, NO_AMOUNTS, GpuAmounts, GpuWorker
from pools.domain.quantities import ZERO, InvalidQuantity, Quantity, parse_quantity
from scheduling.domain.cluster.naming import TASK_UUID, read_uuid_label
from scheduling.domain.kubernetes_json import ReadOnlyObject

TENSOR_FUSION_PREFIX = "tensor-fusion.ai/"
WORKER_LABEL, WORKER_VALUE = f"{TENSOR_FUSION_PREFIX}component", "worker"
WORKER_SELECTOR = f"{WORKER_LABEL}={WORKER_VALUE}"
FINALIZER = f"{TENSOR_FUSION_PREFIX}finalizer"


@dataclass(frozen=True, slots=True)
class GpuPod:
    """A worker's pod. `counts`: it is on a node, has its GPUs, and is not gone; until then it may be reserved for."""

    namespace: str
    uid: str
    workload: str
    worker: GpuWorker
    is_counted: bool


def is_worker(pod: ReadOnlyObject) -> bool:
    """Whether a pod is a worker of the namespace's own. Pods of our workflows are counted with their workflows."""
    labels = _texts(pod, "labels")
    return labels.get(WORKER_LABEL) == WORKER_VALUE and read_uuid_label(labels, TASK_UUID) is None


def read_gpu_pod(pod: ReadOnlyObject) -> GpuPod | None:
    """The worker that a pod is; None when it is none, or names a number of GPUs that nobody can mean."""
    if not is_worker(pod):
        return None
    metadata, marks = pod["metadata"], _texts(pod, "annotations")
    count = _count(marks.get(f"{TENSOR_FUSION_PREFIX}gpu-count", ""))
    if count is None:
        return None
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    return GpuPod(
        namespace=str(metadata.get("namespace") or ""),
        uid=str(metadata.get("uid") or ""),
        workload=_texts(pod, "labels").get(f"{TENSOR_FUSION_PREFIX}workload") or name,
        worker=GpuWorker(_amounts(marks, "request"), _amounts(marks, "limit"), count),
        is_counted=_is_bound(pod) and bool(marks.get(f"{TENSOR_FUSION_PREFIX}gpu-ids")) and not _is_gone(metadata),
    )


def trim_worker_pod(pod: ReadOnlyObject) -> dict[str, Any]:
    """What :func:`read_pod` needs of a pod, so that a long list need not be held whole."""
    metadata = pod["metadata"]
    kept = {
        key: metadata[key]
        for key in ("name", "generateName", "namespace", "uid", "resourceVersion", "deletionTimestamp", "finalizers")
        if key in metadata
    }
    for key in ("labels", "annotations"):
        kept[key] = {
            name: value
            for name, value in _texts(pod, key).items()
            if name.startswith(TENSOR_FUSION_PREFIX) or name == TASK_UUID
        }
    return {"metadata": kept, "spec": {"nodeName": (pod.get("spec") or {}).get("nodeName")}}


def _count(text: str) -> int | None:
    if not text:
        return 1
    good = text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= MAX_GPUS
    return int(text) if good else None


def _amounts(marks: Mapping[str, str], side: str) -> GpuAmounts:
    """What cannot be read counts as nothing; TFLOPS beside a percentage of a GPU contradict one another."""
    if marks.get(f"{TENSOR_FUSION_PREFIX}tflops-{side}") and marks.get(f"{TENSOR_FUSION_PREFIX}compute-percent-{side}"):
        return NO_AMOUNTS
    return GpuAmounts(_amount(marks, f"tflops-{side}"), _amount(marks, f"vram-{side}"))


def _amount(marks: Mapping[str, str], key: str) -> Quantity:
    try:
        return parse_quantity(marks.get(f"{TENSOR_FUSION_PREFIX}{key}", ""))
    except InvalidQuantity:
        return ZERO


def _is_bound(pod: ReadOnlyObject) -> bool:
    return bool((pod.get("spec") or {}).get("nodeName"))


def _is_gone(metadata: ReadOnlyObject) -> bool:
    return bool(metadata.get("deletionTimestamp")) and FINALIZER not in (metadata.get("finalizers") or [])


def _texts(item: ReadOnlyObject, key: str) -> dict[str, str]:
    found = (item.get("metadata") or {}).get(key)
    return {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, Mapping) else {}


def format_time(moment: datetime) -> str:
    """A time as Kubernetes writes it: whole seconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def object_status_body(status: Mapping[str, Any]) -> dict[str, Any]:
    """A status of ours with its times as Kubernetes writes them; an absent time is left out."""
    found = dict(status)
    found["conditions"] = [
        {**condition, "lastTransitionTime": format_time(condition["lastTransitionTime"])}
        for condition in status["conditions"]
    ]
    updated = found.pop("lastUpdateTime", None)
    return found if updated is None else {**found, "lastUpdateTime": format_time(updated)}


def refused_status_body(reason: str, message: str, since: str) -> dict[str, Any]:
    """The status of an object that is not in force: the one condition that says why."""
    condition = {"type": "Ready", "status": "False", "reason": reason, "message": message, "lastTransitionTime": since}
    return {"conditions": [condition]}
