"""What `config update` sends: only what the file says differently, as the stock client does."""

from __future__ import annotations

from typing import Any

UNCHANGED = object()


def find_changes(current: Any, desired: Any) -> Any:
    """The part of `desired` that is not in `current`, or :data:`UNCHANGED`.

    Maps are compared key by key, a key that the file leaves out stays as it is; a list is sent whole.
    """
    if isinstance(current, dict) and isinstance(desired, dict):
        changed = {}
        for key, value in desired.items():
            part = find_changes(current[key], value) if key in current else value
            if part is not UNCHANGED:
                changed[key] = part
        return changed or UNCHANGED
    return UNCHANGED if current == desired and type(current) is type(desired) else desired
