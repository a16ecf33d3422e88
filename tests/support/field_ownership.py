"""The owners of an object's fields: server-side apply for the fake cluster.

A path is a tuple of keys down to a value that is not an object (a list counts as one value). In `metadata` only labels
and annotations have owners.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FieldPath = tuple[str, ...]
_OWNED_METADATA = {"labels", "annotations"}


@dataclass(frozen=True, slots=True)
class FieldOwner:
    """A field manager, how it wrote (`Apply` or `Update`), and through which subresource."""

    manager: str
    operation: str
    subresource: str = ""


FieldOwners = dict[FieldOwner, set[FieldPath]]


def field_paths(item: Mapping[str, Any]) -> set[FieldPath]:
    """Every path of an object that may have an owner."""
    found: set[FieldPath] = set()
    for key, value in item.items():
        if key == "metadata":
            for part in _OWNED_METADATA & value.keys():
                found.update(("metadata", part, *rest) for rest in _paths_below(value[part]))
        elif key not in {"apiVersion", "kind"}:
            found.update((key, *rest) for rest in _paths_below(value))
    return found


def _paths_below(value: Any) -> Iterator[FieldPath]:
    if not isinstance(value, Mapping) or not value:
        yield ()
        return
    for key, inner in value.items():
        for rest in _paths_below(inner):
            yield (key, *rest)


def value_at_path(item: Mapping[str, Any], path: FieldPath) -> Any:
    """The value at a path; None if there is none."""
    here: Any = item
    for key in path:
        if not isinstance(here, Mapping) or key not in here:
            return None
        here = here[key]
    return here


def apply_fields(
    current: Mapping[str, Any], desired: Mapping[str, Any], owners: FieldOwners, owner: FieldOwner, *, force: bool
) -> tuple[dict[str, Any], list[tuple[FieldPath, str]]]:
    """The object after `owner` applied `desired`, and the fields that others hold with another value (unless `force`).

    `owners` is updated in place.
    """
    after: dict[str, Any] = copy.deepcopy(dict(current))
    mine = field_paths(desired)
    clashes = [
        (path, other.manager)
        for other, held in sorted(owners.items(), key=lambda pair: pair[0].manager)
        if other != owner
        for path in sorted(held & mine)
        if value_at_path(current, path) != value_at_path(desired, path)
    ]
    if clashes and not force:
        return after, clashes
    for path, _ in clashes:
        for other, held in owners.items():
            if other != owner:
                held.discard(path)
    for path in owners.get(owner, set()) - mine:
        if not any(path in held for other, held in owners.items() if other != owner):
            _remove(after, path)
    for path in mine:
        _set(after, path, copy.deepcopy(value_at_path(desired, path)))
    owners[owner] = mine
    _drop_empty_owners(owners)
    return after, []


def merge_fields(
    current: Mapping[str, Any], patch: Mapping[str, Any], owners: FieldOwners, owner: FieldOwner
) -> dict[str, Any]:
    """The object after a merge of `patch` (null removes a field); the changed fields then belong to `owner` alone."""
    after: dict[str, Any] = _merge(copy.deepcopy(dict(current)), patch)
    touched = {
        path
        for path in field_paths(current) | field_paths(after)
        if value_at_path(current, path) != value_at_path(after, path)
    }
    for held in owners.values():
        held.difference_update(touched)
    owners.setdefault(owner, set()).update(path for path in touched if path in field_paths(after))
    _drop_empty_owners(owners)
    return after


def comparable_content(item: Mapping[str, Any]) -> dict[str, Any]:
    """The object without the fields that the server maintains."""
    metadata = {
        key: value
        for key, value in item["metadata"].items()
        if key not in {"managedFields", "resourceVersion", "generation"} and value != {}
    }
    return {key: value for key, value in item.items() if value != {}} | {"metadata": metadata}


def managed_fields_json(owners: FieldOwners, api_version: str) -> list[dict[str, Any]]:
    """The owners in the form of `managedFields`."""
    entries = []
    for owner, held in owners.items():
        tree: dict[str, Any] = {}
        for path in sorted(held):
            here = tree
            for key in path:
                here = here.setdefault(f"f:{key}", {})
        entry = {
            "manager": owner.manager,
            "operation": owner.operation,
            "apiVersion": api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": tree,
        }
        entries.append(entry | ({"subresource": owner.subresource} if owner.subresource else {}))
    return entries


def _merge(current: dict[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in change.items():
        if value is None:
            current.pop(key, None)
        elif isinstance(value, Mapping):
            below = current.get(key)
            current[key] = _merge(below if isinstance(below, dict) else {}, value)
        else:
            current[key] = copy.deepcopy(value)
    return current


def _set(item: dict[str, Any], path: FieldPath, value: Any) -> None:
    for key in path[:-1]:
        below = item.get(key)
        if not isinstance(below, dict):
            below = item[key] = {}
        item = below
    item[path[-1]] = value


def _remove(item: dict[str, Any], path: FieldPath) -> None:
    """Remove a value, and the parent objects that become empty."""
    trail = [item]
    for key in path[:-1]:
        below = trail[-1].get(key)
        if not isinstance(below, dict):
            return
        trail.append(below)
    trail[-1].pop(path[-1], None)
    for above, key in zip(reversed(trail[:-1]), reversed(path[:-1]), strict=True):
        if above[key]:
            return
        del above[key]


def _drop_empty_owners(owners: FieldOwners) -> None:
    for owner in [owner for owner, held in owners.items() if not held]:
        del owners[owner]
