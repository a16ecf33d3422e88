"""Text -> whole amounts. Sizes are read as in pool configurations (:mod:`pools.domain.values.byte_sizes`)."""

from __future__ import annotations

from pools.domain.values.byte_sizes import MAX_UNITS
from pools.domain.values.scalars import whole_number


def parse_whole_number(text: str) -> int | None:
    """A whole number from 0 to `MAX_UNITS`, written as `8`, else None."""
    number = whole_number(text)
    return number if number is not None and 0 <= number <= MAX_UNITS else None
