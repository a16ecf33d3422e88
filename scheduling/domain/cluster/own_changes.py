"""Changes of our own objects by others: what a pod or a PodGroup of ours gives up, or gets, of what we wrote into it.

These are the fields that would be put back (:mod:`scheduling.domain.cluster.drift`), compared with the object before
the change. Everything else, as the status and the annotations of the scheduler, is free for everybody. Source:
docs/kubernetes.md, "Webhooks".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pools.domain.errors import Fault, Violation
from scheduling.domain.cluster.drift import OUR_LABEL_PREFIX, SCHEDULER_FIELDS
from scheduling.domain.cluster.naming import (
    INSTALLATION_LABEL,
    MANAGED_BY_LABEL,
    OBSERVED_FINALIZER,
    POD_GROUP_OF_POD,
    SUB_GROUP_OF_POD,
)
from scheduling.domain.cluster.queue_access import QUEUE_LABELS, Caller, QueueAccessPolicy, WorkloadKind
from scheduling.domain.kubernetes_json import ReadOnlyObject, read_texts


def own_label_keys(shard_key: str) -> tuple[str, ...]:
    """The labels of ours without the prefix `osmo.`. By `shard_key` a shard of KAI selects its objects."""
    return (*QUEUE_LABELS, SUB_GROUP_OF_POD, MANAGED_BY_LABEL, *([shard_key] if shard_key else []))


def change_violations(
    kind: WorkloadKind,
    new_object: ReadOnlyObject,
    old_object: ReadOnlyObject,
    caller: Caller,
    policy: QueueAccessPolicy,
) -> list[Violation]:
    """Every field of ours that this caller changes in an object of ours (`old_object`) and may not change."""
    if policy.accounts & {caller.username, *caller.groups}:
        return []
    return [
        Violation(path, Fault.FOREIGN_CHANGE, _message(path, kind, caller))
        for path in _changed_paths(kind, new_object, old_object, policy.shard_key)
    ]


def has_mark(item: ReadOnlyObject, policy: QueueAccessPolicy) -> bool:
    """Whether an object carries the mark of our objects in this cluster."""
    return bool(policy.installation) and read_texts(item, "labels").get(INSTALLATION_LABEL) == policy.installation


def _changed_paths(kind: WorkloadKind, new: ReadOnlyObject, old: ReadOnlyObject, shard_key: str) -> Iterator[str]:
    before, after = read_texts(old, "labels"), read_texts(new, "labels")
    named = own_label_keys(shard_key)
    for key in _differing(before, after):
        if key.startswith(OUR_LABEL_PREFIX) or key in named:
            yield f"metadata.labels[{key}]"
    if kind is WorkloadKind.POD:
        if read_texts(old, "annotations").get(POD_GROUP_OF_POD) != read_texts(new, "annotations").get(POD_GROUP_OF_POD):
            yield f"metadata.annotations[{POD_GROUP_OF_POD}]"
        if _has_finalizer(old) and not _has_finalizer(new):
            yield "metadata.finalizers"
    else:
        for key in _differing(_spec(old), _spec(new)):
            if key not in SCHEDULER_FIELDS:
                yield f"spec.{key}"


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The keys with another value, in the order of the old map; added keys last."""
    return [key for key in dict.fromkeys((*before, *after)) if before.get(key) != after.get(key)]


def _spec(item: ReadOnlyObject) -> Mapping[str, Any]:
    spec = item.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def _has_finalizer(item: ReadOnlyObject) -> bool:
    metadata = item.get("metadata")
    finalizers = metadata.get("finalizers") if isinstance(metadata, Mapping) else None
    return isinstance(finalizers, list) and OBSERVED_FINALIZER in finalizers


def _message(path: str, kind: WorkloadKind, caller: Caller) -> str:
    return (
        f"{path} of this {kind} belongs to OSMO Admin, which dispatched it, and {caller.username or 'an unnamed user'} "
        "may not change it. End the work with osmo workflow cancel WORKFLOW, or submit it again as it should be. An "
        "account that must change it can be allowed on the backend's webhook page."
    )
