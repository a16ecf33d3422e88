"""Times as Kubernetes writes them: RFC 3339 in UTC, whole seconds or six digits."""

from __future__ import annotations

from datetime import datetime


def parse_time(text: object) -> datetime | None:
    """The moment; None for what is none."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None
