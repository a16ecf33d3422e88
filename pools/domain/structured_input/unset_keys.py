"""Keys that answers show and that a request does not set.

An answer may be changed and sent back, so a request may hold them. One with another value than the answer shows was
meant to change something, and gets a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pools.domain.structured_input.faults import shorten


def unset_key_warnings(body: Mapping[str, Any], shown: Mapping[str, Any], *, path: str = "") -> Iterator[str]:
    """A warning for each key of `shown` that `body` has with another value. `path` is that of the body, '' for the
    request itself."""
    for key, value in shown.items():
        if (given := body.get(key)) is not None and given != value and (given or value):
            at = shorten(f"{path}.{key}" if path else key)
            yield f"{at} is only shown, and not set by this request: it has no effect."


def unused_key_warning(keys: list[str]) -> Iterator[str]:
    """A warning that these keys are kept, shown and used by nothing; none without keys."""
    if keys:
        are, they = ("are", "they have") if len(keys) > 1 else ("is", "it has")
        yield f"{', '.join(map(shorten, keys))} {are} kept for OSMO's clients, but {they} no effect here."
