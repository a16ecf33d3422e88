"""The body of `config update`: only the values that the file changes, as the stock client sends them."""

from __future__ import annotations

from typing import Any

UNCHANGED = object()


def find_changes(current: Any, desired: Any) -> Any:
    """The part of `desired` that is not in `current`, or :data:`UNCHANGED`.

    Maps are compared key by key; a key that the file leaves out stays unchanged. A list is sent as a whole.
    """
    if isinstance(current, dict) and isinstance(desired, dict):
        changed = {}
        for key, value in desired.items():
            part = find_changes(current[key], value) if key in current else value
            if part is not UNCHANGED:
                changed[key] = part
        return changed or UNCHANGED
    return UNCHANGED if current == desired and type(current) is type(desired) else desired
