"""Times: the server sends UTC, people read and write local time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from osmo_admin.cli.base.client_errors import ClientError

AGE_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def format_local_time(timestamp: str | None) -> str | None:
    """A time of the server (naive ones are UTC) as local time with its zone; any other text unchanged."""
    time = _read_server_time(timestamp)
    return f"{time.astimezone():%Y-%m-%d %H:%M:%S %Z}" if time else timestamp or None


def utc_time(timestamp: str | None) -> str | None:
    """A time of the server (naive ones are UTC) in UTC with its zone, in whole seconds; any other text unchanged."""
    time = _read_server_time(timestamp)
    return time.astimezone(UTC).isoformat(timespec="seconds") if time else timestamp or None


def _read_server_time(timestamp: str | None) -> datetime | None:
    """A time that the server sent, in UTC where it names no zone; None for any other text."""
    try:
        parsed = datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def parse_time(text: str, *, now: datetime | None = None, in_utc: bool = False, is_ahead: bool = False) -> str:
    """The typed time as naive UTC time of the server.

    A date or time without an offset is local, or UTC with `in_utc`; `90m`, `12h`, `7d` and `2w` are before now, or
    after it with `is_ahead`.
    Raises :class:`ClientError` on anything else, and for a local time that clocks skip or show twice.
    """
    try:
        if match := re.fullmatch(r"([1-9][0-9]{0,4})([mhdw])", text):
            length = int(match[1]) * AGE_UNITS[match[2]]
            time = (now or datetime.now(UTC)) + (length if is_ahead else -length)
        else:
            time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC) if in_utc else _from_local(time)
        return time.astimezone(UTC).replace(tzinfo=None, microsecond=0).isoformat()
    except (ValueError, OverflowError):  # also for a time whose moment is beyond the years 1 to 9999
        raise ClientError(
            "This is not a time. Write 2026-11-20 or 2026-11-20T15:04, or a length of time "
            f"{'from' if is_ahead else 'before'} now: 90m, 12h, 7d, 2w."
        ) from None


def _from_local(time: datetime) -> datetime:
    """The moment of a local time. Raises ClientError if the clocks skip it (summer time begins) or show it twice (it
    ends)."""
    first, second = (time.replace(fold=fold).astimezone() for fold in (0, 1))
    if first.utcoffset() == second.utcoffset():
        return first
    offsets = " or ".join(f"{each:%z}"[:3] + ":" + f"{each:%z}"[3:5] for each in (first, second))
    if first.astimezone(UTC).astimezone().replace(tzinfo=None) != time:
        raise ClientError(
            "There is no such local time: the clocks are put forward over it. Write an earlier or later time, or give "
            f"the offset from UTC ({offsets})."
        )
    raise ClientError(
        "This local time comes twice, because the clocks are put back then. Give the offset from UTC to say which one "
        f"is meant ({offsets})."
    )
