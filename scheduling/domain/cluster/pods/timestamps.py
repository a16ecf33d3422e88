"""Times as Kubernetes writes them: RFC 3339 in UTC, whole seconds or six digits."""

from __future__ import annotations

from datetime import datetime


def parse_time(text: object) -> datetime | None:
    """The time; None for a value that is not a time with a zone."""
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else None
