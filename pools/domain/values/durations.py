"""Durations as workflow files and pool configurations write them, and times and spans as people read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

MAX_DURATION = timedelta(days=36_500)

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_EXACT_BELOW = 600
"""Seconds below which seconds stand beside minutes: nobody asks for those of 45 minutes."""
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_NUMBER = r"(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?"
_PLAIN_SECONDS = re.compile(r"0|[1-9]\d{0,14}", re.ASCII)
_PART = re.compile(rf"({_NUMBER})(us|ms|s|m|h|d)", re.ASCII)
_PARTS = re.compile(rf"(?:{_NUMBER}(?:us|ms|s|m|h|d)){{1,6}}", re.ASCII)


def parse_duration(text: str) -> timedelta | None:
    """The duration of a text such as `30s`, `5m`, `1h30m`, `2d`, or a plain whole number of seconds. None if the text
    is not valid, is negative, or is longer than `MAX_DURATION`.

    OSMO itself writes one number and one unit (`d h m s ms us`); several together are unambiguous, so they are
    accepted, too.
    """
    text = text.strip()
    if _PLAIN_SECONDS.fullmatch(text):
        seconds = float(text)
    elif _PARTS.fullmatch(text):
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    else:
        return None
    return timedelta(seconds=seconds) if seconds <= MAX_DURATION.total_seconds() else None


def minute_text(time: datetime) -> str:
    """A time with a zone, to the minute."""
    return f"{time.astimezone(UTC).isoformat(' ')[:16]} UTC"  # strftime writes the year 1 with one digit


def span_text(seconds: float, *, is_signed: bool = False) -> str:
    """A length of time in at most two units: `12 s`, `3 min 7 s`, `45 min`, `4 h 31 min`, `2 d 4 h`. Every page,
    command and message writes it so. `is_signed` is for a difference: `+45 min`."""
    whole = int(abs(seconds))
    sign = "" if not whole else "\N{MINUS SIGN}" if seconds < 0 else "+" if is_signed else ""
    at = next((at for at, (size, _) in enumerate(_UNITS) if whole >= size), len(_UNITS) - 1)
    size, unit = _UNITS[at]
    count, rest = divmod(whole, size)
    text = f"{sign}{count} {unit}"
    if unit == "s" or (unit == "min" and whole >= _EXACT_BELOW):
        return text
    smaller, name = _UNITS[at + 1]
    return f"{text} {rest // smaller} {name}" if rest >= smaller else text
