"""Times: the server sends naive UTC, people read and write local time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from osmo_admin.cli.client_errors import ClientError

AGE_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def format_local_time(timestamp: str | None) -> str | None:
    """A naive UTC time of the server as local time with its zone; any other text unchanged."""
    if not timestamp:
        return None
    try:
        parsed = datetime.fromisoformat(timestamp)
    except ValueError:
        return timestamp
    local = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone()
    return f"{local:%Y-%m-%d %H:%M:%S %Z}"


def parse_time(text: str, *, now: datetime | None = None) -> str:
    """The typed time as naive UTC time of the server.

    A date or time without an offset is local; `90m`, `12h`, `7d` and `2w` are relative to now.
    Raises :class:`ClientError` on anything else.
    """
    if match := re.fullmatch(r"(\d{1,5})([mhdw])", text):
        time = (now or datetime.now(UTC)) - int(match[1]) * AGE_UNITS[match[2]]
    else:
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise ClientError(
                f"{text!r} is not a time. Write 2026-11-20, 2026-11-20T15:04, or 90m, 12h, 7d, 2w for a past time."
            ) from None
    return time.astimezone(UTC).replace(tzinfo=None, microsecond=0).isoformat()


def format_duration(seconds: float | None) -> str | None:
    """Seconds as `1h 02m`, `3m 07s` or `12s`."""
    if seconds is None:
        return None
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02}m"
    return f"{minutes}m {rest:02}s" if minutes else f"{rest}s"
