"""Quiet hours: the part of each day in which nothing is sent. Standard library only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from pools.domain.errors import Fault, Violation

HOURS_PATTERN: Final = r"([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d"
ZONE_PATTERN: Final = r"[A-Za-z][A-Za-z0-9_+/-]{0,63}"
_FORM = re.compile(rf"({HOURS_PATTERN})(?: ({ZONE_PATTERN}))?\Z", re.ASCII)
HOW: Final = (
    "Quiet hours are two different times and a time zone: 22:00-07:00 Europe/Berlin. Without a zone they are in UTC."
)


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From `begin` up to `end` by the clocks of `zone`, past midnight where `end` is earlier."""

    begin: time
    end: time
    zone: tzinfo

    def contain(self, moment: datetime) -> bool:
        """Whether this moment is one of them. The clocks of the zone decide, in summer and in winter."""
        clock = moment.astimezone(self.zone).time()
        if self.begin < self.end:
            return self.begin <= clock < self.end
        return clock >= self.begin or clock < self.end


def read_quiet_hours(text: str) -> QuietHours | None:
    """The quiet hours of a text as `22:00-07:00 Europe/Berlin`; None for a text that does not say any."""
    found = _FORM.match(text)
    if found is None:
        return None
    begin, end = (time.fromisoformat(part) for part in found[1].split("-"))
    zone = _read_zone(found[4])
    return None if zone is None or begin == end else QuietHours(begin, end, zone)


def _read_zone(name: str | None) -> tzinfo | None:
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # no such zone, or a name that is only a part of others
        return None


def is_quiet(text: str, moment: datetime) -> bool:
    """Whether nothing is sent at this moment; a text that nobody can read keeps nothing back."""
    hours = read_quiet_hours(text)
    return hours is not None and hours.contain(moment)


def check_quiet_hours(text: str) -> list[Violation]:
    """The fault of a text that is neither empty nor quiet hours."""
    if not text or read_quiet_hours(text) is not None:
        return []
    return [Violation("quiet_hours", Fault.BAD_VALUE, HOW)]
