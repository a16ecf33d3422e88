"""Times as Slurm writes them: spans (`30`, `1:30:00`, `2-12:30`) and moments (`2026-10-01T12:00:00`)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

NO_LIMITS: Final = frozenset({"", "-1", "unlimited", "infinite", "none", "(null)", "partition_limit", "unknown", "n/a"})
"""Words that stand for no limit, or for a value that Slurm does not have, in lower case."""

MICROSECONDS: Final = 1_000_000
_SPAN: Final = re.compile(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,4}))?(?::(\d{1,4}))?(?:\.\d{1,9})?", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1)
_UNIX: Final = re.compile(r"\d{9,11}", re.ASCII)


class BadSlurmValue(ValueError):
    """A text that is not such a value; the message says what is expected, and repeats nothing."""


@lru_cache(maxsize=4096)
def read_span(text: str) -> int | None:
    """Seconds of a limit or an elapsed time: `30` are minutes, `30:00`, `1:30:00`, `2-12`, `2-12:30`; None for no limit
    and for an unknown time. Raises BadSlurmValue."""
    text = text.strip()
    if text.lower() in NO_LIMITS:
        return None
    match = _SPAN.fullmatch(text)
    if match is None:
        raise BadSlurmValue("is not a time of Slurm, such as 30, 1:30:00 or 2-12")
    days, first, second, third = (None if part is None else int(part) for part in match.groups())
    assert first is not None
    if days is not None:
        return days * 86_400 + first * 3600 + (second or 0) * 60 + (third or 0)
    if third is not None:
        return first * 3600 + (second or 0) * 60 + third
    return first * 60 + (second or 0)


def read_moment(text: str) -> int | None:
    """Microseconds since 1970 of an ISO time (UTC without an offset) or of Unix seconds; None for an unknown time.
    Raises BadSlurmValue."""
    text = text.strip()
    if text.lower() in NO_LIMITS or text == "0":
        return None
    if _UNIX.fullmatch(text):
        return int(text) * MICROSECONDS
    try:
        time = datetime.fromisoformat(text) if "-" in text[1:] else None
        if time is not None:
            naive = time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time
            return (naive - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        pass
    raise BadSlurmValue("is not a time such as 2026-10-01T12:00:00, or Unknown")
