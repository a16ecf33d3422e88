"""A queue of a cluster compared with the desired one: the differences, and the field managers that caused them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scheduling.domain.cluster.naming import FIELD_MANAGER, INSTALLATION_LABEL
from scheduling.domain.kubernetes_json import ReadOnlyObject
from scheduling.domain.queues.desired import (
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
    """The owner of an object. `OURS` has the label of this installation. `ADOPTED` has a desired name and no such
    label: made by hand or by an earlier OSMO, it becomes ours. `OTHERS` has the label of another installation or
    namespace. `UNKNOWN` has neither a desired name nor our label."""

    OURS = "ours"
    ADOPTED = "adopted"
    OTHERS = "others"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class QueueDifference:
    """One field. `by` is the field manager that wrote their value; empty when it is our own earlier value."""

    field: str
    theirs: Any
    ours: Any
    by: str = ""


@dataclass(frozen=True, slots=True)
class ObservedQueue:
    """The relevant facts of one queue in a cluster: its parent, its GPU quota, and its differences. `is_terminating`:
    its deletion was requested, and finalizers hold it."""

    name: str
    uid: str
    parent: str | None
    quota: float
    ownership: Ownership
    differences: tuple[QueueDifference, ...] = ()
    note: str = ""
    is_terminating: bool = False

    @property
    def needs_write(self) -> bool:
        """Whether the queue must be written to reach its desired state."""
        return bool(self.differences) or self.ownership is Ownership.ADOPTED or self.is_terminating

    @property
    def drift(self) -> tuple[QueueDifference, ...]:
        """The differences that other field managers caused."""
        return tuple(difference for difference in self.differences if difference.by)


def bounded_field(field: str) -> str:
    """The field for metrics, without the name of a label that others may have chosen."""
    return "metadata.labels" if field.startswith(LABEL_FIELD_PREFIX) else field


def observe_queue(item: ReadOnlyObject, target: QueueTarget, desired: Mapping[str, DesiredQueue]) -> ObservedQueue:
    """A queue of the cluster compared with the desired ones."""
    metadata = item["metadata"]
    name = metadata["name"]
    current_labels: Mapping[str, str] = metadata.get("labels") or {}
    spec = item.get("spec") or {}
    queue = desired.get(name)
    ownership, note = _ownership(target, queue is not None, current_labels)
    found: tuple[QueueDifference, ...] = ()
    if queue is not None and ownership in {Ownership.OURS, Ownership.ADOPTED}:
        found = tuple(_differences(item, target, queue))
        if ownership is Ownership.OURS and _our_entry(metadata) is None:
            ownership = Ownership.ADOPTED  # has our label but was not written by us: copied, or restored from a backup
    return ObservedQueue(
        name,
        metadata["uid"],
        spec.get("parentQueue") or None,
        read_gpu_quota(spec),
        ownership,
        found,
        note,
        bool(metadata.get("deletionTimestamp")),
    )


def read_gpu_quota(spec: ReadOnlyObject) -> float:
    """The GPU quota as KAI reads it: a missing value is 0."""
    value = ((spec.get("resources") or {}).get("gpu") or {}).get("quota", 0)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


def _ownership(place: QueueTarget, is_desired: bool, current_labels: Mapping[str, str]) -> tuple[Ownership, str]:
    installation, namespace = current_labels.get(INSTALLATION_LABEL), current_labels.get(NAMESPACE_LABEL)
    if installation == place.installation and namespace == place.namespace:
        return Ownership.OURS, ""
    if not is_desired:
        return Ownership.UNKNOWN, ""
    if installation not in {None, place.installation}:
        return Ownership.OTHERS, f"it belongs to another installation ({INSTALLATION_LABEL}={installation})"
    if namespace not in {None, place.namespace}:
        return Ownership.OTHERS, f"it belongs to the namespace {namespace} ({NAMESPACE_LABEL})"
    return Ownership.ADOPTED, ""


def _differences(item: ReadOnlyObject, place: QueueTarget, queue: DesiredQueue) -> Iterator[QueueDifference]:
    """The differences, field by field; fields that we do not manage are ignored."""
    body = queue_manifest(place, queue)
    spec, desired = item.get("spec") or {}, body["spec"]
    for key in ("displayName", "parentQueue", "priority"):
        yield from _compare(item, ("spec", key), spec.get(key), desired.get(key))
    theirs = spec.get("resources") or {}
    for resource in RESOURCE_KEYS:
        for number in NUMBER_KEYS:
            current = (theirs.get(resource) or {}).get(number)
            ours = desired["resources"][resource][number]
            yield from _compare(item, ("spec", "resources", resource, number), current, ours)
    current_labels = item["metadata"].get("labels") or {}
    desired_labels = managed_labels(place, queue)
    # A shard label that we do not desire hides the queue from its shard; a label that we wrote earlier and no longer
    # desire is removed.
    for key in sorted(
        {*desired_labels, *(({place.shard_key} | _our_labels(item["metadata"])) & current_labels.keys())}
    ):
        is_new = key == place.shard_key
        yield from _compare(
            item, ("metadata", "labels", key), current_labels.get(key), desired_labels.get(key), is_new=is_new
        )


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
    """The field manager of a field with an undesired value; empty when the value is our own earlier one, or was never
    ours.

    A manager that changes a field takes its ownership, so a field that we still own has our last value. A removed field
    has no owner: then the latest manager that wrote after us removed it. `is_new`: we may be about to write the field
    for the first time.
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
    """The entry of our applied fields; None if we never applied any."""
    for entry in metadata.get("managedFields") or []:
        if entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply" and not entry.get("subresource"):
            return dict(entry)
    return None


def _our_labels(metadata: ReadOnlyObject) -> set[str]:
    entry = _our_entry(metadata) or {}
    ours = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels") or {}
    return {key.removeprefix("f:") for key in ours if key.startswith("f:")}
