"""From the pods, PodGroups and Workloads of an observed cluster to the work that counts in pools.

A PodGroup of KAI is one piece of work with its pods, in the queue that it names. A pod without a PodGroup is work of
its own: in the queue of its label, else in its namespace. Pods that ask for no GPU and are in no PodGroup are no work
here. Work that KAI may not preempt is NORMAL, its other work LOW: here only LOW work goes over its quota. All other
work has its priority from the value of its class, as in an import.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from pools.domain.values.stored_text import as_storable
from scheduling.domain.cluster.devices import asks_for_uncounted_devices
from scheduling.domain.cluster.naming import POD_GROUP_OF_POD
from scheduling.domain.cluster.node import pod_request, trim_pod
from scheduling.domain.cluster.pods.pod_status import ENDED_PHASES, PodStatusReport, read_pod_status
from scheduling.domain.cluster.pods.timestamps import parse_time
from scheduling.domain.kubernetes_json import Object, ReadOnlyObject, read_texts
from scheduling.domain.observed.kueue_work import (
    WORKLOAD,
    WORKLOAD_ANNOTATION,
    cluster_queues,
    owner_uids,
    priority_of,
    read_workload,
)
from scheduling.domain.observed.readable import ObjectReader, require_form
from scheduling.domain.observed.seen_pods import FoundWork, SeenPod, SeenWork
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import TaskStatus

POD, POD_GROUP = "pod", "podgroup"
QUEUE_LABELS: Final = ("kai.scheduler/queue", "runai/queue")
NOT_PREEMPTIBLE: Final = 100
"""From this priority on KAI does not preempt, unless the PodGroup says otherwise."""

_CLASSES: Final = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
"""The priority classes that KAI brings."""
_DEFAULT_CLASS: Final = 50
DELETED_FIRST: Final = "it was deleted in the cluster before it ended; why, the cluster does not say"

_PREEMPTED: Final = "PreemptionByScheduler"
_SIGNALS: Final = frozenset({128 + 9, 128 + 15})
"""The exit codes of a process that was killed or asked to end."""
_MAX_NOTES: Final = 8
_GPU_NAME: Final = "nvidia.com/gpu"


def trim_observed_pod(pod: ReadOnlyObject, owner_label: str = "") -> Object:
    """The part of a pod that is read of an observed cluster."""
    trimmed, metadata, spec, status = trim_pod(pod), pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    annotations = read_texts(pod, "annotations")
    kept = {
        key: metadata[key]
        for key in (
            "name",
            "namespace",
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "resourceVersion",
        )
        if key in metadata
    }
    kept["labels"] = {
        key: text
        for key, text in read_texts(pod, "labels").items()
        if key in _POD_LABELS or key.endswith("-uid") or key == owner_label
    }
    kept["ownerReferences"] = [{"uid": each.get("uid")} for each in metadata.get("ownerReferences") or []]
    kept["annotations"] = {
        key: "" if asks_for_uncounted_devices(key) else text
        for key, text in annotations.items()
        if key in {POD_GROUP_OF_POD, WORKLOAD_ANNOTATION} or asks_for_uncounted_devices(key)
    }
    trimmed["metadata"] = kept
    trimmed["spec"] |= {key: spec[key] for key in ("priority", "priorityClassName") if key in spec}
    for container, full in zip(trimmed["spec"]["containers"], spec.get("containers") or [], strict=True):
        container["name"] = full.get("name")
    trimmed["status"] |= {
        key: status[key]
        for key in ("conditions", "reason", "message", "startTime", "containerStatuses")
        if key in status
    }
    return trimmed


_POD_LABELS: Final = frozenset({*QUEUE_LABELS, "runai-gpu-group", "kai.scheduler/preemptibility", "priorityClassName"})


def read_work(
    pods: Iterable[ReadOnlyObject],
    pod_groups: Iterable[ReadOnlyObject],
    workloads: Iterable[ReadOnlyObject] = (),
    local_queues: Iterable[ReadOnlyObject] = (),
    *,
    gone_groups: Iterable[ReadOnlyObject] = (),
    gone_workloads: Iterable[ReadOnlyObject] = (),
    priority_classes: Iterable[ReadOnlyObject] = (),
    owner_label: str = "",
    now: datetime,
) -> FoundWork:
    """All work in these objects. The value of `owner_label` names its owner. Of an object that is gone, with its last
    state, the work is found if that tells an end."""
    reader, normal = ObjectReader(), _default_value(priority_classes)
    gone_groups, gone_workloads = list(gone_groups), list(gone_workloads)
    gone = {str(each["metadata"]["uid"]) for each in (*gone_groups, *gone_workloads)}
    groups = {_full_name(each["metadata"]): each for each in (*gone_groups, *pod_groups)}  # a new one has the name
    of_kueue, owned = dict[str, ReadOnlyObject](), dict[str, str]()
    for each in (*gone_workloads, *workloads):
        uid = str(each["metadata"]["uid"])
        if (owners := reader.read(WORKLOAD, each, partial(_owner_uids, each))) is not None:
            of_kueue[uid] = each
            owned |= dict.fromkeys(owners, uid)
    named = {_full_name(each["metadata"]): workload for workload, each in of_kueue.items()}
    admitted: defaultdict[str, list[ReadOnlyObject]] = defaultdict(list)
    members: defaultdict[tuple[str, str], list[ReadOnlyObject]] = defaultdict(list)
    found: list[SeenWork | None] = []
    for pod in pods:
        name = read_texts(pod, "annotations").get(POD_GROUP_OF_POD, "")
        key = (str(pod["metadata"].get("namespace") or ""), name)
        if name and key in groups:
            members[key].append(pod)
            continue
        workload = reader.read(POD, pod, partial(_workload_of, pod, owned, named))
        if workload:
            admitted[workload].append(pod)
        elif workload is not None:
            found.append(reader.read_work(POD, pod, partial(_pod_work, pod, now, normal, owner_label)))
    for key, group in groups.items():
        found.append(reader.read_work(POD_GROUP, group, partial(_group_work, group, members[key], now, owner_label)))
    queues = dict[tuple[str, str], str]()
    for each in local_queues:
        queues |= reader.read("localqueue", each, partial(cluster_queues, [each])) or {}
    for uid, each in of_kueue.items():
        found.append(
            reader.read_work(
                WORKLOAD, each, partial(_workload_work, each, admitted[uid], queues, now, normal, owner_label)
            )
        )
    known = [replace(each, is_gone=True) if each.uid in gone else each for each in found if each is not None]
    works = sorted(
        (each for each in known if not each.is_gone or _tells_an_end(each)),
        key=lambda work: (work.created, work.namespace, work.name),
    )
    unread = tuple(each for each in reader.unread if each.uid not in gone)
    return FoundWork(tuple(works), unread)


def _tells_an_end(work: SeenWork) -> bool:
    return work.outcome is not None or bool(work.taken_away) or any(pod.status.is_finished for pod in work.pods)


def _default_value(classes: Iterable[ReadOnlyObject]) -> int:
    """The value of work without a class, as Kubernetes finds it."""
    defaults = [each.get("value") for each in classes if each.get("globalDefault") is True]
    return min((value for value in defaults if isinstance(value, int)), default=0)


def _workload_of(pod: ReadOnlyObject, owned: Mapping[str, str], named: Mapping[tuple[str, str], str]) -> str:
    """The uid of the Workload to which a pod belongs; empty for none."""
    name = read_texts(pod, "annotations").get(WORKLOAD_ANNOTATION)
    if name and (found := named.get((str(pod["metadata"].get("namespace") or ""), name))):
        return found
    return next((owned[uid] for uid in sorted(owner_uids(pod)) if uid in owned), "") if owned else ""


def _owner_uids(workload: ReadOnlyObject) -> set[str]:
    require_form(workload)
    return owner_uids(workload)


def _workload_work(
    item: ReadOnlyObject,
    pods: Sequence[ReadOnlyObject],
    queues: Mapping[tuple[str, str], str],
    now: datetime,
    normal: int,
    owner_label: str,
) -> SeenWork:
    seen, owner = (
        sorted((_seen_pod(pod, now) for pod in pods), key=lambda pod: pod.name),
        _owner(owner_label, item, *pods),
    )
    return read_workload(item, seen, queues, now=now, normal=normal, notes=_notes(pods), owner=owner)


def _owner(label: str, *items: ReadOnlyObject) -> str:
    """The owner that the first of these objects names that names one."""
    found = (read_texts(item, "labels").get(label) for item in items) if label else ()
    return next(filter(None, found), "")


def _pod_work(pod: ReadOnlyObject, now: datetime, normal: int, owner_label: str) -> SeenWork | None:
    seen, notes = _seen_pod(pod, now), _notes([pod])
    if not seen.gpus and not notes:
        return None
    labels, metadata = read_texts(pod, "labels"), pod["metadata"]
    queue = next((labels[key] for key in QUEUE_LABELS if labels.get(key)), "")
    of_kai = _priority(labels.get("kai.scheduler/preemptibility"), pod, labels.get("priorityClassName"))
    return SeenWork(
        POD,
        str(metadata["uid"]),
        str(metadata.get("namespace") or ""),
        str(metadata["name"]),
        queue or str(metadata.get("namespace") or ""),
        of_kai if queue else priority_of(pod.get("spec") or {}, normal),
        min(parse_time(metadata.get("creationTimestamp")) or now, now),
        (seen,),
        notes=notes,
        owner=_owner(owner_label, pod),
    )


def _group_work(group: ReadOnlyObject, pods: Sequence[ReadOnlyObject], now: datetime, owner_label: str) -> SeenWork:
    metadata, spec = group["metadata"], group.get("spec") or {}
    ordered = sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))
    minimum = spec.get("minMember")
    # Of a PodGroup with SubGroups all of them are needed, and its own minimum is ignored.
    is_whole = bool(spec.get("subGroups")) or not isinstance(minimum, int) or minimum >= len(ordered)
    return SeenWork(
        POD_GROUP,
        str(metadata["uid"]),
        str(metadata.get("namespace") or ""),
        str(metadata["name"]),
        str(spec.get("queue") or ""),
        _priority(spec.get("preemptibility"), ordered[0] if ordered else {}, spec.get("priorityClassName")),
        min(parse_time(metadata.get("creationTimestamp")) or now, now),
        tuple(_seen_pod(pod, now) for pod in ordered),
        None if is_whole else max(1, int(minimum or 1)),
        _notes(ordered),
        minimum if isinstance(minimum, int) else 0,
        owner=_owner(owner_label, group, *ordered),
    )


def _priority(preemptibility: object, pod: ReadOnlyObject, class_name: object) -> Priority:
    if preemptibility in {"preemptible", "non-preemptible"}:
        return Priority.LOW if preemptibility == "preemptible" else Priority.NORMAL
    number = _CLASSES.get(str(class_name)) if class_name else None
    if number is None:
        given = (pod.get("spec") or {}).get("priority")
        number = given if isinstance(given, int) and given else _DEFAULT_CLASS
    return Priority.NORMAL if number >= NOT_PREEMPTIBLE else Priority.LOW


def _seen_pod(pod: ReadOnlyObject, now: datetime) -> SeenPod:
    require_form(pod)
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    gpus, cpu, memory, storage = (max(0, math.ceil(amount)) for amount in pod_request(spec))
    node = str(spec.get("nodeName") or "")
    report = read_pod_status(pod, now=now)
    found, message, code = _running_status(node, status), "", None
    if has_ended(pod):
        # A cluster may keep a pod whose image or start failed: only its end is an end here.
        found = report.status if report.status is not None and report.status.is_finished else TaskStatus.FAILED
        message, code = report.message, report.exit_code
        if found in {TaskStatus.FAILED, TaskStatus.COMPLETED} and _was_deleted_first(pod, report):
            found, message, code = TaskStatus.FAILED_CANCELED, DELETED_FIRST, None
    started = report.started_at or parse_time(status.get("startTime"))
    return SeenPod(
        str(metadata["uid"]),
        str(metadata["name"]),
        gpus,
        cpu,
        memory,
        storage,
        found,
        node,
        started if node else None,
        message,
        code,
        bool(metadata.get("deletionTimestamp")),
    )


def _was_deleted_first(pod: ReadOnlyObject, report: PodStatusReport) -> bool:
    """Whether somebody asked for the deletion of a pod that ran, which then ended by the signal."""
    metadata = pod["metadata"]
    gone_by = parse_time(metadata.get("deletionTimestamp"))
    if gone_by is None or report.ended_at is None:
        return False
    asked = gone_by - timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    return report.ended_at > asked or (report.ended_at == asked and report.exit_code in _SIGNALS)


def _running_status(node: str, status: ReadOnlyObject) -> TaskStatus:
    """A pod with a node holds its GPUs, also while it pulls its image."""
    if not node:
        return TaskStatus.SCHEDULING
    return TaskStatus.RUNNING


def is_preempted(pod: ReadOnlyObject) -> bool:
    """Whether its scheduler has marked a pod as preempted."""
    return any(each.get("reason") == _PREEMPTED for each in _true_conditions(pod))


def has_ended(pod: ReadOnlyObject) -> bool:
    """Whether a pod has ended, or is marked to end and says by what: its scheduler, a drain, a lost node."""
    is_leaving = bool(pod["metadata"].get("deletionTimestamp"))
    return (
        (pod.get("status") or {}).get("phase") in ENDED_PHASES
        or is_preempted(pod)
        or (is_leaving and any(each.get("type") == "DisruptionTarget" for each in _true_conditions(pod)))
    )


def _true_conditions(pod: ReadOnlyObject) -> Iterator[ReadOnlyObject]:
    for each in (pod.get("status") or {}).get("conditions") or []:
        if isinstance(each, Mapping) and each.get("status") == "True":
            yield each


def _notes(pods: Sequence[ReadOnlyObject]) -> tuple[str, ...]:
    """What these pods ask for and nothing counts, each once."""
    found: dict[str, int] = {}
    for pod in pods:
        spec = pod.get("spec") or {}
        asked = {key for key in read_texts(pod, "annotations") if asks_for_uncounted_devices(key)}
        asked |= {
            name
            for container in spec.get("containers") or []
            for name in _requested(container)
            if name != _GPU_NAME and (name.startswith("nvidia.com/") or name.endswith(("/gpu", "/gpu.shared")))
        }
        if spec.get("resourceClaims"):
            asked.add("ResourceClaims")
        for name in asked:
            found[name] = found.get(name, 0) + 1
    return tuple(
        as_storable(f"{name} of {number} pod{'s' * (number != 1)} is not counted")
        for name, number in sorted(found.items())[:_MAX_NOTES]
    )


def _requested(container: ReadOnlyObject) -> Mapping[str, Any]:
    resources = container.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _full_name(metadata: ReadOnlyObject) -> tuple[str, str]:
    return str(metadata.get("namespace") or ""), str(metadata["name"])
