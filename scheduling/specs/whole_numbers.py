"""Text -> whole amounts. Sizes are read as in pool configurations (:mod:`pools.domain.byte_sizes`)."""

from __future__ import annotations

import re

from pools.domain.byte_sizes import MAX_UNITS

_WHOLE = re.compile(r"(\d{1,20})(?:\.0{1,20})?", re.ASCII)


def parse_whole_number(text: str) -> int | None:
    """A whole number from 0 to `MAX_UNITS` (`8`, `8.0`), else None."""
    found = _WHOLE.fullmatch(text.strip())
    number = int(found[1]) if found else MAX_UNITS + 1
    return number if number <= MAX_UNITS else None
