"""What `config update` sends: only what the file says differently, as the stock client does."""

from __future__ import annotations

from typing import Any

UNCHANGED = object()


def difference(current: Any, wanted: Any) -> Any:
    """The part of `wanted` that is not in `current`, or :data:`UNCHANGED`.

    Maps are compared key by key, a key that the file leaves out stays as it is; a list is sent whole.
    """
    if isinstance(current, dict) and isinstance(wanted, dict):
        changed = {}
        for key, value in wanted.items():
            part = difference(current[key], value) if key in current else value
            if part is not UNCHANGED:
                changed[key] = part
        return changed or UNCHANGED
    return UNCHANGED if current == wanted and type(current) is type(wanted) else wanted
