"""Drift of a PodGroup or a pod: the fields that we own and that another client changed.

One comparison of the manifest that we write with the observed object decides what is ours:

* labels and annotations of the manifest, and every label that begins with `osmo.`; other labels and annotations are
  anybody's;
* the finalizers of the manifest; others stay;
* the whole `spec`, where the manifest has one, also fields that we leave out, except :data:`SCHEDULER_FIELDS`. A pod is
  compared without its `spec`: the API server lets nobody change it, except the image, which clusters rewrite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduling.domain.cluster.naming import SUB_GROUP_OF_POD
from scheduling.domain.kubernetes_json import Object, ReadOnlyObject

OUR_LABEL_PREFIX = "osmo."
SCHEDULER_FIELDS = frozenset({"markUnschedulable", "schedulingBackoff", "parallelism", "completions", "backoffLimit"})
"""Fields of a PodGroup's `spec` that KAI keeps for itself."""


@dataclass(frozen=True, slots=True)
class FieldDrift:
    """One field of ours with another value; None means that the field is missing, or should be."""

    path: tuple[str, ...]
    theirs: Any
    ours: Any

    @property
    def field(self) -> str:
        """The path as text: `metadata.labels.osmo.pool`."""
        return ".".join(self.path)

    @property
    def bounded_field(self) -> str:
        """The path without a name that others chose, for metrics."""
        return ".".join(self.path if self.ours is not None or self.path[0] == "spec" else self.path[:-1])

    @property
    def sentence(self) -> str:
        """What was changed, and what it is again, for users."""
        theirs = "removed" if self.theirs is None else f"set to {self.theirs!r}"
        ours = "removed again" if self.ours is None else f"{self.ours!r} again"
        return f"{self.field} was {theirs}; it is {ours}"


def find_drift(desired: ReadOnlyObject, observed: ReadOnlyObject, *, shard_key: str = "") -> list[FieldDrift]:
    """The fields of ours that differ. `shard_key` is the label by which a shard of KAI selects its objects: where the
    manifest lacks it, it would hide the object from its scheduler."""
    return list(_find_drift(desired, observed, shard_key))


def repair_patch(drift: Sequence[FieldDrift]) -> Object:
    """The merge patch that puts these fields back."""
    patch: Object = {}
    for each in drift:
        here = patch
        for key in each.path[:-1]:
            here = here.setdefault(key, {})
        here[each.path[-1]] = _merge_value(each.theirs, each.ours)
    return patch


def pod_group_content(item: ReadOnlyObject) -> Any:
    """Everything of a PodGroup on which its drift depends, for a comparison with `==`. Its annotations are KAI's."""
    return item["metadata"].get("labels"), item["metadata"].get("finalizers"), item.get("spec")


def pod_content(item: ReadOnlyObject) -> Any:
    """Everything of a pod on which its drift depends, for a comparison with `==`."""
    metadata = item["metadata"]
    return metadata.get("labels"), metadata.get("annotations"), metadata.get("finalizers")


def _find_drift(desired: ReadOnlyObject, observed: ReadOnlyObject, shard_key: str) -> Iterator[FieldDrift]:
    ours, theirs = desired["metadata"], observed["metadata"]
    labels, current = ours.get("labels") or {}, theirs.get("labels") or {}
    added = {key for key in current if key.startswith(OUR_LABEL_PREFIX) or key in {shard_key, SUB_GROUP_OF_POD}}
    yield from _differences(("metadata", "labels"), labels, current, labels.keys() | added)
    annotations = ours.get("annotations") or {}
    yield from _differences(
        ("metadata", "annotations"), annotations, theirs.get("annotations") or {}, annotations.keys()
    )
    present = theirs.get("finalizers") or []
    if missing := [each for each in ours.get("finalizers") or [] if each not in present]:
        yield FieldDrift(("metadata", "finalizers"), present, [*present, *missing])
    if "spec" in desired:
        spec, now = desired["spec"], observed.get("spec") or {}
        yield from _differences(("spec",), spec, now, spec.keys() | (now.keys() - SCHEDULER_FIELDS))


def _differences(
    path: tuple[str, ...], ours: Mapping[str, Any], theirs: Mapping[str, Any], keys: set[str] | Any
) -> Iterator[FieldDrift]:
    for key in sorted(keys):
        if ours.get(key) != theirs.get(key):
            yield FieldDrift((*path, key), theirs.get(key), ours.get(key))


def _merge_value(theirs: Any, ours: Any) -> Any:
    """A value for a merge patch, which adds to an object and so must remove what is only theirs."""
    if not isinstance(ours, Mapping) or not isinstance(theirs, Mapping):
        return ours
    removed = {key: None for key in theirs if key not in ours}
    return removed | {key: _merge_value(theirs.get(key), value) for key, value in ours.items()}
