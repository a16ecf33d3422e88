"""The periods of the record of use that a person can choose, in UTC: the last days, a month, or own days."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from scheduling.domain.lists import Bucket, UsageKey
from scheduling.selectors.usage.answers import UsageQuestion

HOURS_UP_TO = timedelta(days=8)
"""A longer window is drawn in days."""
MAX_LENGTH = timedelta(days=1100)
MONTHS_OFFERED = 13


@dataclass(frozen=True, slots=True)
class Period:
    """A window that ends now: its name in the address, and its words."""

    name: str
    title: str
    length: timedelta


PERIODS = (
    Period("24h", "24 hours", timedelta(hours=24)),
    Period("7d", "7 days", timedelta(days=7)),
    Period("30d", "30 days", timedelta(days=30)),
    Period("90d", "90 days", timedelta(days=90)),
)


@dataclass(frozen=True, slots=True)
class UsageWindow:
    """A chosen time: `name` is its name in the address and in the name of a file, `until` the end of what is on
    record, `end` the end of the period, which may be in the future."""

    name: str
    title: str
    since: datetime
    until: datetime
    end: datetime

    @property
    def file_name(self) -> str:
        """Its part of the name of a file: a window that ends now has its date, too."""
        return self.name if self.name[:1] == "2" and "-" in self.name else f"{self.name}-until-{self.until:%Y-%m-%d}"

    def question(self, by: UsageKey, pools: Sequence[str] = (), users: Sequence[str] = ()) -> UsageQuestion:
        """The record of the window, in hours or days."""
        bucket = Bucket.HOUR if self.end - self.since < HOURS_UP_TO else Bucket.DAY
        return UsageQuestion(self.since, self.until, by, bucket, pools, users)


def chosen_period(name: str | None, default: str = "7d") -> Period:
    """The period with this name in the address."""
    found = {period.name: period for period in PERIODS}
    return found.get(name or default, found[default])


def window_of(period: Period, now: datetime) -> UsageWindow:
    """The window of a period that ends now, from a full hour or day on."""
    begin = now - period.length
    since = begin.replace(minute=0, second=0, microsecond=0)
    if period.length >= HOURS_UP_TO:
        since = since.replace(hour=0)
    return UsageWindow(period.name, f"The last {period.title}", since, now, now)


def chosen_window(query: Mapping[str, str], now: datetime) -> tuple[UsageWindow, str]:
    """The window of an address, and what is wrong with it, in words: From and Until first, then the period."""
    days = [query.get(key, "").strip() for key in ("since", "until")]
    name, fault = query.get("period", ""), ""
    if any(days):
        found = _window_of_days(days[0], days[1], now)
        if isinstance(found, UsageWindow):
            return found, ""
        fault = found
    window = _window_of_month(name, now) or window_of(chosen_period(name, "30d"), now)
    if name and window.name != name and not fault:
        known = ", ".join(period.name for period in PERIODS)
        fault = f"The period is not known: known are {known}, and a month such as {now:%Y-%m}. {window.title} is shown."
    return window, fault


def offered_months(now: datetime) -> list[tuple[str, str]]:
    """The names and titles of the newest months, this one first."""
    first, found = now.astimezone(UTC).date().replace(day=1), []
    for _ in range(MONTHS_OFFERED):
        found.append((f"{first:%Y-%m}", f"{first:%B %Y}"))
        first = (first - timedelta(days=1)).replace(day=1)
    return found


def _window_of_month(name: str, now: datetime) -> UsageWindow | None:
    if not re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", name):
        return None
    first = date(int(name[:4]), int(name[5:]), 1)
    since, end = _midnight(first), _midnight((first + timedelta(days=31)).replace(day=1))
    return UsageWindow(name, f"{first:%B %Y}", since, min(end, now), end) if since < now else None


def _window_of_days(since_text: str, until_text: str, now: datetime) -> UsageWindow | str:
    today = now.astimezone(UTC).date()
    try:
        last = _read_day(until_text) if until_text else today
        first = _read_day(since_text) if since_text else last - timedelta(days=29)
    except (ValueError, OverflowError):
        return "Give days as 31 Oct 2026 or 2026-10-31. The period is shown instead."
    if first > last or first > today:
        return "The first day is after the last one, or in the future. The period is shown instead."
    if last - first > MAX_LENGTH:
        return f"A time is at most {MAX_LENGTH.days} days long. The period is shown instead."
    since, end = _midnight(first), _midnight(last + timedelta(days=1))
    title = f"{first:%-d %B} {first.year:04} to {last:%-d %B} {last.year:04}"
    return UsageWindow(f"{first}-to-{last}", title, since, min(end, now), end)


def day_text(day: date) -> str:
    """A day that reads the same everywhere: 31 Oct 2026."""
    return f"{day:%-d %b} {day.year:04}"


def shown_day(text: str) -> str:
    """A typed day as pages write it; what is not a day stays as it was typed."""
    try:
        return day_text(_read_day(text.strip()))
    except ValueError:
        return text


def _read_day(text: str) -> date:
    """A day as 2026-10-31, 31 Oct 2026 or 31 October 2026. Raises ValueError."""
    for form in ("%d %b %Y", "%d %B %Y"):
        with suppress(ValueError):
            return datetime.strptime(text, form).date()  # a day has no zone
    return date.fromisoformat(text)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
