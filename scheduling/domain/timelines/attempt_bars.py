"""The attempts of a workflow's tasks over time: one lane for each task, from left (oldest) to right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from scheduling.domain.statuses import TaskStatus
from scheduling.domain.timelines.event_lanes import MIN_SPAN, LaneTick, tick_times

MAX_LANES = 40


@dataclass(frozen=True, slots=True)
class AttemptFact:
    """One attempt; `number` is 0 for the first. `since` is when it began to wait, None if it has not; `start` and `end`
    are None until then."""

    group: str
    task: str
    number: int
    status: TaskStatus
    node: str
    since: datetime | None
    start: datetime | None
    end: datetime | None


@dataclass(frozen=True, slots=True)
class AttemptBar:
    """A part of an attempt; `kind` is waiting, running, good, bad or off. `left` and `width` are percent of the axis.
    `end` is None while it lasts."""

    kind: str
    left: float
    width: float
    number: int
    status: TaskStatus
    node: str
    start: datetime
    end: datetime | None


@dataclass(frozen=True, slots=True)
class TaskLane:
    """The bars of one task, the oldest first."""

    group: str
    task: str
    bars: Sequence[AttemptBar]


@dataclass(frozen=True, slots=True)
class AttemptChart:
    """The first :data:`MAX_LANES` tasks over the time from `start` to `end` in UTC; `hidden` counts the others."""

    start: datetime
    end: datetime
    ticks: Sequence[LaneTick]
    lanes: Sequence[TaskLane]
    hidden: int

    @property
    def has_days(self) -> bool:
        """Whether the ticks need a date in addition to the time of day."""
        return self.start.date() != self.end.date()

    @property
    def has_seconds(self) -> bool:
        """Whether a tick is not at a full minute."""
        return any(tick.time.second for tick in self.ticks)


def draw_attempts(attempts: Iterable[AttemptFact], now: datetime) -> AttemptChart | None:
    """The chart; None if no attempt has begun to wait. A clock that went back never gives a negative width."""
    by_task: dict[tuple[str, str], list[AttemptFact]] = {}
    for fact in attempts:
        if fact.since is not None:
            by_task.setdefault((fact.group, fact.task), []).append(fact)
    every = [fact for facts in by_task.values() for fact in facts]
    if not every:
        return None
    start = min(fact.since for fact in every if fact.since is not None).astimezone(UTC)
    last = max(fact.end or now for fact in every).astimezone(UTC)
    end = max(last, start + MIN_SPAN)
    span = end - start
    shown = list(by_task.items())[:MAX_LANES]
    lanes = [
        TaskLane(group, task, [bar for fact in facts for bar in _bars(fact, now, start, span)])
        for (group, task), facts in shown
    ]
    ticks = [LaneTick(time, _percent(time, start, span)) for time in tick_times(start, end)]
    return AttemptChart(start, end, ticks, lanes, len(by_task) - len(shown))


def _bars(fact: AttemptFact, now: datetime, origin: datetime, span: timedelta) -> list[AttemptBar]:
    assert fact.since is not None, "only attempts that have begun to wait are drawn"
    found = []
    parts = [("waiting", fact.since, fact.start or fact.end)]
    if fact.start is not None:
        parts.append((_kind(fact), fact.start, fact.end))
    for kind, begin, end in parts:
        left = _percent(begin, origin, span)
        width = max(0.0, round(_percent(end or now, origin, span) - left, 2))
        found.append(AttemptBar(kind, left, width, fact.number, fact.status, fact.node, begin, end))
    return found


def _kind(fact: AttemptFact) -> str:
    if fact.end is None:
        return "running"
    if fact.status is TaskStatus.COMPLETED:
        return "good"
    return "off" if fact.status in {TaskStatus.FAILED_CANCELED, TaskStatus.FAILED_PREEMPTED} else "bad"


def _percent(time: datetime, start: datetime, span: timedelta) -> float:
    return min(100.0, max(0.0, round(100 * ((time - start) / span), 2)))
