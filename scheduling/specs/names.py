"""The rule for names of workflows, groups and tasks, and for their being told apart."""

from __future__ import annotations

import re

from scheduling.specs.cursor import Place
from scheduling.specs.faults import quoted

LONGEST_NAME = 128
_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9])?", re.ASCII)
_RULE = "a letter first, then letters, digits, `-` and `_`, a letter or digit last"
_RESERVED = "osmo-ctrl"


class Names:
    """Tasks and groups share one set of names; case does not count, and `-` is `_` (pods are named after both)."""

    def __init__(self) -> None:
        self.taken: dict[str, Place] = {}

    def take(self, place: Place | None) -> str:
        """The valid, free name at this place; an empty text after a fault."""
        name = read_name(place)
        if not name or place is None:
            return ""
        key = name.lower().replace("_", "-")
        before = self.taken.setdefault(key, place)
        if key == _RESERVED:
            place.fail("reserved_name", f'The name "{_RESERVED}" belongs to OSMO itself. Choose another.')
        elif before is not place:
            place.fail(
                "duplicate_name",
                f"The name {quoted(name)} is taken by {before.path} (line {before.line}). Tasks and "
                "groups need different names; case does not count and `-` equals `_`.",
            )
        return name


def read_name(place: Place | None) -> str:
    """The name at this place; an empty text after a fault (a missing one is noted by whoever asked for the key)."""
    name = place.text() if place is not None else None
    if place is None or name is None:
        return ""
    if is_name(name):
        return name
    if len(name) > LONGEST_NAME:
        place.fail("bad_name", f"The name has {len(name)} characters; at most {LONGEST_NAME} are allowed. Shorten it.")
    else:
        place.fail("bad_name", f"The name {quoted(name)} is not allowed: {_RULE}. Change it.")
    return ""


def is_name(text: str) -> bool:
    """Whether `text` keeps the rule."""
    return len(text) <= LONGEST_NAME and _NAME.fullmatch(text) is not None
