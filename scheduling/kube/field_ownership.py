"""Who owns which field of an object: server-side apply for the twin, and reading `managedFields` for everybody.

A path is a tuple of keys down to a value that is no object (a list counts as one value). Of `metadata` only labels and
annotations have owners.
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
    """Every path of an object that somebody may own."""
    found: set[FieldPath] = set()
    for key, value in item.items():
        if key == "metadata":
            for part in _OWNED_METADATA & value.keys():
                found.update(("metadata", part, *rest) for rest in _below(value[part]))
        elif key not in {"apiVersion", "kind"}:
            found.update((key, *rest) for rest in _below(value))
    return found


def _below(value: Any) -> Iterator[FieldPath]:
    if not isinstance(value, Mapping) or not value:
        yield ()
        return
    for key, inner in value.items():
        for rest in _below(inner):
            yield (key, *rest)


def value_at_path(item: Mapping[str, Any], path: FieldPath) -> Any:
    """What stands there; None if nothing does."""
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

    `owners` is brought up to date in place.
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
    _forget_empty(owners)
    return after, []


def merge_fields(
    current: Mapping[str, Any], patch: Mapping[str, Any], owners: FieldOwners, owner: FieldOwner
) -> dict[str, Any]:
    """The object after a merge of `patch` (null takes away); what it changed is then owned by `owner` alone."""
    after: dict[str, Any] = _merged(copy.deepcopy(dict(current)), patch)
    touched = {
        path
        for path in field_paths(current) | field_paths(after)
        if value_at_path(current, path) != value_at_path(after, path)
    }
    for held in owners.values():
        held.difference_update(touched)
    owners.setdefault(owner, set()).update(path for path in touched if path in field_paths(after))
    _forget_empty(owners)
    return after


def comparable_content(item: Mapping[str, Any]) -> dict[str, Any]:
    """The object without what the server keeps beside it."""
    metadata = {
        key: value
        for key, value in item["metadata"].items()
        if key not in {"managedFields", "resourceVersion", "generation"} and value != {}
    }
    return {key: value for key, value in item.items() if value != {}} | {"metadata": metadata}


def managed_fields_json(owners: FieldOwners, api_version: str) -> list[dict[str, Any]]:
    """Ownership as an object shows it."""
    shown = []
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
        shown.append(entry | ({"subresource": owner.subresource} if owner.subresource else {}))
    return shown


def managers_of(item: Mapping[str, Any], path: FieldPath) -> list[str]:
    """Who owns a field, by an object's `managedFields`; a manager that owns the whole object above it counts."""
    found = []
    for entry in item["metadata"].get("managedFields") or []:
        here = entry.get("fieldsV1") or {}
        for key in path:
            here = here.get(f"f:{key}")
            if here is None:
                break
        else:
            found.append(str(entry.get("manager", "")))
    return found


def _merged(there: dict[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in change.items():
        if value is None:
            there.pop(key, None)
        elif isinstance(value, Mapping):
            below = there.get(key)
            there[key] = _merged(below if isinstance(below, dict) else {}, value)
        else:
            there[key] = copy.deepcopy(value)
    return there


def _set(item: dict[str, Any], path: FieldPath, value: Any) -> None:
    for key in path[:-1]:
        below = item.get(key)
        if not isinstance(below, dict):
            below = item[key] = {}
        item = below
    item[path[-1]] = value


def _remove(item: dict[str, Any], path: FieldPath) -> None:
    """Take a value away, and the objects above it that it leaves empty."""
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


def _forget_empty(owners: FieldOwners) -> None:
    for owner in [owner for owner, held in owners.items() if not held]:
        del owners[owner]
