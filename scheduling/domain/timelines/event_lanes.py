"""Events over a range of time as lanes: one lane for each pool or subpool, from left (the begin) to right (the end)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

MIN_SPAN = timedelta(minutes=1)
MAX_TICKS = 6
MAX_LANES = 12
MAX_COLUMNS = 14
SLOTS_PER_COLUMN = 4
"""Events of one lane, one action and one slot are one mark."""
_STEPS = [
    timedelta(seconds=s)
    for s in (10, 30, 60, 300, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 604_800, 2_592_000)
]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SIZES = (1, 2, 5, 15)
"""The numbers of events from which a mark is one size larger."""


@dataclass(frozen=True, slots=True)
class LaneCount:
    """The number of events of one action in one leaf, in the slot that begins at `start`."""

    pool: str
    action: str
    start: datetime
    count: int


@dataclass(frozen=True, slots=True)
class LaneMark:
    """The events of one action in one slot. `left` is the middle of the slot, in percent of the axis; `size` is 1 to
    4."""

    left: float
    action: str
    count: int
    size: int


@dataclass(frozen=True, slots=True)
class PoolLane:
    """The marks of one pool or subpool, or of all that have fewer events. `total` counts its events."""

    pool: str
    total: int
    marks: Sequence[LaneMark]


@dataclass(frozen=True, slots=True)
class LaneColumn:
    """A part of the range, which a person can choose: its place in percent, and its events by leaf and action."""

    since: datetime
    until: datetime
    left: float
    width: float
    counts: Sequence[tuple[str, Mapping[str, int]]]

    @property
    def total(self) -> int:
        """The number of its events."""
        return sum(sum(each.values()) for _, each in self.counts)


@dataclass(frozen=True, slots=True)
class LaneTick:
    """A time on the axis with its position in percent."""

    time: datetime
    left: float


@dataclass(frozen=True, slots=True)
class LaneChart:
    """The lanes with the most events, by name, over the time from `start` to `end` in UTC."""

    start: datetime
    end: datetime
    ticks: Sequence[LaneTick]
    columns: Sequence[LaneColumn]
    lanes: Sequence[PoolLane]

    @property
    def has_days(self) -> bool:
        """Whether the ticks need a date in addition to the time of day."""
        return self.end - self.start > timedelta(days=1)


def column_length(start: datetime, end: datetime) -> timedelta:
    """The length of a column: a round time, at most :data:`MAX_COLUMNS` of them in the range."""
    return next((each for each in _STEPS if (end - start) / each <= MAX_COLUMNS), (end - start) / MAX_COLUMNS)


def slot_length(start: datetime, end: datetime) -> timedelta:
    """The length of a slot, whose events are counted together. Slots begin at whole multiples of it since 1970."""
    return column_length(start, end) / SLOTS_PER_COLUMN


def draw_lanes(counts: Iterable[LaneCount], start: datetime, end: datetime) -> LaneChart:
    """The chart of the events between two times."""
    start, end = start.astimezone(UTC), end.astimezone(UTC)
    step, slot, span = column_length(start, end), slot_length(start, end), end - start

    def left(time: datetime) -> float:
        return round(min(100.0, max(0.0, 100 * ((time - start) / span))), 2)

    rows = sorted(counts, key=lambda each: (each.start, each.action))
    totals: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        totals[row.pool] += row.count
    largest = sorted(totals, key=lambda name: (-totals[name], name))
    named = set(largest if len(largest) <= MAX_LANES else largest[: MAX_LANES - 1])
    others = f"{len(totals) - len(named)} others"
    by_lane: defaultdict[str, dict[tuple[datetime, str], int]] = defaultdict(dict)
    by_column: defaultdict[datetime, dict[str, dict[str, int]]] = defaultdict(dict)
    for row in rows:
        lane = row.pool if row.pool in named else others
        marks, key = by_lane[lane], (row.start, row.action)
        marks[key] = marks.get(key, 0) + row.count
        column = by_column[_round_down(row.start, step)].setdefault(lane, {})
        column[row.action] = column.get(row.action, 0) + row.count
    lanes = [
        PoolLane(
            name,
            sum(by_lane[name].values()),
            [
                LaneMark(left(at + slot / 2), action, count, sum(count >= each for each in _SIZES))
                for (at, action), count in by_lane[name].items()
            ],
        )
        for name in [*sorted(named), *([others] if others in by_lane else [])]
    ]
    columns = []
    at = _round_down(start, step)
    while at < end:
        since, until = max(at, start), min(at + step, end)
        counted = sorted(by_column[at].items(), key=lambda each: (-sum(each[1].values()), each[0]))
        columns.append(LaneColumn(since, until, left(since), round(left(until) - left(since), 2), counted))
        at += step
    return LaneChart(start, end, [LaneTick(time, left(time)) for time in tick_times(start, end)], columns, lanes)


def _round_down(time: datetime, step: timedelta) -> datetime:
    return _EPOCH + (time - _EPOCH) // step * step


def tick_times(start: datetime, end: datetime) -> list[datetime]:
    """Round times in UTC between the ends, at most `MAX_TICKS`."""
    span = end - start
    step = next((each for each in _STEPS if span / each <= MAX_TICKS), span / MAX_TICKS)
    number = -((_EPOCH - start) // step)  # rounded up
    times = []
    while (time := _EPOCH + number * step) <= end:
        times.append(time)
        number += 1
    return times[-MAX_TICKS:]
