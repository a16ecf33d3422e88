"""Who owns which field of an object: server-side apply for the twin, and reading `managedFields` for everybody.

A path is a tuple of keys down to a value that is no object (a list counts as one value). Of `metadata` only labels and
annotations have owners.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Path = tuple[str, ...]
_OWNED_METADATA = {"labels", "annotations"}


@dataclass(frozen=True, slots=True)
class Owner:
    """A field manager, how it wrote (`Apply` or `Update`), and through which subresource."""

    manager: str
    operation: str
    subresource: str = ""


Owners = dict[Owner, set[Path]]


def paths(item: Mapping[str, Any]) -> set[Path]:
    """Every path of an object that somebody may own."""
    found: set[Path] = set()
    for key, value in item.items():
        if key == "metadata":
            for part in _OWNED_METADATA & value.keys():
                found.update(("metadata", part, *rest) for rest in _below(value[part]))
        elif key not in {"apiVersion", "kind"}:
            found.update((key, *rest) for rest in _below(value))
    return found


def _below(value: Any) -> Iterator[Path]:
    if not isinstance(value, Mapping) or not value:
        yield ()
        return
    for key, inner in value.items():
        for rest in _below(inner):
            yield (key, *rest)


def value_at(item: Mapping[str, Any], path: Path) -> Any:
    """What stands there; None if nothing does."""
    here: Any = item
    for key in path:
        if not isinstance(here, Mapping) or key not in here:
            return None
        here = here[key]
    return here


def apply(
    there: Mapping[str, Any], wanted: Mapping[str, Any], owners: Owners, me: Owner, *, force: bool
) -> tuple[dict[str, Any], list[tuple[Path, str]]]:
    """The object after `me` applied `wanted`, and the fields that others hold with another value (unless `force`).

    `owners` is brought up to date in place.
    """
    after: dict[str, Any] = copy.deepcopy(dict(there))
    mine = paths(wanted)
    clashes = [
        (path, other.manager)
        for other, held in sorted(owners.items(), key=lambda pair: pair[0].manager)
        if other != me
        for path in sorted(held & mine)
        if value_at(there, path) != value_at(wanted, path)
    ]
    if clashes and not force:
        return after, clashes
    for path, _ in clashes:
        for other, held in owners.items():
            if other != me:
                held.discard(path)
    for path in owners.get(me, set()) - mine:
        if not any(path in held for other, held in owners.items() if other != me):
            _remove(after, path)
    for path in mine:
        _set(after, path, copy.deepcopy(value_at(wanted, path)))
    owners[me] = mine
    _forget_empty(owners)
    return after, []


def write(there: Mapping[str, Any], change: Mapping[str, Any], owners: Owners, me: Owner) -> dict[str, Any]:
    """The object after a merge of `change` (null takes away); what it changed is then owned by `me` alone."""
    after: dict[str, Any] = _merged(copy.deepcopy(dict(there)), change)
    touched = {path for path in paths(there) | paths(after) if value_at(there, path) != value_at(after, path)}
    for held in owners.values():
        held.difference_update(touched)
    owners.setdefault(me, set()).update(path for path in touched if path in paths(after))
    _forget_empty(owners)
    return after


def content(item: Mapping[str, Any]) -> dict[str, Any]:
    """The object without what the server keeps beside it."""
    metadata = {
        key: value
        for key, value in item["metadata"].items()
        if key not in {"managedFields", "resourceVersion", "generation"} and value != {}
    }
    return {key: value for key, value in item.items() if value != {}} | {"metadata": metadata}


def managed_fields(owners: Owners, api_version: str) -> list[dict[str, Any]]:
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


def managers_of(item: Mapping[str, Any], path: Path) -> list[str]:
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


def _set(item: dict[str, Any], path: Path, value: Any) -> None:
    for key in path[:-1]:
        below = item.get(key)
        if not isinstance(below, dict):
            below = item[key] = {}
        item = below
    item[path[-1]] = value


def _remove(item: dict[str, Any], path: Path) -> None:
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


def _forget_empty(owners: Owners) -> None:
    for owner in [owner for owner, held in owners.items() if not held]:
        del owners[owner]
