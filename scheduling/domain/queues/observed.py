"""A queue as a cluster shows it, held against the one that should be there: what differs, and whose doing that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scheduling.domain.cluster.naming import INSTALLATION_LABEL
from scheduling.domain.kubernetes_json import ReadOnlyObject
from scheduling.domain.queues.desired import (
    FIELD_MANAGER,
    NAMESPACE_LABEL,
    NUMBER_KEYS,
    RESOURCE_KEYS,
    DesiredQueue,
    QueueTarget,
    managed_labels,
    queue_manifest,
)

LABEL_FIELD_PREFIX = "metadata.labels."
UNKNOWN_MANAGER = "somebody"


class Ownership(StrEnum):
    """Whose an object is. `OURS` carries the house's mark. `ADOPTED` has a name of ours and nobody's mark: made by hand
    or by an earlier OSMO, it becomes ours. `OTHERS` is marked by another house or another namespace. `UNKNOWN` has no
    name that we want and no mark of ours."""

    OURS = "ours"
    ADOPTED = "adopted"
    OTHERS = "others"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class QueueDifference:
    """One field. `by` names who wrote theirs, by the object's managed fields; empty when it is our own earlier word."""

    field: str
    theirs: Any
    ours: Any
    by: str = ""


@dataclass(frozen=True, slots=True)
class ObservedQueue:
    """What matters of one queue in a cluster: its place in the tree, its GPU quota, and how it differs."""

    name: str
    uid: str
    parent: str | None
    quota: float
    ownership: Ownership
    differences: tuple[QueueDifference, ...] = ()
    note: str = ""

    @property
    def needs_write(self) -> bool:
        """Whether it has to be written to become as it should be."""
        return bool(self.differences) or self.ownership is Ownership.ADOPTED

    @property
    def drift(self) -> tuple[QueueDifference, ...]:
        """The differences that are somebody else's doing."""
        return tuple(difference for difference in self.differences if difference.by)


def observe_queue(item: ReadOnlyObject, target: QueueTarget, desired: Mapping[str, DesiredQueue]) -> ObservedQueue:
    """What a queue of the cluster is to us."""
    metadata = item["metadata"]
    name = metadata["name"]
    carried: Mapping[str, str] = metadata.get("labels") or {}
    spec = item.get("spec") or {}
    queue = desired.get(name)
    standing, note = _ownership(target, queue is not None, carried)
    found: tuple[QueueDifference, ...] = ()
    if queue is not None and standing in {Ownership.OURS, Ownership.ADOPTED}:
        found = tuple(_differences(item, target, queue))
        if standing is Ownership.OURS and _our_entry(metadata) is None:
            standing = Ownership.ADOPTED  # marked as ours and not written by us: copied, or restored from a backup
    return ObservedQueue(
        name, metadata["uid"], spec.get("parentQueue") or None, read_gpu_quota(spec), standing, found, note
    )


def read_gpu_quota(spec: ReadOnlyObject) -> float:
    """The GPU quota as KAI reads it: what is left out is 0."""
    value = ((spec.get("resources") or {}).get("gpu") or {}).get("quota", 0)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


def _ownership(place: QueueTarget, is_wanted: bool, carried: Mapping[str, str]) -> tuple[Ownership, str]:
    house, namespace = carried.get(INSTALLATION_LABEL), carried.get(NAMESPACE_LABEL)
    if house == place.installation and namespace == place.namespace:
        return Ownership.OURS, ""
    if not is_wanted:
        return Ownership.UNKNOWN, ""
    if house not in {None, place.installation}:
        return Ownership.OTHERS, f"it belongs to another house ({INSTALLATION_LABEL}={house})"
    if namespace not in {None, place.namespace}:
        return Ownership.OTHERS, f"it belongs to the namespace {namespace} ({NAMESPACE_LABEL})"
    return Ownership.ADOPTED, ""


def _differences(item: ReadOnlyObject, place: QueueTarget, queue: DesiredQueue) -> Iterator[QueueDifference]:
    """Field by field; fields that are not ours to say are nobody's difference."""
    body = queue_manifest(place, queue)
    spec, wanted = item.get("spec") or {}, body["spec"]
    for key in ("displayName", "parentQueue", "priority"):
        yield from _compare(item, ("spec", key), spec.get(key), wanted.get(key))
    theirs = spec.get("resources") or {}
    for resource in RESOURCE_KEYS:
        for number in NUMBER_KEYS:
            there = (theirs.get(resource) or {}).get(number)
            ours = wanted["resources"][resource][number]
            yield from _compare(item, ("spec", "resources", resource, number), there, ours)
    carried = item["metadata"].get("labels") or {}
    asked = managed_labels(place, queue)
    # A shard's label that we do not ask for hides the queue from the shard it is meant for; a label that we once wrote
    # and ask for no more goes.
    for key in sorted({*asked, *(({place.shard_key} | _our_labels(item["metadata"])) & carried.keys())}):
        is_new = key == place.shard_key
        yield from _compare(item, ("metadata", "labels", key), carried.get(key), asked.get(key), is_new=is_new)


def _compare(
    item: ReadOnlyObject, path: tuple[str, ...], theirs: Any, ours: Any, *, is_new: bool = False
) -> Iterator[QueueDifference]:
    if theirs == ours and isinstance(theirs, bool) == isinstance(ours, bool):
        return
    field = LABEL_FIELD_PREFIX + path[2] if path[0] == "metadata" else ".".join(path)
    yield QueueDifference(
        field, theirs, ours, _changed_by(item["metadata"], path, is_gone=theirs is None, is_new=is_new)
    )


def _changed_by(metadata: ReadOnlyObject, path: tuple[str, ...], *, is_gone: bool, is_new: bool) -> str:
    """Who wrote a field that is not as we want it; empty when the value is our own earlier word, or was never ours.

    Whoever changes a field takes it from us, so a field that we still own is as we left it. One that is gone belongs to
    nobody: then it was whoever wrote since we did. `is_new` is a field that we may be about to write for the first
    time.
    """
    ours = _our_entry(metadata)
    if ours is None or _owns(ours, path) or (is_gone and is_new):
        return ""
    others = [
        entry
        for entry in metadata.get("managedFields") or []
        if entry.get("manager") != FIELD_MANAGER and not entry.get("subresource")
    ]
    if not is_gone:
        return ", ".join(sorted({str(entry["manager"]) for entry in others if _owns(entry, path)}))
    later = [entry for entry in others if (entry.get("time") or "") >= (ours.get("time") or "")]
    return str(max(later, key=lambda entry: entry.get("time") or "")["manager"]) if later else UNKNOWN_MANAGER


def _owns(entry: ReadOnlyObject, path: tuple[str, ...]) -> bool:
    here = entry.get("fieldsV1") or {}
    for key in path:
        here = here.get(f"f:{key}")
        if here is None:
            return False
    return True


def _our_entry(metadata: ReadOnlyObject) -> ReadOnlyObject | None:
    """What we applied; None if we never did."""
    for entry in metadata.get("managedFields") or []:
        if entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply" and not entry.get("subresource"):
            return dict(entry)
    return None


def _our_labels(metadata: ReadOnlyObject) -> set[str]:
    entry = _our_entry(metadata) or {}
    ours = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels") or {}
    return {key.removeprefix("f:") for key in ours if key.startswith("f:")}
