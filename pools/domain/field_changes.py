"""The fields of a configuration that a change touches, each with its value before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_EMPTY: tuple[Any, ...] = (None, "", [], {})


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One value that differs. `path` has the keys from the outermost to the innermost: `resources.gpu.guarantee`. A
    value that one side does not have is None there."""

    path: str
    before: Any
    after: Any


def field_changes(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[FieldChange]:
    """Every value that differs, maps key by key and lists as a whole. None is a configuration that does not exist, so
    empty values of the other one are not a change."""
    return list(_changes(before, after, ""))


def _changes(before: Any, after: Any, path: str) -> Iterator[FieldChange]:
    if before == after:
        return
    if isinstance(before or {}, Mapping) and isinstance(after or {}, Mapping):
        old, new = before or {}, after or {}
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _changes(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif not (before is None and after in _EMPTY) and not (after is None and before in _EMPTY):
        yield FieldChange(path, before, after)
