"""The rules for names of workflows, groups and tasks, and for their uniqueness."""

from __future__ import annotations

import re

from pools.domain.errors import Fault
from scheduling.specs.yaml_cursor import YamlCursor

MAX_NAME_LENGTH = 128
_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9])?", re.ASCII)
_RULE = "a letter first, then letters, digits, `-` and `_`, a letter or digit last"
_RESERVED = "osmo-ctrl"


class UniqueNames:
    """Tasks and groups share one set of names; case does not count, and `-` equals `_` (pods are named after both)."""

    def __init__(self) -> None:
        self.cursor_by_name: dict[str, YamlCursor] = {}

    def claim_name(self, place: YamlCursor | None) -> str:
        """The valid, unused name at this place; an empty text after a fault."""
        name = read_name(place)
        if not name or place is None:
            return ""
        key = name.lower().replace("_", "-")
        before = self.cursor_by_name.setdefault(key, place)
        if key == _RESERVED:
            place.add_fault(Fault.RESERVED_NAME, f'The name "{_RESERVED}" belongs to OSMO itself. Choose another.')
        elif before is not place:
            place.add_fault(
                Fault.DUPLICATE_NAME,
                f"The name is taken by {before.path} (line {before.line}). Tasks and "
                "groups need different names; case does not count and `-` equals `_`.",
            )
        return name


def read_name(place: YamlCursor | None) -> str:
    """The name at this place; an empty text after a fault (the reader of the map notes a missing name)."""
    name = place.text() if place is not None else None
    if place is None or name is None:
        return ""
    if is_name(name):
        return name
    if len(name) > MAX_NAME_LENGTH:
        place.add_fault(
            Fault.BAD_NAME, f"The name has {len(name)} characters; at most {MAX_NAME_LENGTH} are allowed. Shorten it."
        )
    else:
        place.add_fault(Fault.BAD_NAME, f"The name is not allowed: {_RULE}. Change it.")
    return ""


def is_name(text: str) -> bool:
    """Whether `text` follows the rule."""
    return len(text) <= MAX_NAME_LENGTH and _NAME.fullmatch(text) is not None
