"""When waiting work starts, in words that are as exact as the forecast is sure: one answer for a gang.

Pages and the client say the same: a time of day while the forecast is narrow, then a part of a day, then a number of
days, and nothing where it is wider. The zone of the words is the one of `now`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

UNKNOWN = "–"
NOW = "now"
MOST_LIKE, FEWEST_LIKE = 40, 10
"""The record of a forecast is that of the last MOST_LIKE like it; with fewer than FEWEST_LIKE it is not shown."""
_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_CLOCK = ((timedelta(minutes=20), 5), (timedelta(hours=1), 15), (timedelta(hours=3), 30))
"""Up to this distance between the early and the late time, a time of day is honest in steps of these minutes."""
_PART_OF_DAY = timedelta(hours=10)
_DAYS = timedelta(days=3)
_PARTS = ((5, "night"), (12, "morning"), (18, "afternoon"), (22, "evening"), (24, "night"))


@dataclass(frozen=True, slots=True)
class StartTimes:
    """The times by which 1, 5 and 9 of 10 such jobs start; None where too few sampled futures start it. `never`: a
    sentence where none does. `latest`: a time that a reservation makes certain; it replaces the forecast. `like`: the
    last scored forecasts like this one; `in_time`: those whose work had started by their late time."""

    made_at: datetime | None = None
    p10: datetime | None = None
    p50: datetime | None = None
    p90: datetime | None = None
    never: str | None = None
    latest: datetime | None = None
    like: int = 0
    in_time: int = 0

    @property
    def is_now(self) -> bool:
        """Whether the next round of the scheduler can start it."""
        return self.p90 is not None and self.p90 == self.made_at

    def named(self, now: datetime) -> datetime | None:
        """The time that the words are about: the certain one, else the middle one."""
        return self.latest if self._is_certain(now) else self.p50

    def _is_certain(self, now: datetime) -> bool:
        return self.latest is not None and self.latest > now


def start_about(start: StartTimes | None, now: datetime) -> str:
    """The words for a table: `now`, `by 16:00` where that is certain, `14:30`, `tomorrow afternoon`, `1–3 days`, or an
    en dash."""
    if start is None:
        return UNKNOWN
    if start.is_now:
        return NOW
    if start.latest is not None and start.latest > now:
        return f"by {_clock(start.latest, now, 15, up=True)}"
    return _forecast_words(start, now)


def start_about_sentence(start: StartTimes | None, now: datetime) -> str:
    """The same as a sentence; empty before the first forecast."""
    if start is None:
        return ""
    words = start_about(start, now)
    if words == NOW:
        return "It can start now."
    if words == UNKNOWN:
        return start.never or "Its start is too uncertain to name a time."
    if words.startswith("by "):
        return f"It starts {words} at the latest."
    before = "in " if words.endswith("days") and words[0].isdigit() else "about " if ":" in words else ""
    return f"It probably starts {before}{words}.{_record(start)}"


def _record(start: StartTimes) -> str:
    if start.like < FEWEST_LIKE:
        return ""
    return f" Of the last {start.like} like this one, {start.in_time} started in time."


def _forecast_words(start: StartTimes, now: datetime) -> str:
    if start.never or start.p50 is None or start.p90 is None or start.p90 <= now:
        return UNKNOWN  # a forecast that has passed says nothing any more
    early = max(start.p10 or now, now)
    middle, late = max(start.p50, early), max(start.p90, early)
    width = late - early
    for widest, minutes in _CLOCK:
        if width <= widest:
            return _clock(middle, now, minutes)
    if width <= _PART_OF_DAY:
        return _part_of_day(middle, now)
    if width <= _DAYS:
        first, last = (early - now) // _DAY, -(-(late - now) // _DAY)
        return f"{first}–{last} days" if first else "within a day" if last == 1 else f"within {last} days"
    return UNKNOWN


def _clock(time: datetime, now: datetime, minutes: int, *, up: bool = False) -> str:
    """The time of day in steps of some minutes, with the day unless it is today."""
    local = time.astimezone(now.tzinfo)
    since_midnight = local - local.replace(hour=0, minute=0, second=0, microsecond=0)
    step = minutes * _MINUTE
    steps = -(-since_midnight // step) if up else (since_midnight + step / 2) // step
    rounded = local - since_midnight + steps * step
    if rounded <= now:  # never a time that has passed
        rounded += step
    zone = " UTC" if now.tzinfo is UTC else ""
    day = _day(rounded, now)
    return f"{day} {rounded:%H:%M}{zone}".strip()


def _part_of_day(time: datetime, now: datetime) -> str:
    local = time.astimezone(now.tzinfo)
    part = next(name for end, name in _PARTS if local.hour < end)
    day = _day(local if local.hour >= _PARTS[0][0] else local - _DAY, now)  # the night belongs to the evening before it
    if not day or day == "yesterday":
        return "tonight" if part == "night" else f"this {part}"
    return f"{day} {part}"


def _day(time: datetime, now: datetime) -> str:
    """Empty for today; the weekday within a week."""
    days = (time.date() - now.date()).days
    if days <= 0:
        return "" if days == 0 else "yesterday"
    if days == 1:
        return "tomorrow"
    return f"{time:%A}" if days < 7 else f"{time.day} {time:%b}"
