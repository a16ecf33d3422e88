"""GPU workers from the annotations of their pods, and the status of a GPU quota object. Plain JSON in, values out.

Source: tensorfusion-quota.md, sections 8 and 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pools.domain.gpu_quota.workers import MAX_GPUS, NO_AMOUNTS, GpuAmounts, GpuWorker
from pools.domain.quantities import ZERO, InvalidQuantity, Quantity, parse_quantity
from scheduling.domain.cluster.naming import TASK_UUID, pod_name, read_uuid_label
from scheduling.domain.kubernetes_json import ReadOnlyObject, read_texts

TENSOR_FUSION_PREFIX = "tensor-fusion.ai/"
WORKER_LABEL, WORKER_VALUE = f"{TENSOR_FUSION_PREFIX}component", "worker"
WORKER_SELECTOR = f"{WORKER_LABEL}={WORKER_VALUE}"
AMOUNT_ANNOTATIONS = tuple(
    f"{TENSOR_FUSION_PREFIX}{name}"
    for name in (
        "tflops-request",
        "tflops-limit",
        "compute-percent-request",
        "compute-percent-limit",
        "vram-request",
        "vram-limit",
        "gpu-count",
    )
)
"""The annotations that decide how much a worker counts."""

FINALIZER = f"{TENSOR_FUSION_PREFIX}finalizer"


@dataclass(frozen=True, slots=True)
class GpuPod:
    """The pod of a worker. `is_counted`: it has a node and its GPUs and still exists; before that it may be reserved
    for."""

    namespace: str
    uid: str
    workload: str
    worker: GpuWorker
    is_counted: bool


def is_worker(pod: ReadOnlyObject) -> bool:
    """Whether a pod has the label of a worker."""
    return read_texts(pod, "labels").get(WORKER_LABEL) == WORKER_VALUE


def claimed_task(pod: ReadOnlyObject) -> UUID | None:
    """The task whose pod this claims to be, by its label and its name. Anybody can write both, so the claim alone
    proves nothing."""
    task = read_uuid_label(read_texts(pod, "labels"), TASK_UUID)
    metadata = pod.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return task if task is not None and name == pod_name(task) else None


def read_gpu_pod(pod: ReadOnlyObject) -> GpuPod | None:
    """The worker of a pod; None if the pod is not a worker, or its number of GPUs is not valid."""
    if not is_worker(pod):
        return None
    metadata, annotations = pod["metadata"], read_texts(pod, "annotations")
    count = _count(annotations.get(f"{TENSOR_FUSION_PREFIX}gpu-count", ""))
    if count is None:
        return None
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    return GpuPod(
        namespace=str(metadata.get("namespace") or ""),
        uid=str(metadata.get("uid") or ""),
        workload=read_texts(pod, "labels").get(f"{TENSOR_FUSION_PREFIX}workload") or name,
        worker=GpuWorker(_amounts(annotations, "request"), _amounts(annotations, "limit"), count),
        is_counted=_is_bound(pod)
        and bool(annotations.get(f"{TENSOR_FUSION_PREFIX}gpu-ids"))
        and not _is_gone(metadata),
    )


def trim_worker_pod(pod: ReadOnlyObject) -> dict[str, Any]:
    """The part of a pod that :func:`read_gpu_pod` needs, so that long lists use less memory."""
    metadata = pod["metadata"]
    trimmed = {
        key: metadata[key]
        for key in ("name", "generateName", "namespace", "uid", "resourceVersion", "deletionTimestamp", "finalizers")
        if key in metadata
    }
    for key in ("labels", "annotations"):
        trimmed[key] = {
            name: value
            for name, value in read_texts(pod, key).items()
            if name.startswith(TENSOR_FUSION_PREFIX) or name == TASK_UUID
        }
    return {"metadata": trimmed, "spec": {"nodeName": (pod.get("spec") or {}).get("nodeName")}}


def _count(text: str) -> int | None:
    if not text:
        return 1
    is_valid = text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= MAX_GPUS
    return int(text) if is_valid else None


def _amounts(annotations: Mapping[str, str], side: str) -> GpuAmounts:
    """The amounts of one side. Invalid values count as nothing; TFLOPS and a percentage of a GPU contradict each
    other."""
    if annotations.get(f"{TENSOR_FUSION_PREFIX}tflops-{side}") and annotations.get(
        f"{TENSOR_FUSION_PREFIX}compute-percent-{side}"
    ):
        return NO_AMOUNTS
    return GpuAmounts(_amount(annotations, f"tflops-{side}"), _amount(annotations, f"vram-{side}"))


def _amount(annotations: Mapping[str, str], key: str) -> Quantity:
    try:
        return parse_quantity(annotations.get(f"{TENSOR_FUSION_PREFIX}{key}", ""))
    except InvalidQuantity:
        return ZERO


def _is_bound(pod: ReadOnlyObject) -> bool:
    return bool((pod.get("spec") or {}).get("nodeName"))


def _is_gone(metadata: ReadOnlyObject) -> bool:
    return bool(metadata.get("deletionTimestamp")) and FINALIZER not in (metadata.get("finalizers") or [])


def format_time(time: datetime) -> str:
    """A time as Kubernetes writes it: whole seconds, UTC."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def object_status_body(status: Mapping[str, Any]) -> dict[str, Any]:
    """Our status with times as Kubernetes writes them; an absent time is left out."""
    found = dict(status)
    found["conditions"] = [
        {**condition, "lastTransitionTime": format_time(condition["lastTransitionTime"])}
        for condition in status["conditions"]
    ]
    updated = found.pop("lastUpdateTime", None)
    return found if updated is None else {**found, "lastUpdateTime": format_time(updated)}


def refused_status_body(reason: str, message: str, since: str) -> dict[str, Any]:
    """The status of an object that is not in force: one condition with the reason."""
    condition = {"type": "Ready", "status": "False", "reason": reason, "message": message, "lastTransitionTime": since}
    return {"conditions": [condition]}
