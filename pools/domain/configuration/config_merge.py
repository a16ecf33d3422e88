"""The PATCH of OSMO's configuration API: a recursive merge with two control keys (design, O8).

Objects merge key by key; `{"$action": "delete"}` in place of a value removes it. In a list of objects, `$index` selects
an item (with `$action` `replace` or `delete`, else the item is merged); objects without `$index` are appended. Any
other list, and any other value, is replaced. Indices are those of the list before the patch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pools.domain.errors import Fault, Violation

ACTION, INDEX = "$action", "$index"
DELETE, REPLACE = "delete", "replace"
DEEPEST = 20


def merge_patch(current: Mapping[str, Any], patch: Mapping[str, Any]) -> tuple[dict[str, Any], list[Violation]]:
    """The merged object and every fault of the patch. Neither argument is changed."""
    faults: list[Violation] = []
    return _object(current, patch, "", faults, 0), faults


def _object(current: Any, patch: Mapping[str, Any], path: str, faults: list[Violation], depth: int) -> dict[str, Any]:
    if depth > DEEPEST:
        faults.append(Violation(path[:200], Fault.BAD_VALUE, f"The body is nested more than {DEEPEST} levels deep."))
        return {}
    action = _action(patch, path, faults)
    result = dict(current) if isinstance(current, Mapping) and action != REPLACE else {}
    if action == DELETE:
        faults.append(Violation(path, Fault.BAD_VALUE, f"{path or 'The whole body'} cannot be deleted here."))
    if INDEX in patch:
        faults.append(
            Violation(
                _join_path(path, INDEX), Fault.BAD_VALUE, f"{_join_path(path, INDEX)} belongs to items of lists only."
            )
        )
    for key, value in patch.items():
        if key in {ACTION, INDEX}:
            continue
        if isinstance(value, Mapping) and value.get(ACTION) == DELETE:
            result.pop(key, None)
        else:
            result[key] = _value(result.get(key), value, _join_path(path, key), faults, depth + 1)
    return result


def _value(current: Any, patch: Any, path: str, faults: list[Violation], depth: int) -> Any:
    if isinstance(patch, Mapping):
        return _object(current, patch, path, faults, depth)
    if isinstance(patch, list) and patch and all(isinstance(item, Mapping) for item in patch):
        return _list(current, patch, path, faults, depth)
    return patch


def _list(current: Any, patch: list[Mapping[str, Any]], path: str, faults: list[Violation], depth: int) -> list[Any]:
    items: list[Any] = list(current) if isinstance(current, list) else []
    length, gone, seen = len(items), set(), set()
    for place, change in enumerate(patch):
        here = f"{path}[{place}]"
        rest = {key: value for key, value in change.items() if key != INDEX}
        if INDEX not in change:
            items.append(_object({}, rest, here, faults, depth + 1))
            continue
        index = change[INDEX]
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < length:
            faults.append(_bad_index(here, length))
        elif index in seen:
            faults.append(
                Violation(_join_path(here, INDEX), Fault.BAD_VALUE, f"{here} names item {index} a second time.")
            )
        elif rest.get(ACTION) == DELETE:
            gone.add(index)
        else:
            items[index] = _object(items[index], rest, here, faults, depth + 1)
        seen |= {index} if isinstance(index, int) else set()
    return [item for place, item in enumerate(items) if place not in gone]


def _bad_index(here: str, length: int) -> Violation:
    there = f"it has items 0 to {length - 1}" if length else "it is empty"
    return Violation(
        _join_path(here, INDEX), Fault.BAD_VALUE, f"{here} names an item that the list does not have: {there}."
    )


def _action(patch: Mapping[str, Any], path: str, faults: list[Violation]) -> Any:
    action = patch.get(ACTION)
    if action not in (None, DELETE, REPLACE):
        here = _join_path(path, ACTION)
        faults.append(Violation(here, Fault.BAD_VALUE, f"{here} must be {DELETE!r} or {REPLACE!r}."))
    return action


def _join_path(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
