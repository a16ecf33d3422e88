"""The values of a trace as typed text → numbers. Each reader returns None for a text that is not such a value."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from pools.domain.values.scalars import is_decimal, whole_number
from scheduling.history.replay.jobs import SECOND

MAX_SECONDS = 10**11
"""About 3,000 years. A later time, or a longer one, is a mistake."""

MAX_GPUS = 10**15

A_SPAN = f"a number of seconds above 0 and at most {MAX_SECONDS:,}"

_LONGEST = 64
_EPOCH = datetime(1970, 1, 1)


def microseconds(text: str) -> int | None:
    """Seconds of any sign as microseconds, rounded to the nearest."""
    if len(text) > _LONGEST or not is_decimal(text):
        return None
    seconds = Decimal(text)
    return None if abs(seconds) > MAX_SECONDS else round(seconds * SECOND)


def span(text: str) -> int | None:
    """Seconds above 0 as microseconds, at least one."""
    found = microseconds(text)
    return max(1, found) if found is not None and Decimal(text) > 0 else None


def moment(text: str) -> int | None:
    """An ISO time as microseconds since 1970; without an offset it is UTC."""
    if "-" not in text[1:]:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    try:
        naive = time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time
    except OverflowError:
        return None
    return (naive - _EPOCH) // timedelta(microseconds=1)


def gpus(text: str) -> int | None:
    """A whole number from 1."""
    number = whole_number(text)
    return number if number is not None and 1 <= number <= MAX_GPUS else None
