"""From Kueue's Workloads to the work that counts.

A Workload belongs to its ClusterQueue. While it waits it has no pods, so its pod sets say what it asks for. Its pods
are found by what owns them: the object that the Workload stands for. A Workload that was admitted long ago, and of
which no pod was ever found, does not count itself; its pods count as pods. It ends when Kueue says so: between two of
its pods it has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from pools.domain.values.stored_text import as_storable
from scheduling.domain.cluster.node import pod_request
from scheduling.domain.cluster.pods.timestamps import parse_time
from scheduling.domain.kubernetes_json import Object, ReadOnlyObject, read_texts
from scheduling.domain.observed.seen_pods import SeenPod, SeenWork
from scheduling.domain.priorities import Priority, priority_of_value
from scheduling.domain.statuses import TaskStatus

WORKLOAD: Final = "workload"
WORKLOAD_ANNOTATION: Final = "kueue.x-k8s.io/workload"
MAX_PODS: Final = 2000
PODS_APPEAR_WITHIN: Final = timedelta(minutes=2)
"""After its admission the pods of a Workload appear in this time."""

_NOT_BY_ITSELF: Final = frozenset({"OutOfSync", "OwnerNotFound", "AdmissionChecksRejected"})


def owner_uids(item: ReadOnlyObject) -> set[str]:
    """The uids of what an object belongs to: its owners, those in labels such as `controller-uid`, and itself."""
    metadata = item["metadata"]
    owners = {str(each["uid"]) for each in metadata.get("ownerReferences") or [] if each.get("uid")}
    named = {str(text) for key, text in (metadata.get("labels") or {}).items() if key.endswith("-uid") and text}
    return owners | named | {str(metadata.get("uid") or "")} - {""}


def trim_workload(item: ReadOnlyObject, owner_label: str = "") -> Object:
    """The part of a Workload that is read."""
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    kept = ("name", "namespace", "uid", "creationTimestamp", "resourceVersion", "ownerReferences")
    return {
        "metadata": {key: metadata[key] for key in kept if key in metadata}
        | {"labels": {key: text for key, text in read_texts(item, "labels").items() if key == owner_label}},
        "spec": {key: spec[key] for key in ("queueName", "priority", "podSets") if key in spec},
        "status": {
            "conditions": status.get("conditions"),
            "admission": {"clusterQueue": (status.get("admission") or {}).get("clusterQueue")},
        },
    }


def cluster_queues(local_queues: Iterable[ReadOnlyObject]) -> dict[tuple[str, str], str]:
    """The ClusterQueue of each LocalQueue, by its namespace and name."""
    return {
        (str(each["metadata"].get("namespace") or ""), str(each["metadata"]["name"])): str(
            (each.get("spec") or {}).get("clusterQueue") or ""
        )
        for each in local_queues
    }


def read_workload(
    item: ReadOnlyObject,
    pods: Sequence[SeenPod],
    queues: Mapping[tuple[str, str], str],
    *,
    now: datetime,
    normal: int = 0,
    notes: tuple[str, ...] = (),
    owner: str = "",
) -> SeenWork:
    """The work of a Workload with the pods that belong to it; without any where it has ended, or has none for long.
    `normal` is the value of the cluster's default priority class."""
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    conditions = {each.get("type"): each for each in status.get("conditions") or [] if each.get("status") == "True"}
    namespace, local = str(metadata.get("namespace") or ""), str(spec.get("queueName") or "")
    admitted, finished = conditions.get("Admitted"), conditions.get("Finished")
    since = None if admitted is None else parse_time(admitted.get("lastTransitionTime"))
    is_admitted_long = admitted is not None and (since is None or since + PODS_APPEAR_WITHIN < now)
    evicted = conditions.get("Evicted") or {}
    waiting = tuple(_waiting_pods(str(metadata["uid"]), spec.get("podSets") or []))
    return SeenWork(
        WORKLOAD,
        str(metadata["uid"]),
        namespace,
        str(metadata["name"]),
        (status.get("admission") or {}).get("clusterQueue") or queues.get((namespace, local)) or local,
        priority_of(spec, normal),
        min(parse_time(metadata.get("creationTimestamp")) or now, now),
        tuple(pods) or (() if finished is not None or is_admitted_long else waiting),
        notes=notes,
        expected=len(waiting),
        taken_away=_why_evicted(evicted) if evicted.get("reason") == "Preempted" else "",
        outcome=None if finished is None else _outcome(finished),
        outcome_message="" if finished is None else as_storable(str(finished.get("message") or "")),
        local_queue=f"{namespace}/{local}" if local else "",
        owner=owner,
    )


def priority_of(spec: ReadOnlyObject, normal: int) -> Priority:
    """The priority of the spec of a Workload or a pod, from the value of its class."""
    value = spec.get("priority")
    return priority_of_value(value, normal) if isinstance(value, int) else Priority.NORMAL


def _outcome(finished: Mapping[str, Any]) -> TaskStatus:
    reason = str(finished.get("reason") or "")
    if reason in _NOT_BY_ITSELF:
        return TaskStatus.FAILED_CANCELED
    # Before its version 0.8 Kueue gave one reason, JobFinished, to all ends.
    is_failed = reason == "Failed" or (reason == "JobFinished" and "fail" in str(finished.get("message")).lower())
    return TaskStatus.FAILED if is_failed else TaskStatus.COMPLETED


def _why_evicted(condition: Mapping[str, Any]) -> str:
    return str(condition.get("message") or "Kueue preempted it.")


def _waiting_pods(uid: str, pod_sets: Sequence[ReadOnlyObject]) -> Iterable[SeenPod]:
    number = 0
    for pod_set in pod_sets:
        spec = (pod_set.get("template") or {}).get("spec") or {}
        gpus, cpu, memory, storage = (max(0, math.ceil(amount)) for amount in pod_request(spec))
        count = pod_set.get("count")
        for _ in range(count if isinstance(count, int) and count > 0 else 1):
            if number >= MAX_PODS:
                return
            name = f"{pod_set.get('name') or 'main'}-{number}"
            yield SeenPod(f"{uid}/{number}", name, gpus, cpu, memory, storage, TaskStatus.SCHEDULING)
            number += 1
