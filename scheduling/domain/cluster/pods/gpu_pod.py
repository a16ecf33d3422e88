"""GPU workers from the annotations of their pods, and the status of a GPU quota object. Plain JSON in, values out.

The texts are read by the reader of the API, so a text has one meaning whichever way it comes.
Source: design, G6, G7, G8; docs/gpu-quota.md, "Kubernetes".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pools.domain.errors import Fault, Violation
from pools.domain.gpu_quota.checks import GpuQuotaSpec
from pools.domain.gpu_quota.workers import MAX_GPUS, GpuWorker, WorkerKeys, parse_worker, read_quantity
from pools.domain.structured_input.fields import FieldReader
from pools.domain.values.quantities import THOUSAND
from scheduling.domain.cluster.naming import TASK_UUID, pod_name, read_uuid_label
from scheduling.domain.kubernetes_json import ReadOnlyObject, read_texts

TENSOR_FUSION_PREFIX = "tensor-fusion.ai/"
WORKER_LABEL, WORKER_VALUE = f"{TENSOR_FUSION_PREFIX}component", "worker"
WORKER_SELECTOR = f"{WORKER_LABEL}={WORKER_VALUE}"
_SIDES = ("request", "limit")
_KEYS = WorkerKeys(
    request=(f"{TENSOR_FUSION_PREFIX}tflops-request", f"{TENSOR_FUSION_PREFIX}vram-request"),
    limit=(f"{TENSOR_FUSION_PREFIX}tflops-limit", f"{TENSOR_FUSION_PREFIX}vram-limit"),
    count=f"{TENSOR_FUSION_PREFIX}gpu-count",
)
_TFLOPS = {"request": _KEYS.request[0], "limit": _KEYS.limit[0]}
_PERCENT = {side: f"{TENSOR_FUSION_PREFIX}compute-percent-{side}" for side in _SIDES}
AMOUNT_ANNOTATIONS = (*_KEYS.request, *_KEYS.limit, _KEYS.count, *_PERCENT.values())
"""The annotations that decide how much a worker counts."""

GPU_IDS = f"{TENSOR_FUSION_PREFIX}gpu-ids"
FINALIZER = f"{TENSOR_FUSION_PREFIX}finalizer"
"""The code of a percentage of a GPU in a namespace with a cap on TFLOPS."""


@dataclass(frozen=True, slots=True)
class GpuPod:
    """The pod of a worker. `is_counted`: it has a node and its GPUs and still exists; before that it may be reserved
    for.

    `faults` are the annotations that cannot be read. In `worker` such an amount is 0, as if it were missing, and such a
    number of GPUs is that of the GPUs that the pod has. `percents` are the sides (`request`, `limit`) whose compute is
    a percentage of a GPU.
    """

    namespace: str
    uid: str
    workload: str
    worker: GpuWorker
    is_counted: bool
    faults: tuple[Violation, ...] = ()
    percents: tuple[str, ...] = ()

    @property
    def uncounted(self) -> tuple[str, ...]:
        """The annotations, without their prefix, that say an amount that is not counted."""
        unread = [fault.path for fault in self.faults]
        found = dict.fromkeys([*unread, *(_PERCENT[side] for side in self.percents)])
        return tuple(name.removeprefix(TENSOR_FUSION_PREFIX) for name in found)

    def unread_violations(self) -> list[Violation]:
        """The faults, each with the path of its annotation in the pod."""
        return [replace(fault, path=_path_of(fault.path)) for fault in self.faults]

    def percent_violations(self, spec: GpuQuotaSpec) -> list[Violation]:
        """The percentages that a cap on TFLOPS of this quota forbids: a pod without a node has no GPU yet whose TFLOPS
        could be counted."""
        return [
            Violation(
                _path_of(_PERCENT[side]),
                Fault.PERCENT_UNDER_CAP,
                f"{_PERCENT[side]} is a percentage of a GPU, and this namespace has a cap on the TFLOPS of each "
                f"{side}. Give {_TFLOPS[side]} instead.",
            )
            for side in self.percents
            if _caps_tflops(spec, side)
        ]

    def percent_warnings(self) -> list[str]:
        """What is not counted where no cap forbids it."""
        return [
            f"{_PERCENT[side]} is a percentage of a GPU, so the GPU quota counts no TFLOPS for it."
            for side in self.percents
        ]


def is_worker(pod: ReadOnlyObject) -> bool:
    """Whether a pod has the label of a worker."""
    return read_texts(pod, "labels").get(WORKER_LABEL) == WORKER_VALUE


def given_up(old: ReadOnlyObject, new: ReadOnlyObject) -> list[str]:
    """The marks by which a worker on a node is counted, and which a change takes off it: it would keep its GPUs and
    count less. A number of GPUs below that of its `gpu-ids` is one of them, and a smaller amount of each GPU: the
    annotation says what was allocated, and to write another one there gives nothing back."""
    before, after = read_gpu_pod(old), read_gpu_pod(new)
    if before is None or not before.is_counted:
        return []
    found = [] if after is not None else [f"metadata.labels[{WORKER_LABEL}]"]
    gpus = len(set(filter(None, read_texts(new, "annotations").get(GPU_IDS, "").split(","))))
    if not gpus:
        found.append(_path_of(GPU_IDS))
    elif after is not None and after.worker.count < min(before.worker.count, gpus):
        found.append(_path_of(_KEYS.count))
    if after is not None:
        unread = {fault.path for fault in after.faults}  # refused as such
        found += [_path_of(key) for key in _smaller_amounts(before.worker, after.worker) if key not in unread]
    return found


def _smaller_amounts(before: GpuWorker, after: GpuWorker) -> list[str]:
    """The annotations whose amount of each GPU is smaller."""
    keys = (*_KEYS.request, *_KEYS.limit)
    was, becomes = (*before.request.millis, *before.limit.millis), (*after.request.millis, *after.limit.millis)
    return [key for key, old, new in zip(keys, was, becomes, strict=True) if new < old]


def claimed_task(pod: ReadOnlyObject) -> UUID | None:
    """The task whose pod this claims to be, by its label and its name. Anybody can write both, so the claim alone
    proves nothing."""
    task = read_uuid_label(read_texts(pod, "labels"), TASK_UUID)
    metadata = pod.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return task if task is not None and name == pod_name(task) else None


def read_gpu_pod(pod: ReadOnlyObject) -> GpuPod | None:
    """The worker of a pod, with every fault in its annotations; None if the pod is not a worker."""
    if not is_worker(pod):
        return None
    metadata, annotations = pod["metadata"], read_texts(pod, "annotations")
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    worker, faults = parse_worker(annotations, _KEYS)
    faults = [*_faults_of_form(metadata), *faults]
    percents = _read_percents(annotations, worker, faults)
    gpu_ids = annotations.get(GPU_IDS, "")
    if any(fault.path == _KEYS.count for fault in faults):
        worker = replace(worker, count=min(MAX_GPUS, max(1, len(set(filter(None, gpu_ids.split(",")))))))
    return GpuPod(
        namespace=str(metadata.get("namespace") or ""),
        uid=str(metadata.get("uid") or ""),
        workload=read_texts(pod, "labels").get(f"{TENSOR_FUSION_PREFIX}workload") or name,
        worker=worker,
        is_counted=_is_bound(pod) and bool(gpu_ids) and not _is_gone(metadata),
        faults=tuple(faults),
        percents=percents,
    )


def has_same_amounts(one: ReadOnlyObject, other: ReadOnlyObject) -> bool:
    """Whether two workers request the same: amounts in any spelling, but what cannot be read in the same one."""
    before, after = read_gpu_pod(one), read_gpu_pod(other)
    if before is None or after is None:
        return False
    if not after.worker.is_same_size(before.worker) or after.percents != before.percents:
        return False
    return not after.faults or _amount_texts(one) == _amount_texts(other)


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


def _faults_of_form(metadata: ReadOnlyObject) -> list[Violation]:
    """An annotation of an amount that is not a text. An API server stores none, but anybody may send us a review."""
    given = metadata.get("annotations")
    texts = given if isinstance(given, Mapping) else {}
    wrong = [name for name in AMOUNT_ANNOTATIONS if name in texts and not isinstance(texts[name], str)]
    return [Violation(name, Fault.BAD_VALUE, f"{name} must be a text.") for name in wrong]


def _read_percents(annotations: Mapping[str, str], worker: GpuWorker, faults: list[Violation]) -> tuple[str, ...]:
    """The sides whose compute is a percentage above 0; faults are noted, also that of a pod that has TFLOPS too."""
    place = FieldReader(annotations, "", faults)
    tflops = [_TFLOPS[side] for side in _SIDES if getattr(worker, side).tflops.milli]
    found = []
    for side, key in _PERCENT.items():
        percent = read_quantity(place, key)
        if percent is None or not percent.milli:
            continue
        if percent.milli > 100 * THOUSAND:
            place.add_fault(key, Fault.BAD_VALUE, "must be a percentage of a GPU, from 0 to 100.")
        elif tflops:
            place.add_fault(key, Fault.TWO_WAYS, f"and {tflops[0]} both say how much compute the pod gets. Keep one.")
        else:
            found.append(side)
    return tuple(found)


def _caps_tflops(spec: GpuQuotaSpec, side: str) -> bool:
    is_request = side == "request"
    each = (spec.max_requests if is_request else spec.max_limits).tflops
    return spec.total_caps(f"{side}s").tflops is not None or (each is not None and each.milli > 0)


def _amount_texts(pod: ReadOnlyObject) -> list[str | None]:
    annotations = read_texts(pod, "annotations")
    return [annotations.get(name) for name in AMOUNT_ANNOTATIONS]


def _path_of(annotation: str) -> str:
    return f"metadata.annotations[{annotation}]"


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
