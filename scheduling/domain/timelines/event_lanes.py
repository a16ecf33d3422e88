"""Events over time as lanes: one lane for each pool or subpool, with marks from left (oldest) to right (newest)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

MIN_SPAN = timedelta(minutes=1)
MERGED_PERCENT = 1.5
"""Marks of one lane and one action that are closer than this are one mark with a count."""
MAX_TICKS = 6
_STEPS = [timedelta(seconds=s) for s in (10, 30, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800)]


class LaneEvent(Protocol):
    """What a lane needs to know of an event."""

    @property
    def pk(self) -> int: ...

    @property
    def time(self) -> datetime: ...

    @property
    def action(self) -> str: ...

    @property
    def pool(self) -> str: ...

    @property
    def workflow(self) -> str: ...


@dataclass(frozen=True, slots=True)
class LaneMark:
    """One or more events of one action at nearly one time. `left` is the position in percent of the axis; `pk` is the
    oldest of the events."""

    pk: int
    left: float
    action: str
    time: datetime
    workflows: Sequence[str]

    @property
    def count(self) -> int:
        """The number of events."""
        return len(self.workflows)


@dataclass(frozen=True, slots=True)
class PoolLane:
    """The marks of one pool or subpool, the oldest first."""

    pool: str
    marks: Sequence[LaneMark]


@dataclass(frozen=True, slots=True)
class LaneTick:
    """A time on the axis with its position in percent."""

    time: datetime
    left: float


@dataclass(frozen=True, slots=True)
class LaneChart:
    """All lanes by name, over the time from `start` to `end` in UTC."""

    start: datetime
    end: datetime
    ticks: Sequence[LaneTick]
    lanes: Sequence[PoolLane]

    @property
    def has_days(self) -> bool:
        """Whether the ticks need a date in addition to the time of day."""
        return self.start.date() != self.end.date()

    @property
    def has_seconds(self) -> bool:
        """Whether a tick is not at a full minute."""
        return any(tick.time.second for tick in self.ticks)


def draw_lanes(events: Iterable[LaneEvent]) -> LaneChart | None:
    """The chart of the events, in any order; None without events."""
    rows = sorted(events, key=lambda each: (each.time, each.pk))
    if not rows:
        return None
    start, end = rows[0].time.astimezone(UTC), rows[-1].time.astimezone(UTC)
    if end - start < MIN_SPAN:
        start = end - MIN_SPAN
    span = end - start

    def left(time: datetime) -> float:
        return round(100 * ((time - start) / span), 2)

    by_pool: dict[str, list[LaneEvent]] = defaultdict(list)
    for row in rows:
        by_pool[row.pool].append(row)
    lanes = [PoolLane(pool, _merge_marks(by_pool[pool], left)) for pool in sorted(by_pool)]
    return LaneChart(start, end, [LaneTick(time, left(time)) for time in tick_times(start, end)], lanes)


def _merge_marks(rows: Sequence[LaneEvent], left: Callable[[datetime], float]) -> list[LaneMark]:
    marks: list[LaneMark] = []
    last: dict[str, int] = {}
    for row in rows:
        at = last.get(row.action)
        if at is not None and left(row.time) - marks[at].left <= MERGED_PERCENT:
            mark = marks[at]
            marks[at] = LaneMark(mark.pk, mark.left, mark.action, mark.time, [*mark.workflows, row.workflow])
        else:
            last[row.action] = len(marks)
            marks.append(LaneMark(row.pk, left(row.time), row.action, row.time, [row.workflow]))
    return marks


def tick_times(start: datetime, end: datetime) -> list[datetime]:
    """Round times in UTC between the ends, at most `MAX_TICKS`."""
    span = end - start
    step = next((each for each in _STEPS if span / each <= MAX_TICKS), span / MAX_TICKS)
    first = datetime(1970, 1, 1, tzinfo=UTC)
    number = -((first - start) // step)  # rounded up
    times = []
    while (time := first + number * step) <= end:
        times.append(time)
        number += 1
    return times[-MAX_TICKS:]
