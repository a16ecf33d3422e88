"""Label selectors of `workflow list --label KEY=SELECTOR`: an exact value, `*` for anything, `(A|B)` for alternatives,
as in `project=(sim_*|hil_*)` or `team=robotics_(a|b)` (the stock client's help)."""

from __future__ import annotations

import re

MAX_LENGTH = 200
_PARTS = re.compile(r"\([^()]*\)|\*|\||[^()*|]+")


def selector_pattern(selector: str) -> str | None:
    """A regular expression for the whole value, or None if the selector is not valid."""
    if not selector or len(selector) > MAX_LENGTH:
        return None
    pattern, position = "", 0
    for part in _PARTS.finditer(selector):
        if part.start() != position:
            return None
        position = part.end()
        translated = _translate(part[0])
        if translated is None:
            return None
        pattern += translated
    return f"^{pattern}$" if position == len(selector) else None


def _translate(part: str) -> str | None:
    if part == "|":
        return None  # alternatives need parentheses
    if not part.startswith("("):
        return _glob(part)
    alternatives = part[1:-1].split("|")
    return f"({'|'.join(_glob(each) for each in alternatives)})" if all(alternatives) else None


def _glob(text: str) -> str:
    return ".*".join(re.escape(piece) for piece in text.split("*"))
