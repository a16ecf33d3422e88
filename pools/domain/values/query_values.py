"""The value of a query parameter from its text: a boolean, a whole number, a time, an order. Each parser returns None
for a text without such a value."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from pools.domain.values.scalars import whole_number

MAX_INTEGER = 2**31 - 1
MAX_FILTER_VALUES = 50
"""The most values of one filter whose every value costs a search."""
BOOLEAN_RULE = "True or False"
DATETIME_RULE = "a time in UTC, as 2026-11-20 or 2026-11-20T11:33:25"
ORDER_RULE = "ASC or DESC"

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_DATETIME = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?(Z|[+-]\d\d:?\d\d)?\Z", re.ASCII | re.IGNORECASE
)
_FIRST, _LAST = datetime(1000, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)
_LOST_PLUS = re.compile(r"\d \d\d:?\d\d\Z")


def parse_boolean(text: str) -> bool | None:
    """`True` and `False` as Python writes them, in any case, or 1 and 0."""
    return _BOOLEANS.get(text.lower())


def parse_integer(text: str, minimum: int = 0, maximum: int = MAX_INTEGER) -> int | None:
    """A whole number inside its bounds, written with digits alone."""
    number = whole_number(text)
    return number if number is not None and minimum <= number <= maximum else None


def integer_rule(minimum: int = 0, maximum: int = MAX_INTEGER) -> str:
    """The rule of `parse_integer`, for a message."""
    return f"a whole number from {minimum:,} to {maximum:,}"


def parse_datetime(text: str) -> datetime | None:
    """A time of ISO 8601, in UTC if it names no zone. The `+` of a zone may have become a blank in the address."""
    text = text.strip()
    if "T" in text and _LOST_PLUS.search(text):
        text = text.replace(" ", "+")
    if not _DATETIME.match(text):
        return None
    try:
        found = datetime.fromisoformat(text)
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
        found.astimezone(UTC)
    except (ValueError, OverflowError):  # no such time, or one that is before year 1 or after 9999 in UTC
        return None
    return found


def away_from_ends(moment: datetime) -> datetime:
    """The moment, within the years 1000 to 3000, so that spans of them can be added and taken off. Nothing that is
    recorded is older or younger."""
    return min(max(moment, _FIRST), _LAST)


def parse_descending(text: str) -> bool | None:
    """Whether an order is descending: `ASC` or `DESC` in any case."""
    return {"ASC": False, "DESC": True}.get(text.upper())
